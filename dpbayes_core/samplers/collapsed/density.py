"""log p(statistics) + log p(releases | statistics), every parameter integrated out, with its gradient.

With R_j = n_j C_j C_j' of each part, R their sum over N rows, x the covariates and A the centred scatters:
sum_j (n_j-m-2)/2 log|A_j| - (N-d-2)/2 log|A_x| + log p(mean, A_x / N) - 1/2 log|Lam0 + R_x| - a_N log 2b + Jacobian
+ sum_e log p_noise(z_e - R_e), 2b the Schur complement of y in M0 + R. The first two terms are exact for any law of x
that the parts share; moments of factors have a flat prior.
"""

from math import exp, lgamma, log, pi, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import (
    BAR,
    CONSTANT,
    COUNTED,
    DIFFERING,
    FREE,
    INSIDE,
    INTERCEPT,
    INVERSE,
    MEAN_PRECISION,
    MOMENTS,
    POWER,
    PULL,
    RATE,
    ROOT,
    ROWS,
    SCALED,
    SHAPE,
    UNIT_ROWS,
    VARIANCE_RATE,
    Target,
)
from dpbayes_core.samplers.collapsed.part_terms import digamma, part_slopes, rows_constant, statistic
from dpbayes_core.samplers.collapsed.pools.density import pool_density


@compiled
def root_of(prior: Floats, start: int, end: int, work: Floats) -> bool:
    """ROOT = Cholesky factor of prior + MOMENTS, rows and columns start to end; False where rounding leaves none."""
    for i in range(start, end):
        total = 0.0
        for j in range(start, i + 1):
            total = work[MOMENTS, i, j] + prior[i, j]
            for k in range(start, j):
                total -= work[ROOT, i, k] * work[ROOT, j, k]
            if j < i:
                work[ROOT, i, j] = total / work[ROOT, j, j]
        if not total > 0.0:
            return False
        work[ROOT, i, i] = sqrt(total)
    return True


@compiled
def subtract_roots(weights: Floats, start: int, end: int, work: Floats) -> float:
    """Minus the weighted logs of ROOT's diagonal, with derivatives added to PULL."""
    value = 0.0
    for i in range(start, end):
        pivot = 1.0 / work[ROOT, i, i]
        work[INVERSE, i, :i] = 0.0
        for k in range(start, i):
            step = work[ROOT, i, k] * pivot
            for j in range(start, k + 1):
                work[INVERSE, i, j] -= step * work[INVERSE, k, j]
        work[INVERSE, i, i] = pivot
        own = weights[i]
        value -= own * log(work[ROOT, i, i])
        if own != 0.0:
            for k in range(start, i + 1):
                step = own * work[INVERSE, i, k]
                for j in range(start, k + 1):
                    work[PULL, k, j] -= step * work[INVERSE, i, j]
    return value


@compiled
def covariates_prior(target: Target, work: Floats) -> float:
    """Log density of means and variances of the continuous covariates, with derivatives in PULL."""
    numbers, size, value = target.numbers, work.shape[1], 0.0
    share, free = work[MOMENTS, 0, 0], numbers[INTERCEPT]
    power = -0.5 * (size - 3.0) - 0.5 * numbers[POWER]  # size = d + 2
    for i in range(1 + int(numbers[INSIDE]), size - 1):
        square, mean = work[MOMENTS, i, i] / share, free * work[MOMENTS, i, 0] / share
        variance = square - mean * mean
        if not variance > 0.0:
            return -np.inf
        value += power * log(variance) - numbers[VARIANCE_RATE] * variance
        value -= 0.5 * numbers[MEAN_PRECISION] * mean * mean
        slope = power / variance - numbers[VARIANCE_RATE]
        in_mean = -mean * (2.0 * slope + numbers[MEAN_PRECISION])
        work[PULL, i, i] += 2.0 * slope / share
        work[PULL, i, 0] += free * in_mean / share
        work[PULL, 0, 0] -= 2.0 * (slope * square + in_mean * mean) / share
    return value


@compiled
def pool(target: Target, work: Floats) -> float:
    """MOMENTS of the whole from those of its parts; returns the number of rows."""
    parts, rows = len(target.parts), 0.0
    whole = work[parts]
    whole[MOMENTS] = 0.0
    for j in range(parts):
        share = target.parts[j, ROWS] / target.numbers[UNIT_ROWS]
        rows += target.parts[j, ROWS]
        for i in range(whole.shape[1]):
            for k in range(i + 1):
                whole[MOMENTS, i, k] += share * work[j, MOMENTS, i, k]
    return rows


@compiled
def whole_constant(rows: float, numbers: Floats, d: int) -> tuple[float, float]:
    """The part of the normalising constant that depends on the number of all rows, and its derivative."""
    value, slope = rows_constant(rows, int(numbers[INSIDE]), d, numbers[INTERCEPT])
    if numbers[RATE] > 0.0:
        return -0.5 * rows * log(2.0 * pi) - value, -0.5 * log(2.0 * pi) - slope
    shape, level = numbers[SHAPE] + 0.5 * rows, log(numbers[UNIT_ROWS] * pi)
    return lgamma(shape) - 0.5 * rows * level - value, 0.5 * (digamma(shape) - level) - slope


@compiled
def response_terms(target: Target, whole: Floats, rows: float) -> tuple[float, float]:
    """Terms of the response where the prior does not depend on sigma, with derivatives in the rows and log sigma."""
    numbers, last, first = target.numbers, whole.shape[1] - 1, 1 - int(target.numbers[INTERCEPT])
    logged, weights, prior, in_prior = whole[FREE, 0, 0], whole[BAR, 0], whole[SCALED], 0.0
    variance, sigma = exp(2.0 * logged), exp(logged)
    for i in range(first, last + 1):
        for k in range(i + 1):
            prior[i, k] = variance * target.response[i, k]
    if not root_of(prior, first, last + 1, whole):
        return -np.inf, 0.0
    square = numbers[UNIT_ROWS] * whole[ROOT, last, last] ** 2 / variance
    weights[first:last] = 1.0
    weights[last] = square
    value = subtract_roots(weights, first, last + 1, whole) + square * (log(whole[ROOT, last, last]) - 0.5)
    for i in range(first, last + 1):
        for k in range(i):
            in_prior += whole[PULL, i, k] * prior[i, k]
        in_prior += 0.5 * whole[PULL, i, i] * prior[i, i]
    power = last - first - rows + numbers[SHAPE]
    whole[FREE, 0, 1] = power + square - numbers[RATE] * sigma + 2.0 * in_prior
    return value + power * logged - numbers[RATE] * sigma, -logged


@compiled
def whole_terms(target: Target, work: Floats, rows: float) -> tuple[float, float]:
    """Terms of the sum over all parts, and their derivative in the number of rows at given moments."""
    numbers, size = target.numbers, work.shape[2]
    whole = work[len(target.parts)]
    weights = whole[BAR, 0]
    whole[PULL] = 0.0
    inside, lost, d = int(numbers[INSIDE]), numbers[INTERCEPT], size - 2
    value, slope = 0.0, 0.0
    if numbers[RATE] > 0.0:
        value, slope = response_terms(target, whole, rows)
    if not value > -np.inf:
        return value, slope
    if numbers[COUNTED] > 0.0:
        constant, in_rows = whole_constant(rows, numbers, d)
        value, slope = value + constant, slope + in_rows
    if len(target.parts) > 1:
        degrees = rows - lost - d - 1.0 - numbers[POWER]
        first, ratio = 1 - int(lost), log(rows / numbers[UNIT_ROWS])
        weights[: 1 + inside] = 0.0
        weights[1 + inside : 1 + d] = degrees
        if not root_of(np.zeros_like(target.response), first, 1 + d, whole):
            return -np.inf, 0.0
        value += subtract_roots(weights, first, 1 + d, whole) + 0.5 * (d - inside) * degrees * ratio
        slope += 0.5 * (d - inside) * (ratio + degrees / rows)
        for i in range(1 + inside, 1 + d):
            slope -= log(whole[ROOT, i, i])
    value += covariates_prior(target, whole)
    if numbers[RATE] > 0.0:
        return value, slope
    first, shape = 1 - int(lost), numbers[SHAPE] + 0.5 * rows
    weights[:] = 1.0
    weights[1 + d] = 2.0 * shape
    if not root_of(target.response, first, 2 + d, whole):
        return -np.inf, 0.0
    value += subtract_roots(weights, first, 2 + d, whole)
    return value, slope - log(whole[ROOT, 1 + d, 1 + d])


@compiled
def log_density(position: Floats, target: Target, work: Floats, gradient: Floats) -> float:
    """Log density of the coordinates given the releases, its gradient into `gradient`; -inf outside."""
    if target.numbers[DIFFERING] > 0.0:
        return pool_density(position, target, work, gradient)
    value = target.numbers[CONSTANT] + statistic(position, target, work)
    rows = pool(target, work)
    whole, in_rows = whole_terms(target, work, rows)
    value += whole
    if not np.isfinite(value):
        return -np.inf
    value += part_slopes(position, target, work, in_rows, gradient)
    return value if np.isfinite(value) else -np.inf
