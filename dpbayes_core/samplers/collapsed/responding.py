"""The response's row of C from standard numbers: slopes of the regression given prior, noise and covariates.

Let S = B B' be the covariates' moments per row, with softened pivots, s the noisy products with the response, W the
precisions of their noise, v a likely residual variance over the rows, and P, mu the prior's precision and mean. Given
these, slopes are about normal with precision A = P + S / v + S W S and mean
A^-1 (S W s + P mu). With A = K K' the slopes are b = K^-T (u + K^-1 (S W s + P mu)), and the row is B'b, shrunk where
nothing of the response's variance would remain (softening.py), whose coordinate is the last. The density is exact for
any v, which only shifts u.
"""

from math import log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import (
    AIM,
    BALL,
    BAR,
    COVARIANCE,
    FACTOR,
    LEAST,
    MEAN_NOISY,
    MEAN_SD,
    PRECISE,
    PRECISION,
    PRECISION_BAR,
    SOFTENED,
    SPREAD,
    SPREAD_BAR,
    SQUARE,
    Part,
)
from dpbayes_core.samplers.collapsed.softening import shared_of, shared_slopes

PRODUCTS, SLOPES_AT, MEAN_AT = SOFTENED, SPREAD, PRECISION
CROSS = COVARIANCE  # in the reverse pass only: B'b


@compiled
def soften(part: Part, work: Floats) -> float:
    """B with pivots that do not vanish, S, and W s; returns the sum of the pivots' logs."""
    last, value = work.shape[1] - 1, 0.0
    for k in range(1, last):
        for j in range(1, k):
            work[SOFTENED, k, j] = work[FACTOR, k, j]
        pivot = sqrt(work[FACTOR, k, k] ** 2 + part.weights[LEAST, k])
        work[SOFTENED, k, k] = pivot
        value += log(pivot)
        for i in range(1, k + 1):
            total = 0.0
            for j in range(1, i + 1):
                total += work[SOFTENED, k, j] * work[SOFTENED, i, j]
            work[SPREAD, k, i] = total
            work[SPREAD, i, k] = total
        product = part.matrices[MEAN_NOISY, last, k] - work[FACTOR, k, 0] * work[FACTOR, last, 0]
        work[PRODUCTS, 0, k] = product / part.matrices[MEAN_SD, last, k] ** 2
    return value


@compiled
def decompose(part: Part, work: Floats) -> float:
    """K and its inverse, and K^-1 (S W s + P mu); returns the sum of the logs of K's diagonal."""
    last, value, ball = work.shape[1] - 1, 0.0, 1.0 / part.numbers[BALL]
    for i in range(1, last):
        for k in range(1, i + 1):
            total = ball * work[SPREAD, i, k]
            for j in range(1, last):
                total += work[SPREAD, i, j] * work[SPREAD, k, j] / part.matrices[MEAN_SD, last, j] ** 2
            if i == k:
                total += part.weights[PRECISE, k]
            for j in range(1, k):
                total -= work[PRECISION, i, j] * work[PRECISION, k, j]
            work[PRECISION, i, k] = sqrt(total) if i == k else total / work[PRECISION, k, k]
        pivot = 1.0 / work[PRECISION, i, i]
        value -= log(pivot)
        work[COVARIANCE, i, 1:i] = 0.0
        for k in range(1, i):
            step = work[PRECISION, i, k] * pivot
            for j in range(1, k + 1):
                work[COVARIANCE, i, j] -= step * work[COVARIANCE, k, j]
        work[COVARIANCE, i, i] = pivot
        total = part.weights[AIM, i]
        for j in range(1, last):
            total += work[SPREAD, i, j] * work[PRODUCTS, 0, j]
        for k in range(1, i):
            total -= work[PRECISION, i, k] * work[MEAN_AT, 0, k]
        work[MEAN_AT, 0, i] = total * pivot
    return value


@compiled
def place_response(position: Floats, part: Part, work: Floats) -> float:
    """Fill the response's row after its mean; returns the log Jacobian."""
    last = work.shape[1] - 1
    value, before = soften(part, work) - decompose(part, work), 0.0
    for k in range(1, last):
        total = 0.0
        for i in range(k, last):
            total += work[COVARIANCE, i, k] * (position[i - 1] + work[MEAN_AT, 0, i])
        work[SLOPES_AT, 0, k] = total
    for k in range(1, last):
        total = 0.0
        for i in range(k, last):
            total += work[SOFTENED, i, k] * work[SLOPES_AT, 0, i]
        work[FACTOR, last, k] = total
        before += total * total
    shrink, work[FACTOR, last, last], slope = shared_of(float(position[last - 1]), before, part.weights[SQUARE, last])
    for k in range(1, last):
        work[FACTOR, last, k] *= shrink
    return value + slope + (last - 3.0) * log(shrink)


@compiled
def pull_precision(part: Part, position: Floats, in_mean: Floats, work: Floats) -> None:
    """PRECISION_BAR = derivatives in A (symmetric), given those in u: the reverse of a Cholesky factorisation."""
    last = work.shape[1] - 1
    for i in range(1, last):  # SPREAD_BAR = half of K'K_bar's lower triangle, times K^-1
        for j in range(1, i + 1):
            work[SPREAD_BAR, i, j] = 0.0
        own = position[i - 1] + work[MEAN_AT, 0, i]
        for k in range(1, i + 1):
            weight = -own * in_mean[k - 1] - in_mean[i - 1] * work[MEAN_AT, 0, k]
            weight = 0.5 * (weight - 1.0) if i == k else weight
            for j in range(1, k + 1):
                work[SPREAD_BAR, i, j] += weight * work[COVARIANCE, k, j]
    for i in range(1, last):
        for j in range(1, last):
            total = 0.0
            for k in range(max(i, j), last):
                total += work[COVARIANCE, k, i] * work[SPREAD_BAR, k, j]
            work[PRECISION_BAR, i, j] = total
    for i in range(1, last):
        for j in range(1, i + 1):
            total = 0.5 * (work[PRECISION_BAR, i, j] + work[PRECISION_BAR, j, i])
            work[PRECISION_BAR, i, j] = total
            work[PRECISION_BAR, j, i] = total


@compiled
def pull_spread(part: Part, work: Floats, in_linear: Floats) -> None:
    """SPREAD_BAR = derivatives in S (symmetric), given those in A and in S W s; those in s go to the means."""
    last, ball = work.shape[1] - 1, 1.0 / part.numbers[BALL]
    for i in range(1, last):
        for j in range(1, last):
            total = 0.0
            for k in range(1, last):
                total += work[PRECISION_BAR, i, k] * work[SPREAD, k, j]
            work[COVARIANCE, i, j] = total / part.matrices[MEAN_SD, last, j] ** 2  # its old content is not needed again
    for i in range(1, last):
        in_product = 0.0
        for j in range(1, last):
            own = in_linear[i] * work[PRODUCTS, 0, j] + in_linear[j] * work[PRODUCTS, 0, i]
            own = 0.5 * own + ball * work[PRECISION_BAR, i, j]
            work[SPREAD_BAR, i, j] = own + work[COVARIANCE, i, j] + work[COVARIANCE, j, i]
            in_product += work[SPREAD, i, j] * in_linear[j]
        in_product /= part.matrices[MEAN_SD, last, i] ** 2
        work[BAR, i, 0] -= in_product * work[FACTOR, last, 0]
        work[BAR, last, 0] -= in_product * work[FACTOR, i, 0]


@compiled
def pull_residual(x: float, part: Part, work: Floats, gradient: Floats) -> None:
    """Derivatives in the last coordinate, and in BAR those in the entries before C_yy, before these were shrunk."""
    last, square = work.shape[1] - 1, part.weights[SQUARE, work.shape[1] - 1]
    in_rest = work[BAR, last, last] * work[FACTOR, last, last]
    before, in_shrink = 0.0, last - 3.0
    for k in range(1, last):
        total = 0.0
        for i in range(k, last):
            total += work[SOFTENED, i, k] * work[SLOPES_AT, 0, i]
        work[CROSS, 0, k] = total
        before += total * total
        in_shrink += work[BAR, last, k] * work[FACTOR, last, k]
    shrink, _, _ = shared_of(x, before, square)
    gradient[last - 1], in_before = shared_slopes(x, before, square, in_shrink, in_rest)
    for k in range(1, last):
        work[BAR, last, k] = shrink * work[BAR, last, k] + 2.0 * in_before * work[CROSS, 0, k]


@compiled
def pull_response(position: Floats, part: Part, work: Floats, gradient: Floats) -> None:
    """Reverse of `place_response`: derivatives in the coordinates, and in BAR those in the earlier rows of C."""
    last = work.shape[1] - 1
    pull_residual(float(position[last - 1]), part, work, gradient)
    in_linear = work[PRODUCTS, last]
    for i in range(1, last):
        total = 0.0
        for k in range(1, i + 1):
            total += work[SOFTENED, i, k] * work[BAR, last, k]
        in_linear[i] = total
    for i in range(last - 1, 0, -1):
        total = 0.0
        for k in range(1, i + 1):
            total += work[COVARIANCE, i, k] * in_linear[k]
        gradient[i - 1] = total
    for k in range(1, last):
        total = 0.0
        for i in range(k, last):
            total += work[COVARIANCE, i, k] * gradient[i - 1]
        in_linear[k] = total
    pull_precision(part, position, gradient, work)
    pull_spread(part, work, in_linear)
    for i in range(1, last):
        for j in range(1, i + 1):
            total = work[SLOPES_AT, 0, i] * work[BAR, last, j]
            for k in range(j, last):
                total += 2.0 * work[SPREAD_BAR, i, k] * work[SOFTENED, k, j]
            if i == j:
                pivot = work[SOFTENED, i, i]
                total = (total + 1.0 / pivot) * work[FACTOR, i, i] / pivot
            work[BAR, i, j] += total
