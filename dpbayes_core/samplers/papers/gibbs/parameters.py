"""Conjugate draws given the latent statistic: parameters (equations 4 and 7 of the paper), and variances of the noise.

Laplace noise is normal noise of random variance, which is drawn without cancellation. A chain starts at the noisy
values with noise added once more, repaired so that data could have such a scatter.
"""

from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, invert_lower
from dpbayes_core.samplers.conjugate import draw_parameters
from dpbayes_core.samplers.papers.gibbs.arrays import (
    DEGREES,
    LAPLACE,
    MEAN_WEIGHT,
    ROWS,
    SCATTER,
    SHAPE,
    Noisy,
    NormalRow,
    Work,
)
from dpbayes_core.samplers.papers.gibbs.repair import repair


@compiled
def place_statistic(statistic: Floats, noisy: Noisy, moments: Floats) -> None:
    """The symmetric second moments that have these entries."""
    moments[:] = noisy.known
    for entry in range(statistic.size):
        i, j = noisy.entries[entry, 0], noisy.entries[entry, 1]
        moments[i, j] = statistic[entry]
        moments[j, i] = statistic[entry]
    for i in noisy.tied:
        moments[i, i] = moments[0, i]


@compiled
def draw_regression(generator: np.random.Generator, noisy: Noisy, statistic: Floats, work: Work) -> None:
    """Fill work.draw with theta and sigma; leaves the repaired moments and their centred scatter in `work`."""
    place_statistic(statistic, noisy, work.moments)
    repair(work.moments, work.scatter, work.vectors, work.root, 0.0)
    rows, size = noisy.numbers[ROWS], work.moments.shape[0]
    for i in range(size):
        for j in range(size):
            work.sums[i, j] = (noisy.prior[i, j] + work.moments[i, j]) / rows
    cholesky(work.sums, work.root, size)
    draw_parameters(generator, work.root, rows, noisy.numbers[SHAPE], work.draw)


@compiled
def draw_covariates(generator: np.random.Generator, row: NormalRow, work: Work) -> None:
    """Mean and covariance of x from the normal-inverse-Wishart law given the moments in `work`.

    The covariance is the square of root inverse(V)', V lower triangular with V V' a reversed Wishart matrix.
    """
    rows, size = work.moments[0, 0], row.root.shape[0] - 1
    weight = row.numbers[MEAN_WEIGHT]
    shrink = weight / (rows * (weight + rows))
    for i in range(size):
        for j in range(i + 1):
            square = work.moments[0, i + 1] * work.moments[0, j + 1]
            work.scatter[i, j] += shrink * square
        work.scatter[i, i] += row.numbers[SCATTER]
    cholesky(work.scatter, work.root, size)
    for i in range(size):
        for j in range(i):
            row.chances[i, j] = generator.standard_normal()
        row.chances[i, i] = sqrt(2.0 * generator.standard_gamma(0.5 * (row.numbers[DEGREES] - (size - 1 - i))))
    invert_lower(row.chances, row.inverse, size)
    for i in range(size):
        for j in range(i + 1):
            row.root[i, j] = 0.0
        for k in range(i + 1):
            for j in range(k + 1):
                row.root[i, j] += work.root[i, k] * row.inverse[k, j]
    row.mean[0] = 1.0
    for i in range(size):
        row.mean[i + 1] = work.moments[0, i + 1] / (weight + rows)
    spread = 1.0 / sqrt(weight + rows)
    for j in range(size):
        chance = spread * generator.standard_normal()
        for i in range(j, size):
            row.mean[i + 1] += row.root[i, j] * chance


@compiled
def join_response(row: NormalRow, draw: Floats) -> None:
    """Add y to the law of x: its regression on the row before it; then the second moments of the whole row."""
    size = row.root.shape[0]
    last = size - 1
    row.mean[size] = draw[0]
    for j in range(last):
        row.mean[size] += draw[j + 1] * row.mean[j + 1]
        row.root[last, j] = 0.0
        for k in range(j, last):
            row.root[last, j] += draw[k + 1] * row.root[k, j]
    row.root[last, last] = draw[size]
    for i in range(size + 1):
        for j in range(i + 1):
            total = row.mean[i] * row.mean[j]
            for k in range(j):  # row j of the root ends at its diagonal, the (j-1)-th column
                total += row.root[i - 1, k] * row.root[j - 1, k]
            row.second[i, j] = total
            row.second[j, i] = total


LEAST_VARIANCE = 0.01  # of a standardised variable


@compiled
def disperse(generator: np.random.Generator, noisy: Noisy, work: Work, statistic: Floats) -> None:
    """Fill `statistic` with a start: the noisy values with noise added once more, except for known entries."""
    for entry in range(statistic.size):
        if noisy.numbers[LAPLACE] == 1.0:
            noise = generator.standard_exponential() - generator.standard_exponential()
        else:
            noise = generator.standard_normal()
        statistic[entry] = noisy.values[entry] + noisy.scales[entry] * noise
    place_statistic(statistic, noisy, work.moments)
    repair(work.moments, work.scatter, work.vectors, work.root, LEAST_VARIANCE * noisy.numbers[ROWS])
    for entry in range(statistic.size):
        if noisy.scales[entry] > 0.0:
            statistic[entry] = work.moments[noisy.entries[entry, 0], noisy.entries[entry, 1]]


@compiled
def draw_variance(generator: np.random.Generator, size: float, scale: float) -> float:
    """1 / variance ~ InverseGaussian(mean 1 / (scale size), shape 1 / scale^2), for noise of this absolute size.

    The roots of the usual two-root draw are size and its reciprocal times `long`, a sum of positive terms.
    """
    half = 0.5 * scale * generator.standard_normal() ** 2
    long = size + half + sqrt(half * (2.0 * size + half))
    if generator.random() * (size + long) <= long:
        return scale * long
    return scale * size * (size / long)


@compiled
def draw_variances(generator: np.random.Generator, noisy: Noisy, statistic: Floats, variances: Floats) -> None:
    """The variance of each entry's noise, given the statistic; 0 where the entry is known."""
    for entry in range(variances.size):
        scale = noisy.scales[entry]
        if noisy.numbers[LAPLACE] == 1.0 and scale > 0.0:
            size = abs(noisy.values[entry] - statistic[entry])
            variances[entry] = draw_variance(generator, size, scale)
        else:
            variances[entry] = scale * scale
