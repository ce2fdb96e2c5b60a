"""The distributed paper's other samplers, written plainly: numpy, explicit inverses."""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release


def noise_of(release: Release) -> Floats:
    size = release.schema.m + 1
    found = np.zeros((size, size))
    for (i, j), scale in zip(release.entries, np.asarray(release.mechanism.scales), strict=True):
        found[i, j] = found[j, i] = scale**2
    return found


def possible(moments: Floats) -> Floats:
    """Moments with negative eigenvalues of their centred scatter set to zero."""
    rows, mean = moments[0, 0], moments[0, 1:] / moments[0, 0]
    values, vectors = np.linalg.eigh(moments[1:, 1:] - rows * np.outer(mean, mean))
    mended = moments.copy()
    mended[1:, 1:] = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T + rows * np.outer(mean, mean)
    return mended


def wishart(degrees: float, scale: Floats, generator: np.random.Generator) -> Floats:
    """A Wishart draw by Bartlett's factor; degrees need not be whole."""
    size = len(scale)
    lower = np.tril(generator.standard_normal((size, size)), -1)
    lower[range(size), range(size)] = np.sqrt(generator.chisquare(degrees - np.arange(size)))
    root = np.linalg.cholesky(scale) @ lower
    return root @ root.T


def conjugate(total: Floats, prior: Floats, shape: float, generator: np.random.Generator) -> tuple[Floats, float]:
    """A draw of (theta, sigma2) given exact moments."""
    full = prior + total
    centre = np.linalg.solve(full[:-1, :-1], full[:-1, -1])
    scale = (full[-1, -1] - full[-1, :-1] @ centre) / 2
    variance = scale / generator.gamma(shape + total[0, 0] / 2)
    return generator.multivariate_normal(centre, variance * np.linalg.inv(full[:-1, :-1])), variance


def covariates(total: Floats, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """A draw of mean and covariance of x given exact moments of (1, x)."""
    d, weight = len(total) - 1, 0.01 + total[0, 0]
    centre = total[0, 1:] / weight
    scatter = 0.01 * np.eye(d) + total[1:, 1:] - weight * np.outer(centre, centre)
    covariance = np.linalg.inv(wishart(d + 2 + total[0, 0], np.linalg.inv(scatter), generator))
    return generator.multivariate_normal(centre, covariance / weight), covariance


def gibbs_of_whole_moments(release: Evidence, draws: int, seed: int, prior: Prior) -> Floats:
    """Bernstein and Sheldon's sampler, for every holder: (theta, sigma) given the repaired sum, moments given them."""
    generator, parts = np.random.default_rng(seed), parts_of(release)
    added, size = prior.response_matrix(release.schema), release.schema.m + 1
    places = [(i, j) for i in range(size) for j in range(max(i, 1), size)]
    released = [(part.matrix(), noise_of(part)) for part in parts]
    moments = [noisy.copy() for noisy, _ in released]
    kept = np.empty((draws, size))
    for iteration in range(draws + draws // 4):
        total = possible(np.sum(moments, axis=0))
        theta, variance = conjugate(total, added, prior.noise_shape, generator)
        mean, covariance = covariates(total[:-1, :-1], generator)
        # r = (1, x, y): E r and E r r'
        expected = np.concatenate([[1.0], mean, [theta[0] + theta[1:] @ mean]])
        inside = np.block(
            [
                [covariance, (covariance @ theta[1:])[:, None]],
                [(covariance @ theta[1:])[None, :], np.array([[theta[1:] @ covariance @ theta[1:] + variance]])],
            ]
        )
        second = np.outer(expected, expected)
        second[1:, 1:] += inside
        limit = np.array(
            [
                [
                    second[i, k] * second[j, h]
                    + second[i, h] * second[j, k]
                    - 2 * expected[i] * expected[j] * expected[k] * expected[h]
                    for k, h in places
                ]
                for i, j in places
            ]
        )
        for holder, (noisy, noise) in enumerate(released):
            rows = noisy[0, 0]
            precision = np.diag([1 / noise[place] for place in places])
            spread = np.linalg.inv(np.linalg.inv(rows * limit) + precision)
            pulled = np.linalg.solve(rows * limit, [rows * second[place] for place in places])
            centre = spread @ (pulled + precision @ np.array([noisy[place] for place in places]))
            drawn = generator.multivariate_normal(centre, (spread + spread.T) / 2)
            for (i, j), value in zip(places, drawn, strict=True):
                moments[holder][i, j] = moments[holder][j, i] = value
        if iteration >= draws // 4:
            kept[iteration - draws // 4] = *theta, np.sqrt(variance)
    return kept


def plugged_in(release: Evidence, draws: int, seed: int, prior: Prior) -> Floats:
    """Draws of sigma as if the repaired moments were exact, and of theta given sigma, the noisy X'y and that S."""
    generator, parts = np.random.default_rng(seed), parts_of(release)
    added, size = prior.response_matrix(release.schema), release.schema.m
    total = np.sum([possible(part.matrix()) for part in parts], axis=0)
    kept = np.empty((draws, size + 1))
    for draw in range(draws):
        _, variance = conjugate(total, added, prior.noise_shape, generator)
        precision, linear = added[:size, :size] / variance, added[:size, size] / variance
        for part in parts:
            moments = possible(part.matrix()[:size, :size])
            inverse = np.linalg.inv(variance * moments + np.diag(noise_of(part)[:size, size]))
            precision = precision + moments @ inverse @ moments
            linear = linear + moments @ inverse @ part.matrix()[:size, size]
        spread = np.linalg.inv(precision)
        kept[draw] = *generator.multivariate_normal(spread @ linear, (spread + spread.T) / 2), np.sqrt(variance)
    return kept
