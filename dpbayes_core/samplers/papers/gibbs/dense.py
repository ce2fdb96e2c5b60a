"""The statistic given its normal law and the noisy values, the covariance written out: no matrix is inverted."""

from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.papers.gibbs.flat import Noisy, Work

SINGULAR = 1e-14  # of the diagonal: what is left of a direction that others determine
OUT_OF_REACH = 1e150


@compiled
def residual_to_explain(generator: np.random.Generator, noisy: Noisy, work: Work) -> None:
    """What the noisy values have more than a draw of the statistic and a draw of their noise."""
    for entry in range(noisy.values.size):
        noise = sqrt(work.variances[entry]) * generator.standard_normal()
        work.residual[entry] = noisy.values[entry] - work.start[entry] - noise


@compiled
def scale_row(matrix: Floats, k: int, size: int) -> None:
    """Divide a row by the root of its pivot; by something huge where others determine it."""
    row = matrix[k]
    pivot = sqrt(row[k]) if k == 0 or row[k] > SINGULAR * row[0] else OUT_OF_REACH
    row[k] = pivot
    scale = 1.0 / pivot
    for j in range(k + 1, size + 1):
        row[j] *= scale


@compiled
def eliminate(matrix: Floats, size: int) -> None:
    """The upper Cholesky factor in place, and the last column solved with its transpose; four rows at a time."""
    whole = size - size % 4
    for k in range(0, whole, 4):
        for own in range(k, k + 4):
            scale_row(matrix, own, size)
            for i in range(own + 1, k + 4):
                below, row, factor = matrix[i], matrix[own], matrix[own, i]
                for j in range(i, size + 1):
                    below[j] -= factor * row[j]
        r0, r1, r2, r3 = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
        for i in range(k + 4, size):
            below, f0, f1, f2, f3 = matrix[i], r0[i], r1[i], r2[i], r3[i]
            for j in range(i, size + 1):
                below[j] -= (f0 * r0[j] + f1 * r1[j]) + (f2 * r2[j] + f3 * r3[j])
    for k in range(whole, size):
        scale_row(matrix, k, size)
        row = matrix[k]
        for i in range(k + 1, size):
            below, factor = matrix[i], row[i]
            for j in range(i, size + 1):
                below[j] -= factor * row[j]


@compiled
def solve_dense(noisy: Noisy, work: Work, statistic: Floats) -> None:
    """statistic = start + C (C + Omega)^-1 residual, C in the upper triangle of work.covariance, which is lost."""
    matrix, size = work.covariance, noisy.values.size
    for i in range(size):
        matrix[i, i] += work.variances[i]
        matrix[i, 0] = matrix[i, i]  # below the triangle, for comparison
        matrix[i, size] = work.residual[i]
    eliminate(matrix, size)
    # solve the triangle from below, with the solution in place of the right-hand side
    for k in range(size - 1, -1, -1):
        row, total = matrix[k], matrix[k, size]
        for j in range(k + 1, size):
            total -= row[j] * statistic[j]
        statistic[k] = total / row[k]
    for k in range(size):
        statistic[k] = work.start[k] + work.residual[k] - work.variances[k] * statistic[k]
