"""An exact draw of (theta, sigma2) from the normal-inverse-gamma posterior given the statistic."""

from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, solve_lower, solve_upper


@compiled
def draw_coefficients(generator: np.random.Generator, root: Floats, spread: float, draw: Floats) -> None:
    """Fill `draw` with theta; `spread` is sigma / sqrt(rows), where `root` is the factor of (M0 + R) / rows."""
    size = root.shape[0] - 1
    for k in range(size):
        draw[k] = root[size, k] + spread * generator.standard_normal()
    solve_upper(root, draw, size)


@compiled
def draw_parameters(generator: np.random.Generator, root: Floats, rows: float, shape: float, draw: Floats) -> None:
    """Fill `draw` with theta (constant first) and sigma; `root` is the Cholesky factor of (M0 + R) / rows."""
    size = root.shape[0] - 1
    variance = 0.5 * rows * root[size, size] ** 2 / generator.standard_gamma(shape)
    draw_coefficients(generator, root, sqrt(variance / rows), draw)
    draw[size] = sqrt(variance)


@compiled
def describe(root: Floats, scale: float, units: Floats, mean: Floats, variance: Floats) -> None:
    """Mean and variance of units @ theta under the same posterior; `scale` is the mean of sigma2 over the rows."""
    size = root.shape[0] - 1
    centre = root[size, :size].copy()
    solve_upper(root, centre, size)
    for i in range(size):
        combination, mean[i], variance[i] = units[i].copy(), 0.0, 0.0
        for k in range(size):
            mean[i] += combination[k] * centre[k]
        solve_lower(root, combination, size)
        for k in range(size):
            variance[i] += scale * combination[k] * combination[k]


@compiled
def draw_many(generator: np.random.Generator, moments: Floats, rows: float, shape: float, draws: Floats) -> None:
    """Independent draws into the rows of `draws`; `moments` is (M0 + R) / rows."""
    root = np.zeros_like(moments)
    cholesky(moments, root, root.shape[0])
    for i in range(draws.shape[0]):
        draw_parameters(generator, root, rows, shape, draws[i])
