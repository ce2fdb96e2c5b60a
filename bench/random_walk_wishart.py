"""The distributed paper's random walk over noisy moments, written plainly: numpy, one matrix at a time.

A rival of the default sampler in benchmarks, and the reference in tests of `normal-x`. Its law:
normal covariates, (theta, sigma2) as in `Prior`, X'y and y'y normal given S with their exact means and covariances.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release

ADAPTED = 10  # the degrees of the walks are adapted in the first tenth of the draws, as published
DROPPED = 2  # the first half is not kept, as published


@dataclass
class Walker:
    """A holder's moments S of (1, x), its released moments with their variances, and the degrees of its walk."""

    moments: Floats
    noisy: Floats
    variances: Floats
    degrees: float


def run(release: Evidence, draws: int, seed: int) -> Floats:
    """Draws of theta, standardised, the constant first: (draws, d + 1); as many again are made and dropped before."""
    return run_all(release, draws, seed, scattered=True)[:, :-1]


def run_all(
    release: Evidence,
    draws: int,
    seed: int,
    *,
    fixed: bool = False,
    prior: Prior | None = None,
    scattered: bool = False,
) -> Floats:
    """The same with sigma as the last column; `fixed` plugs the repaired moments in instead of moving them.

    A walk starts at the release, as published, or `scattered` around it by as much noise again.
    """
    generator = np.random.default_rng(seed)
    added = (prior or Prior()).response_matrix(release.schema)
    shape = (prior or Prior()).noise_shape
    walkers = [_walker(part, fixed, generator if scattered else None) for part in parts_of(release)]
    d = release.schema.d
    theta, variance = np.zeros(d + 1), 0.1
    kept, total = np.empty((draws, d + 2)), DROPPED * draws
    for iteration in range(total):
        if not fixed:
            mean, covariance = _covariates([walker.moments for walker in walkers], generator)
            for walker in walkers:
                accepted = _walk(walker, (theta, variance), (mean, covariance), generator)
                if iteration < total / ADAPTED:
                    walker.degrees *= np.exp(-2 * (1 + iteration) ** -0.5 * (accepted - 0.25))
        theta = _coefficients(walkers, theta, variance, added, generator) if iteration else _centre(walkers, added)
        variance = _variance(walkers, (theta, variance), (added, shape), generator)
        if iteration >= total - draws:
            kept[iteration - total + draws] = *theta, np.sqrt(variance)
    return kept


def _walker(release: Release, fixed: bool, scatter: np.random.Generator | None) -> Walker:
    size = release.schema.m
    noisy, variances = release.matrix(), np.zeros((size + 1, size + 1))
    for (i, j), scale in zip(release.entries, np.asarray(release.mechanism.scales), strict=True):
        variances[i, j] = variances[j, i] = scale**2
    moments = noisy[:size, :size].copy()
    if scatter is not None:
        moved = np.sqrt(variances[:size, :size]) * scatter.standard_normal((size, size))
        moments += np.tril(moved) + np.tril(moved, -1).T
    rows, mean = moments[0, 0], moments[0, 1:] / moments[0, 0]
    values, vectors = np.linalg.eigh(moments[1:, 1:] - rows * np.outer(mean, mean))
    least = 0.0 if fixed else 0.001 * rows
    moments[1:, 1:] = vectors @ np.diag(np.maximum(values, least)) @ vectors.T + rows * np.outer(mean, mean)
    return Walker(moments, noisy, variances, degrees=max(rows**2 / 100, 100.0))


def _scatter(moments: Floats) -> tuple[float, Floats, Floats]:
    rows, mean = moments[0, 0], moments[0, 1:] / moments[0, 0]
    return rows, mean, moments[1:, 1:] - rows * np.outer(mean, mean)


def _wishart(degrees: float, scale: Floats, generator: np.random.Generator) -> Floats:
    d = len(scale)
    lower = np.tril(generator.standard_normal((d, d)), -1)
    lower[range(d), range(d)] = np.sqrt(generator.chisquare(degrees - np.arange(d)))
    root = np.linalg.cholesky(scale) @ lower
    return root @ root.T


def _covariates(moments: Sequence[Floats], generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Mean and covariance of x: normal-inverse-Wishart with weight .01, degrees d + 2, scatter .01 I."""
    total = np.sum(moments, axis=0)
    d = len(total) - 1
    weight = 0.01 + total[0, 0]
    centre = total[0, 1:] / weight
    scatter = 0.01 * np.eye(d) + total[1:, 1:] - weight * np.outer(centre, centre)
    covariance = np.linalg.inv(_wishart(d + 2 + total[0, 0], np.linalg.inv(scatter), generator))
    return generator.multivariate_normal(centre, covariance / weight), covariance


def _walk(
    walker: Walker, law: tuple[Floats, float], normal: tuple[Floats, Floats], generator: np.random.Generator
) -> float:
    """A Metropolis-Hastings step: Wishart around the scatter, normal around the means; returns its acceptance rate."""
    rows, mean, scatter = _scatter(walker.moments)
    d, degrees = len(mean), walker.degrees + len(mean)
    moved_scatter = _wishart(degrees, scatter / degrees, generator)
    moved_mean = generator.multivariate_normal(mean, scatter / (rows * degrees))
    moved = np.block(
        [
            [np.array([[rows]]), rows * moved_mean[None, :]],
            [rows * moved_mean[:, None], moved_scatter + rows * np.outer(moved_mean, moved_mean)],
        ]
    )
    inverse, moved_inverse = np.linalg.inv(scatter), np.linalg.inv(moved_scatter)
    logs = np.linalg.slogdet(scatter)[1], np.linalg.slogdet(moved_scatter)[1]
    shift = moved_mean - mean
    ratio = (degrees - (d + 1) / 2) * (logs[0] - logs[1])
    ratio -= degrees / 2 * (np.trace(moved_inverse @ scatter) - np.trace(inverse @ moved_scatter))
    ratio += (logs[0] - logs[1]) / 2 - rows * degrees / 2 * (shift @ moved_inverse @ shift - shift @ inverse @ shift)
    for sign, moments in ((1, moved), (-1, walker.moments)):
        ratio += sign * (_moments_density(moments, normal) + _noise_density(moments, walker))
        ratio += sign * sum(_response_density(walker, moments, *law))
    accepted = float(np.exp(min(0.0, ratio)))
    if generator.random() < accepted:
        walker.moments = moved
    return accepted


def _moments_density(moments: Floats, normal: tuple[Floats, Floats]) -> float:
    rows, mean, scatter = _scatter(moments)
    centre, covariance = normal
    around = scatter + rows * np.outer(mean - centre, mean - centre)
    precision = np.linalg.inv(covariance)
    return (rows - len(mean) - 2) / 2 * np.linalg.slogdet(scatter)[1] - np.trace(precision @ around) / 2


def _noise_density(moments: Floats, walker: Walker) -> float:
    first, second = np.triu_indices(len(moments))
    first, second = first[1:], second[1:]  # the count is known
    squares = (walker.noisy[first, second] - moments[first, second]) ** 2 / walker.variances[first, second]
    return -float(squares.sum()) / 2


def _response_density(walker: Walker, moments: Floats, theta: Floats, variance: float) -> tuple[float, float]:
    """Log densities of the noisy X'y, and of the noisy y'y given it."""
    rows, size = moments[0, 0], len(theta)
    noise = walker.variances[: size + 1, size]
    cross, noisy = moments @ theta, walker.noisy[: size + 1, size]
    law = variance * moments + np.diag(noise[:size])
    inverse = np.linalg.inv(law)
    residual = noisy[:size] - cross
    first = -np.linalg.slogdet(law)[1] / 2 - residual @ inverse @ residual / 2
    joint = 2 * variance * cross
    spread = 4 * variance * theta @ cross + 2 * rows * variance**2 + noise[size] - joint @ inverse @ joint
    left = noisy[size] - theta @ cross - rows * variance - joint @ inverse @ residual
    return first, -np.log(spread) / 2 - left**2 / (2 * spread)


def _conditional(walkers: Sequence[Walker], variance: float, added: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of theta given S, sigma2 and the noisy X'y; `added` is the prior's response matrix."""
    size = len(added) - 1
    precision, linear = added[:size, :size] / variance, added[:size, size] / variance
    for walker in walkers:
        law = variance * walker.moments + np.diag(walker.variances[:size, size])
        gain = walker.moments @ np.linalg.inv(law)
        precision = precision + gain @ walker.moments
        linear = linear + gain @ walker.noisy[:size, size]
    covariance = np.linalg.inv(precision)
    return covariance @ linear, (covariance + covariance.T) / 2


def _centre(walkers: Sequence[Walker], added: Floats) -> Floats:
    return _conditional(walkers, 0.1, added)[0]


def _coefficients(
    walkers: Sequence[Walker], theta: Floats, variance: float, added: Floats, generator: np.random.Generator
) -> Floats:
    moved = generator.multivariate_normal(*_conditional(walkers, variance, added))
    ratio = sum(
        _response_density(walker, walker.moments, moved, variance)[1]
        - _response_density(walker, walker.moments, theta, variance)[1]
        for walker in walkers
    )
    return moved if np.log(generator.random()) < ratio else theta


def _variance(
    walkers: Sequence[Walker],
    law: tuple[Floats, float],
    prior: tuple[Floats, float],
    generator: np.random.Generator,
) -> float:
    """A random walk on log sigma2, its step the spread of a sum of squares of as many rows."""
    theta, variance = law
    added, shape = prior
    rows = sum(walker.moments[0, 0] for walker in walkers)
    noise = np.sqrt(sum(walker.variances[-1, -1] for walker in walkers)) / (rows * variance)
    moved = variance * float(np.exp(2 * (np.sqrt(2 / rows) + min(noise, 0.5)) * generator.standard_normal()))
    extended = np.append(theta, -1.0)
    square = float(extended @ added @ extended)

    def density(value: float) -> float:
        response = sum(sum(_response_density(walker, walker.moments, theta, value)) for walker in walkers)
        return response - (shape + len(theta) / 2) * np.log(value) - square / (2 * value)

    # the step depends on where it starts, so the ratio has both proposals' densities
    def proposal(start: float, end: float) -> float:
        step = 2 * (np.sqrt(2 / rows) + min(noise * variance / start, 0.5))
        return -np.log(step) - (np.log(end / start) / step) ** 2 / 2

    ratio = density(moved) - density(variance) + proposal(moved, variance) - proposal(variance, moved)
    return moved if np.log(generator.random()) < ratio else variance
