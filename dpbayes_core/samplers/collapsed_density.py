"""log p(statistic) + log p(release | statistic), every parameter integrated out, with its gradient by hand.

With R = n C C', x the covariates, and 2 b the Schur complement of y in M0 + R:
(n-m-2)/2 log|A| - nu_n/2 log|K0 + R_x| - 1/2 log|Lam0 + R_x| - a_n log 2b + Jacobian + sum_e log p_noise(z_e - R_e).
What this says of the factors alone, as if they were normal too, is taken out: their own moments have a flat prior.
"""

from math import copysign, log, sqrt

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.compiled import compiled
from dpbayes_core.samplers.coordinates import place, pull
from dpbayes_core.samplers.flat import (
    BAR,
    CONSTANT,
    FACTOR,
    GAUSSIAN,
    INVERSE,
    LAPLACE,
    MOMENTS,
    NOISE,
    NOISY,
    NORMAL_PRIOR,
    OF_FACTOR,
    OF_NORMAL,
    OF_RESPONSE,
    PRODUCT,
    RESPONSE_PRIOR,
    ROOT,
    ROWS,
    SCALES,
    Target,
)
from dpbayes_core.samplers.kinks import bend, unbend

Floats = NDArray[np.float64]


@compiled
def moments(work: Floats) -> None:
    """MOMENTS = R / n = C C', lower triangle."""
    for i in range(work.shape[1]):
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += work[FACTOR, i, k] * work[FACTOR, j, k]
            work[MOMENTS, i, j] = total


@compiled
def posterior_root(target: Target, prior: int, size: int, work: Floats) -> bool:
    """ROOT = Cholesky factor of (prior + R) / n, leading rows; False where rounding leaves none."""
    for i in range(size):
        total = 0.0
        for j in range(i + 1):
            total = work[MOMENTS, i, j] + target.matrices[prior, i, j]
            for k in range(j):
                total -= work[ROOT, i, k] * work[ROOT, j, k]
            if j < i:
                work[ROOT, i, j] = total / work[ROOT, j, j]
        if not total > 0.0:
            return False
        work[ROOT, i, i] = sqrt(total)
    return True


@compiled
def subtract_determinant(target: Target, weights: int, size: int, work: Floats) -> float:
    """Minus the weighted logs of ROOT's diagonal, and their derivatives in C added to BAR."""
    value = 0.0
    for i in range(size):
        pivot = 1.0 / work[ROOT, i, i]
        for j in range(i):
            work[INVERSE, i, j] = 0.0
            work[PRODUCT, i, j] = 0.0
        for k in range(i):
            step = work[ROOT, i, k] * pivot
            for j in range(k + 1):
                work[INVERSE, i, j] -= step * work[INVERSE, k, j]
        work[INVERSE, i, i] = pivot
        work[PRODUCT, i, i] = 0.0
        for k in range(i + 1):
            step = work[INVERSE, i, k]
            for j in range(k + 1):
                work[PRODUCT, i, j] += step * work[FACTOR, k, j]
        own = target.weights[weights, i]
        value -= own * log(work[ROOT, i, i])
        for k in range(i + 1):
            step = own * work[INVERSE, i, k]
            for j in range(k + 1):
                work[BAR, k, j] -= step * work[PRODUCT, i, j]
    return value


@compiled
def normal_terms(target: Target, work: Floats) -> float:
    """Log density of the statistic under the conjugate prior, and its derivatives in C set in BAR."""
    size, value = work.shape[1], 0.0
    moments(work)
    for i in range(size):
        for j in range(i):
            work[BAR, i, j] = 0.0
        weight = target.weights[OF_FACTOR, i]
        value += weight * log(work[FACTOR, i, i])
        work[BAR, i, i] = weight / work[FACTOR, i, i]
    if not posterior_root(target, NORMAL_PRIOR, size - 1, work):
        return -np.inf
    value += subtract_determinant(target, OF_NORMAL, size - 1, work)
    if not posterior_root(target, RESPONSE_PRIOR, size, work):
        return -np.inf
    return value + subtract_determinant(target, OF_RESPONSE, size, work)


@compiled
def noise_terms(target: Target, work: Floats) -> float:
    """Log density of the noise, and its derivatives in C added to BAR."""
    n, noise, value = target.numbers[ROWS], int(target.numbers[NOISE]), 0.0
    for i in range(1, work.shape[1]):
        for j in range(i + 1):
            scale = target.matrices[SCALES, i, j]
            if scale == 0.0:
                continue
            residual = (target.matrices[NOISY, i, j] - n * work[MOMENTS, i, j]) / scale
            if noise == GAUSSIAN:
                value -= 0.5 * residual * residual
                slope = residual
            elif noise == LAPLACE:
                value -= abs(residual)
                slope = copysign(1.0, residual)
            else:
                root = sqrt(1.0 + 0.25 * residual * residual)
                value -= 2.0 * (root - 1.0)
                slope = 0.5 * residual / root
            slope *= n / scale
            for k in range(j + 1):
                work[BAR, i, k] += slope * work[FACTOR, j, k]
            for k in range(j + 1):
                work[BAR, j, k] += slope * work[FACTOR, i, k]
    return value


@compiled
def statistic(position: Floats, target: Target, work: Floats) -> float:
    """Fill C from the coordinates, kinks taken out; returns what of the log density is not a function of C alone."""
    value = place(position, target, work)
    if target.numbers[NOISE] == LAPLACE:
        value += bend(target, work)
    return value


@compiled
def log_density(position: Floats, target: Target, work: Floats, gradient: Floats) -> float:
    """Log density of the coordinates given the release, its gradient into `gradient`; -inf outside."""
    value = target.numbers[CONSTANT] + statistic(position, target, work)
    value += normal_terms(target, work)
    if not np.isfinite(value):
        return -np.inf
    value += noise_terms(target, work)
    if target.numbers[NOISE] == LAPLACE:
        unbend(target, work)
    pull(position, target, work, gradient)
    return value
