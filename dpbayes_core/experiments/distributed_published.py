"""The distributed paper's methods as published, faults included: for evaluation on public and synthetic data only.

Bounds and scaling are taken from the data, the noise's calibration has its root in the wrong place, and y'y is not
released. `epsilon_spent` is the actual epsilon of such a release. No ledger can charge these methods.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.accounting import analytic_gaussian_epsilon

SHAPE, RATE = 20.0, 0.5  # of sigma2
PRIOR_VARIANCE = (SHAPE - 1) / RATE  # of each coefficient
STEP = 0.1  # of the walk of sigma2
MISSED = 0.05


def normal_cdf(value: float) -> float:
    """P(Z <= value)."""
    from scipy.special import ndtr

    return float(ndtr(value))


def published_scale(epsilon: float, delta: float) -> float:
    """The published noise at sensitivity 1, with Phi(-sqrt(epsilon) u) instead of the correct Phi(-sqrt(epsilon u))."""

    def loss(u: float) -> float:
        return normal_cdf(-sqrt(epsilon) * u) - exp(epsilon) * normal_cdf(-sqrt(epsilon * (u + 2)))

    low, high = 0.0, 1.0
    while loss(high) > delta:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) > delta else (low, middle)
    return (sqrt(1 + high / 2) + sqrt(high / 2)) / sqrt(2 * epsilon)


@dataclass(frozen=True)
class Published:
    """One holder's release: noisy X'X and X'y, and the scale of their noise."""

    moments: Floats
    cross: Floats
    rows: int
    scale: float


@dataclass(frozen=True)
class PublishedData:
    """Covariates and response scaled by the data themselves, and their bounds then."""

    covariates: Floats
    response: Floats
    radius: float
    height: float
    centre: Floats  # of the covariates, in their own units
    spread: Floats
    middle: float  # of the response
    unit: float

    @classmethod
    def of(cls, covariates: Floats, response: Floats) -> "PublishedData":
        """z-scores of the covariates; the response centred and divided by its largest absolute value."""
        centre, spread, middle = covariates.mean(axis=0), covariates.std(axis=0), float(response.mean())
        scaled, unit = (covariates - centre) / spread, float(np.abs(response - middle).max())
        return cls(
            covariates=scaled,
            response=(response - middle) / unit,
            radius=float(np.linalg.norm(scaled, axis=1).max()),
            height=1.0,
            centre=centre,
            spread=spread,
            middle=middle,
            unit=unit,
        )

    @property
    def published_sensitivity(self) -> float:
        """The sensitivity of adding or removing a row, which the paper uses for replacing one."""
        return self.radius * sqrt(self.radius**2 + self.height**2)

    @property
    def true_sensitivity(self) -> float:
        """The sensitivity of replacing a row, for two covariates or more."""
        if self.height**2 <= 2 * self.radius**2:
            return sqrt(2) * (self.radius**2 + self.height**2 / 2)
        return 2 * self.radius * self.height

    def epsilon_spent(self, epsilon: float, delta: float) -> tuple[float, float]:
        """The actual epsilon of the published noise under add-remove and under replace-one, at the same delta."""
        scale = published_scale(epsilon, delta) * self.published_sensitivity
        added, replaced = self.published_sensitivity, self.true_sensitivity
        return analytic_gaussian_epsilon(added, scale, delta), analytic_gaussian_epsilon(replaced, scale, delta)


def published_releases(
    data: PublishedData, holders: Sequence[NDArray[np.int64]], scale: float, generator: np.random.Generator
) -> list[Published]:
    """Each holder's X'X and X'y with noise of this scale on unique entries."""
    found: list[Published] = []
    for own in holders:
        x, y = data.covariates[own], data.response[own]
        upper = np.triu(generator.standard_normal((x.shape[1], x.shape[1])))
        noise = upper + np.triu(upper, 1).T
        cross = x.T @ y + scale * generator.standard_normal(x.shape[1])
        found.append(Published(x.T @ x + scale * noise, cross, len(x), scale))
    return found


def nearest_possible(matrix: Floats) -> Floats:
    """The matrix with negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def conditional(moments: Sequence[Floats], releases: Sequence[Published], variance: float) -> tuple[Floats, Floats]:
    """Mean and covariance of theta given X'X, sigma2 and the noisy X'y."""
    d = len(moments[0])
    precision, linear = np.eye(d) / PRIOR_VARIANCE, np.zeros(d)
    for own, release in zip(moments, releases, strict=True):
        turned = own @ np.linalg.inv(variance * own + release.scale**2 * np.eye(d))
        precision, linear = precision + turned @ own, linear + turned @ release.cross
    covariance = np.linalg.inv(precision)
    return covariance @ linear, (covariance + covariance.T) / 2


def fixed_s_fast(releases: Sequence[Published], height: float) -> Floats:
    """Posterior mean in closed form, with a third of the bound for the variance."""
    return conditional([nearest_possible(one.moments) for one in releases], releases, height / 3)[0]


def ada_ssp(
    data: PublishedData,
    holders: Sequence[NDArray[np.int64]],
    stated: tuple[float, float],
    generator: np.random.Generator,
) -> Floats:
    """Ridge regression by AdaSSP: three releases with a third of epsilon and delta each, wrongly calibrated."""
    epsilon, delta = stated[0] / 3, stated[1] / 3
    scale, square = published_scale(epsilon, delta), data.radius**2
    d = data.covariates.shape[1]
    total, cross = np.zeros((d, d)), np.zeros(d)
    for own in holders:
        x, y = data.covariates[own], data.response[own]
        bound = log(2 / delta)
        least = float(np.linalg.eigvalsh(x.T @ x)[0]) + square / epsilon * (sqrt(bound) * generator.normal() - bound)
        penalty = max(0.0, sqrt(d * bound * log(2 * d**2 / MISSED)) * square / epsilon - max(least, 0.0))
        upper = np.triu(generator.standard_normal((d, d)))
        total += x.T @ x + scale * square * (upper + np.triu(upper, 1).T) + penalty * np.eye(d)
        cross += x.T @ y + scale * data.radius * data.height * generator.standard_normal(d)
    return np.asarray(np.linalg.solve(total, cross), dtype=np.float64)


def ada_ssp_spends(epsilon: float, delta: float) -> float:
    """The actual epsilon of the three releases of `ada_ssp` together under replace-one, for any bounds."""
    scale, least = published_scale(epsilon / 3, delta / 3), sqrt(log(6 / delta)) / (epsilon / 3)
    moved = sqrt(2 / scale**2 + 4 / scale**2 + 1 / least**2)  # sqrt(2) R^2, 2 R Y and R^2, over their noise
    return analytic_gaussian_epsilon(moved, 1, delta)


def mcmc(
    releases: Sequence[Published], height: float, iterations: int, generator: np.random.Generator, *, walking: bool
) -> Floats:
    """Mean of theta over the second half of a chain: normal-x if `walking`, else fixed-s with moments plugged in."""
    d, plus = len(releases[0].cross), 1.0 if walking else 0.0
    moments = [nearest_possible(one.moments) + plus * np.eye(d) for one in releases]
    degrees = [max(one.rows**2 / 100, d + 1.0) for one in releases]
    scatter = generator.standard_normal((d, d))
    variance, theta, total = height / 3, np.zeros(d), np.zeros(d)
    for iteration in range(iterations):
        if walking:
            covariance = _inverse_wishart(scatter.T @ scatter + np.sum(moments, axis=0), releases, generator)
            for place, release in enumerate(releases):
                moved = walk(moments[place], release, degrees[place], (theta, variance, covariance), generator)
                moments[place], accepted = moved
                if iteration < iterations / 10:
                    degrees[place] *= exp(-2 * (accepted - 0.25) / sqrt(1 + iteration))
                    degrees[place] = max(degrees[place], d + 1.0)
        theta = generator.multivariate_normal(*conditional(moments, releases, variance))
        variance = _walk_variance(moments, releases, theta, variance, generator)
        total += theta * (iteration >= iterations // 2)
    return total / (iterations - iterations // 2)


def _wishart(degrees: float, root: Floats, generator: np.random.Generator) -> Floats:
    d = len(root)
    lower = np.tril(generator.standard_normal((d, d)), -1)
    lower[range(d), range(d)] = np.sqrt(generator.chisquare(degrees - np.arange(d)))
    half = np.asarray(root @ lower, dtype=np.float64)
    return half @ half.T


def _inverse_wishart(scale: Floats, releases: Sequence[Published], generator: np.random.Generator) -> Floats:
    degrees = len(scale) + 1 + sum(one.rows for one in releases)
    root: Floats = np.asarray(np.linalg.cholesky(np.linalg.inv(scale)), dtype=np.float64)
    return np.asarray(np.linalg.inv(_wishart(degrees, root, generator)), dtype=np.float64)


def walk(
    own: Floats,
    release: Published,
    degrees: float,
    law: tuple[Floats, float, Floats],
    generator: np.random.Generator,
) -> tuple[Floats, float]:
    """A Wishart step of one holder's X'X: its new value, and the acceptance probability."""
    d, (theta, variance, covariance) = len(own), law
    moved = _wishart(degrees, np.asarray(np.linalg.cholesky(own / degrees), dtype=np.float64), generator)
    precision, logs = np.linalg.inv(covariance), [np.linalg.slogdet(one)[1] for one in (own, moved)]
    ratio = (degrees - (d + 1) / 2) * (logs[0] - logs[1])
    ratio -= degrees / 2 * (np.trace(np.linalg.solve(moved, own)) - np.trace(np.linalg.solve(own, moved)))
    ratio += (release.rows - d - 1) / 2 * (logs[1] - logs[0]) - np.trace(precision @ (moved - own)) / 2
    upper = np.triu_indices(d)
    for sign, one in ((1, moved), (-1, own)):
        ratio -= sign * float(np.sum((release.moments - one)[upper] ** 2)) / (2 * release.scale**2)
        ratio += sign * _cross_density(one, release, theta, variance)
    accepted = exp(min(0.0, float(ratio)))
    return (moved if generator.random() < accepted else own), accepted


def _cross_density(own: Floats, release: Published, theta: Floats, variance: float) -> float:
    law, residual = variance * own + release.scale**2 * np.eye(len(own)), release.cross - own @ theta
    return float(-np.linalg.slogdet(law)[1] / 2 - residual @ np.linalg.solve(law, residual) / 2)


def _walk_variance(
    moments: Sequence[Floats],
    releases: Sequence[Published],
    theta: Floats,
    variance: float,
    generator: np.random.Generator,
) -> float:
    moved = variance + STEP * generator.normal()
    if moved <= 0:
        return variance
    ratio = -(SHAPE + 1) * log(moved / variance) - RATE * (1 / moved - 1 / variance)
    for own, release in zip(moments, releases, strict=True):
        ratio += _cross_density(own, release, theta, moved) - _cross_density(own, release, theta, variance)
    return moved if log(generator.random()) < ratio else variance
