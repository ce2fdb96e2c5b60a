"""Kernels on the covariates' law, normal with a diffuse normal-inverse-Wishart prior, and on moments under it."""

from math import log, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, invert_lower, solve_lower

MEAN_WEIGHT = 0.01  # mean | Sigma ~ N(0, Sigma / MEAN_WEIGHT), standardised units
SCATTER = 0.01  # Sigma ~ InvWishart(d + EXTRA_DEGREES, SCATTER I)
EXTRA_DEGREES = 2.0


@compiled
def draw_covariates(generator: np.random.Generator, total: Floats, mean: Floats, spread: Floats) -> None:
    """Draw the covariates' mean and the Cholesky factor of their covariance, given the moments of (1, x) in `total`."""
    size, d = total.shape[0], mean.size
    full, root = total.copy(), np.zeros((size, size))
    full[0, 0] += MEAN_WEIGHT
    for i in range(1, size):
        full[i, i] += SCATTER
    cholesky(full, root, size)
    degrees = d + EXTRA_DEGREES + total[0, 0]
    bartlett, inverse = np.zeros((d, d)), np.zeros((d, d))
    for i in range(d):
        for j in range(i):
            bartlett[i, j] = generator.standard_normal()
        bartlett[i, i] = sqrt(2.0 * generator.standard_gamma(0.5 * (degrees - i)))
    invert_lower(bartlett, inverse, d)
    factor, covariance = np.zeros((d, d)), np.zeros((d, d))
    for i in range(d):
        for j in range(d):
            for k in range(min(i, j) + 1):
                factor[i, j] += root[i + 1, k + 1] * inverse[j, k]
    for i in range(d):
        for j in range(i + 1):
            for k in range(d):
                covariance[i, j] += factor[i, k] * factor[j, k]
    cholesky(covariance, spread, d)
    for i in range(d):
        mean[i] = root[i + 1, 0] / root[0, 0]
    for j in range(d):
        shock = generator.standard_normal() / root[0, 0]
        for i in range(d):
            mean[i] += factor[i, j] * shock


@compiled
def normal_log_density(root: Floats, mean: Floats, spread: Floats) -> float:
    """Log density of moments of (1, x), Cholesky factor `root`, under normal covariates; up to a constant."""
    d = mean.size
    rows = root[0, 0] ** 2
    column, total = np.zeros(d), 0.0
    for i in range(d):
        column[i] = root[i + 1, 0] / root[0, 0] - mean[i]
        total += (rows - d - 2) * log(root[i + 1, i + 1])
    solve_lower(spread, column, d)
    for i in range(d):
        total -= 0.5 * rows * column[i] ** 2
    for j in range(d):
        column[:] = root[1:, j + 1]
        solve_lower(spread, column, d)
        for i in range(d):
            total -= 0.5 * column[i] ** 2
    return total


@compiled
def limit_log_density(moments: Floats, mean: Floats, spread: Floats) -> float:
    """Log density of the same moments by the central limit theorem: exact means and covariances; up to a constant."""
    d, rows = mean.size, moments[0, 0]
    first, square = np.zeros(d), np.zeros((d, d))
    for i in range(d):
        first[i] = moments[0, i + 1] - rows * mean[i]
    for i in range(d):
        for j in range(d):
            square[i, j] = moments[i + 1, j + 1] - first[i] * mean[j] - mean[i] * first[j] - rows * mean[i] * mean[j]
    solve_lower(spread, first, d)
    for i in range(d):
        solve_lower(spread, square[i], d)
    turned, total = square.T.copy(), 0.0
    for i in range(d):
        solve_lower(spread, turned[i], d)
        turned[i, i] -= rows
        total -= 0.5 * first[i] ** 2 / rows
        for j in range(d):
            total -= 0.25 * turned[i, j] ** 2 / rows
    return total
