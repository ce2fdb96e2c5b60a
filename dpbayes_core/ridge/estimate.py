"""AdaSSP's estimate: ridge regression whose penalty is only as large as the noise and the least eigenvalue ask for.

Wang's bounds with the release's own noise: the penalty makes the noisy moments as safe to invert as a matrix whose
least eigenvalue exceeds the norm that their noise keeps below with probability 1 - MISSED.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.ridge.release import RidgeRelease

MISSED = 0.05


@dataclass(frozen=True)
class RidgeEstimate:
    """Standardised coefficients, the constant first, and the covariance that the noise gives them to first order."""

    theta: Floats
    covariance: Floats
    penalty: float


def penalty_of(release: RidgeRelease) -> float:
    """What one holder adds to the diagonal."""
    size, scale = release.schema.m, float(release.mechanism.scales[0])
    least = max(release.values[-1] - float(release.mechanism.scales[-1]) * sqrt(2 * log(2 / MISSED)), 0.0)
    return max(0.0, scale * sqrt(size * log(2 * size**2 / MISSED)) - least)


def ridge_estimate(releases: Sequence[RidgeRelease]) -> RidgeEstimate:
    """Of all holders together: moments, X'y and penalties are summed."""
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
