"""The statistic of normal rows: a draw from its limit law, and the same given the noisy values.

For normal rows Cov(r_i r_j, r_k r_l) = M_ik M_jl + M_il M_jk - 2 m_i m_j m_k m_l, with M = E rr' and m = E r. A draw
s of the limit law becomes one given the values z by s + C (C + Omega)^-1 (z - s - noise): no matrix is inverted. C is
either written out and factored, or only applied, by conjugate gradients.
"""

from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.papers.gibbs.arrays import ROWS, Conjugate, Noisy, NormalRow, Work

TOLERANCE = 1e-14  # squared, of the residual, each entry in units of its own sd
MOST_STEPS = 3000


@compiled
def draw_start(generator: np.random.Generator, row: NormalRow, noisy: Noisy, work: Work) -> None:
    """Draw work.start ~ N(n mu, n Sigma), the limit law of sums of products of normal rows."""
    rows, size = noisy.numbers[ROWS], row.root.shape[0]
    change, half, step = work.sums, work.vectors, sqrt(rows)
    for i in range(size):
        for j in range(i):
            change[i, j] = generator.standard_normal()
            change[j, i] = change[i, j]
        change[i, i] = sqrt(2.0) * generator.standard_normal()
        change[i, size] = generator.standard_normal()
    half[:] = 0.0
    for i in range(size):
        work.root[0, i] = 0.0
        for k in range(i + 1):
            weight = row.root[i, k]
            work.root[0, i] += weight * change[k, size]
            for j in range(size):
                half[i, j] += weight * change[k, j]
    for entry in range(noisy.values.size):
        i, j = noisy.entries[entry, 0], noisy.entries[entry, 1]
        total = row.mean[i] * work.root[0, j - 1]
        if i > 0:
            total += row.mean[j] * work.root[0, i - 1]
            for k in range(j):
                total += half[i - 1, k] * row.root[j - 1, k]
        work.start[entry] = rows * row.second[i, j] + step * total


@compiled
def write_covariance(row: NormalRow, noisy: Noisy, work: Work) -> None:
    """The upper triangle of n Sigma."""
    rows, second, mean = noisy.numbers[ROWS], row.second, row.mean
    for first in range(noisy.values.size):
        i, j = noisy.entries[first, 0], noisy.entries[first, 1]
        line, left, right = work.covariance[first], second[i], second[j]
        means = 2.0 * mean[i] * mean[j]
        for other in range(first, noisy.values.size):
            k, l = noisy.entries[other, 0], noisy.entries[other, 1]  # noqa: E741
            line[other] = rows * (left[k] * right[l] + left[l] * right[k] - means * mean[k] * mean[l])


@compiled
def multiply(first: Floats, second: Floats, product: Floats) -> None:
    """product = first @ second, four rows of `second` at a time."""
    size = first.shape[0]
    whole = size - size % 4
    for i in range(size):
        line, weights = product[i], first[i]
        for j in range(size):
            line[j] = 0.0
        for k in range(0, whole, 4):
            w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            r0, r1, r2, r3 = second[k], second[k + 1], second[k + 2], second[k + 3]
            for j in range(size):
                line[j] += (w0 * r0[j] + w1 * r1[j]) + (w2 * r2[j] + w3 * r3[j])
        for k in range(whole, size):
            weight, other = weights[k], second[k]
            for j in range(size):
                line[j] += weight * other[j]


@compiled
def apply_covariance(row: NormalRow, noisy: Noisy, space: Conjugate, vector: Floats, image: Floats) -> None:
    """image = n Sigma vector = n (2 M W M - 2 (m'Wm) m m'), W the vector as a matrix with halved off-diagonals."""
    spread, product, second, mean = space.spread, space.product, row.second, row.mean
    rows, size = noisy.numbers[ROWS], mean.size
    for entry in range(vector.size):
        i, j = noisy.entries[entry, 0], noisy.entries[entry, 1]
        value = vector[entry] if i == j else 0.5 * vector[entry]
        spread[i, j] = value
        spread[j, i] = value
    multiply(second, spread, product)
    inner = 0.0
    for j in range(size):  # the first row of M is the mean
        inner += product[0, j] * mean[j]
    multiply(product, second, spread)
    for entry in range(vector.size):
        i, j = noisy.entries[entry, 0], noisy.entries[entry, 1]
        image[entry] = 2.0 * rows * (spread[i, j] - inner * mean[i] * mean[j])


@compiled
def solve_by_gradients(row: NormalRow, noisy: Noisy, work: Work, space: Conjugate, statistic: Floats) -> None:
    """statistic = start + n Sigma (n Sigma + Omega)^-1 residual, by conjugate gradients in units of each entry's sd."""
    rows, second, mean, size = noisy.numbers[ROWS], row.second, row.mean, statistic.size
    left, direction, image = space.left, space.direction, space.image
    length = 0.0
    for e in range(size):
        i, j = noisy.entries[e, 0], noisy.entries[e, 1]
        square = second[i, i] * second[j, j] + second[i, j] ** 2 - 2.0 * (mean[i] * mean[j]) ** 2
        space.diagonal[e] = rows * square + work.variances[e]
        left[e] = work.residual[e]
        direction[e] = left[e] / space.diagonal[e]
        statistic[e] = 0.0  # the solution until the last lines
        length += left[e] * direction[e]
    enough = TOLERANCE * length
    for _ in range(MOST_STEPS):
        if length <= enough:
            break
        apply_covariance(row, noisy, space, direction, image)
        curvature = 0.0
        for e in range(size):
            image[e] += work.variances[e] * direction[e]
            curvature += direction[e] * image[e]
        step, before, length = length / curvature, length, 0.0
        for e in range(size):
            statistic[e] += step * direction[e]
            left[e] -= step * image[e]
            length += left[e] * left[e] / space.diagonal[e]
        for e in range(size):
            direction[e] = left[e] / space.diagonal[e] + length / before * direction[e]
    for e in range(size):
        direction[e] = statistic[e]
    apply_covariance(row, noisy, space, direction, image)
    for e in range(size):
        statistic[e] = work.start[e] + image[e]


SINGULAR = 1e-14  # of the diagonal: the remainder of a direction that others determine
OUT_OF_REACH = 1e150


@compiled
def residual_to_explain(generator: np.random.Generator, noisy: Noisy, work: Work) -> None:
    """The noisy values less a draw of the statistic and a draw of their noise."""
    for entry in range(noisy.values.size):
        noise = sqrt(work.variances[entry]) * generator.standard_normal()
        work.residual[entry] = noisy.values[entry] - work.start[entry] - noise


@compiled
def scale_row(matrix: Floats, k: int, size: int) -> None:
    """Divide a row by the root of its pivot; by a huge number where earlier rows determine it."""
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
    """statistic = start + C (C + Omega)^-1 residual; overwrites work.covariance, whose upper triangle is C."""
    matrix, size = work.covariance, noisy.values.size
    for i in range(size):
        matrix[i, i] += work.variances[i]
        matrix[i, 0] = matrix[i, i]  # kept below the triangle, for comparison with pivots
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
