"""The sampler `ada-ssp`: AdaSSP's estimate, and independent draws around it.

AdaSSP is ridge regression whose penalty is only as large as the noise and the least eigenvalue require: by Wang's
bounds, with the noise of this release, penalty and least eigenvalue together exceed the norm of the noise on the
moments with probability 1 - MISSED.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms.noise_law import GAUSSIAN, unread
from dpbayes_core.ridge.release import RidgeRelease
from dpbayes_core.sampling.independent import IndependentDraws

MISSED = 0.05


@dataclass(frozen=True)
class RidgeEstimate:
    """Standardised coefficients, the constant first, and their first-order covariance from the noise."""

    theta: Floats
    covariance: Floats
    penalty: float


def penalty_of(release: RidgeRelease) -> float:
    """The penalty that one holder adds to the diagonal."""
    size, scale = release.schema.m, float(release.mechanism.scales[0])
    least = max(release.values[-1] - float(release.mechanism.scales[-1]) * sqrt(2 * log(2 / MISSED)), 0.0)
    return max(0.0, scale * sqrt(size * log(2 * size**2 / MISSED)) - least)


def ridge_estimate(releases: Sequence[RidgeRelease]) -> RidgeEstimate:
    """The estimate from all holders, whose moments, X'y and penalties are summed."""
    total = np.sum([release.moments() for release in releases], axis=0)
    penalty, size = sum(penalty_of(release) for release in releases), len(total)
    inverse = np.linalg.inv(total[:, :size] + penalty * np.eye(size))
    theta = inverse @ total[:, size]
    spread = np.zeros((size, size))
    for release in releases:
        # the noise of S theta - X'y, entry by entry
        for (i, j), scale in zip(release.entries, release.mechanism.scales, strict=False):
            moved = np.zeros(size)
            if j == size:
                moved[i] = scale
            else:
                moved[i] += scale * theta[j]
                moved[j] += scale * theta[i] * (i != j)
            spread += np.outer(moved, moved)
    return RidgeEstimate(theta, inverse @ spread @ inverse.T, penalty)


@dataclass(frozen=True)
class AdaSSP(IndependentDraws):
    """Normal draws around the estimate, with the covariance from the privacy noise."""

    name: str = "ada-ssp"
    takes: tuple[str, ...] = ("ridge",)
    compared_with: str | None = None
    target: str = "ridge estimate, with the spread that the privacy noise gives it to first order"
    calibrated: bool = False
    cost: str = "O(d^3) once, O(d^2) a draw"
    caveat: str = (
        "A point estimate, drawn towards zero where noise dominates: its spread knows the privacy noise alone, "
        "neither the penalty's bias nor the sampling error, and is no posterior."
    )

    def refusal(self, release: RidgeRelease) -> str | None:
        """Why it cannot take the release: noise that is not Gaussian, for which the penalty is made."""
        return unread(release.mechanism, (GAUSSIAN,))

    def prepare(self, release: RidgeRelease, prior: Any) -> RidgeEstimate:
        """The estimate; a prior plays no part."""
        return ridge_estimate((release,))

    def draw(self, problem: RidgeEstimate, generator: np.random.Generator, count: int) -> Floats:
        """Coefficients around the estimate."""
        root = np.linalg.cholesky(problem.covariance)
        return problem.theta + np.stack([root @ one for one in generator.standard_normal((count, len(problem.theta)))])

    def draws(self, release: RidgeRelease, parameters: Floats) -> Mapping[str, Floats]:
        """Coefficients; a release of this kind does not inform sigma."""
        theta, _ = release.schema.to_user_units(parameters, np.zeros(parameters.shape[:-1]))
        return {name: theta[..., place] for place, name in enumerate(release.schema.coefficients)}
