"""One part's terms of the collapsed density: log densities of its statistics and of its noise, with derivatives.

The centred scatter of n normal rows of s variables has the log normalising constant
k_s(n) = n s / 2 log(n pi) - log Gamma_s((n - 1) / 2), with n in place of n - 1 where no means are subtracted. A number
of rows that is not public is latent, so that derivatives in it are needed, too.
"""

from math import copysign, exp, lgamma, log, pi, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.samplers.collapsed.arrays import (
    BAR,
    FACTOR,
    FIXED_POWER,
    FREE,
    GAUSSIAN,
    INSIDE,
    INTERCEPT,
    LAPLACE,
    LATENT,
    MOMENTS,
    NO_SIGMA,
    NOISE,
    NOISY,
    OFFSET,
    ORIGINAL,
    PULL,
    RATIO,
    REFERENCE,
    RELATED,
    ROW_POWER,
    ROWS,
    SCALES,
    SIGMA,
    TRANSFORM,
    UNIT_ROWS,
    WIDE,
    Part,
    Target,
)
from dpbayes_core.samplers.collapsed.coordinates import place, pull
from dpbayes_core.samplers.collapsed.laplace_transform import pull_transform, transform
from dpbayes_core.samplers.collapsed.relative_parts import place_relative, pull_relative
from dpbayes_core.samplers.collapsed.wide import place_wide, pull_wide


@compiled
def digamma(x: float) -> float:
    """Derivative of log Gamma for x > 0: recurrence up to 10, then the asymptotic series."""
    value = 0.0
    while x < 10.0:
        value -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = 1.0 / 12 - square * (1.0 / 120 - square * (1.0 / 252 - square * (1.0 / 240 - square / 132)))
    return value + log(x) - 0.5 / x - square * series


@compiled
def log_gammas(x: float, first: int, last: int) -> tuple[float, float]:
    """Sum of log Gamma(x - k/2) over first <= k < last, and its derivative."""
    value, slope = 0.0, 0.0
    for k in range(first, last):
        value += lgamma(x - 0.5 * k)
        slope += digamma(x - 0.5 * k)
    return value, slope


@compiled
def rows_constant(rows: float, inside: int, size: int, lost: float) -> tuple[float, float]:
    """k_size - k_inside at `rows`, and its derivative; `lost` is 1 where means are subtracted, else 0."""
    value, slope = log_gammas(0.5 * (rows - lost), inside, size)
    span = size - inside
    value = 0.5 * rows * span * log(rows * pi) - value
    return value, 0.5 * span * (log(rows * pi) + 1.0) - 0.5 * slope


@compiled
def moments(work: Floats) -> None:
    """MOMENTS = R / n = C C', lower triangle."""
    for i in range(work.shape[1]):
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += work[FACTOR, i, k] * work[FACTOR, j, k]
            work[MOMENTS, i, j] = total


@inlined
def place_part(position: Floats, target: Target, index: int, work: Floats) -> float:
    """Fill rows, C and moments of one part; returns the terms of the log density that are no function of these."""
    part = Part(target.parts[index], target.matrices[index], target.weights[index], target.blocks)
    own, reference = work[index], int(target.numbers[REFERENCE])
    value, offset = 0.0, int(part.numbers[OFFSET])
    if part.numbers[LATENT] > 0.0:
        least = work.shape[2]  # the rows, m + 1 at least, have a flat prior in their logarithm
        part.numbers[ROWS] = least + exp(position[offset])
        value += position[offset] - log(part.numbers[ROWS])
        offset += 1
    kind = int(part.numbers[SIGMA])
    if kind != NO_SIGMA:
        offset += 1
    if part.numbers[WIDE] > 0.0:
        value += place_wide(position[offset:], part, own)
    elif part.numbers[RELATED] == 0.0:
        value += place(position[offset:], part, own)
    else:
        value += place_relative(position[offset:], part, work[reference], own)
    for i in range(own.shape[1]):
        own[ORIGINAL, i, : i + 1] = own[FACTOR, i, : i + 1]
    if part.numbers[TRANSFORM] > 0.0:
        value += transform(part, own)
    moments(own)
    if kind != NO_SIGMA:
        last, at = own.shape[1] - 1, int(part.numbers[OFFSET]) + int(part.numbers[LATENT])
        work[len(target.parts), FREE, 0, 0] = position[at] + (log(own[FACTOR, last, last]) if kind == RATIO else 0.0)
    return value


@inlined
def part_in_order(turn: int, reference: int) -> int:
    """The index of the part to fill next: the reference first, since other parts' C depend on it."""
    if turn == 0 and reference >= 0:
        return reference
    return turn - 1 if turn <= reference else turn


@compiled
def statistic(position: Floats, target: Target, work: Floats) -> float:
    """Fill rows, C and moments of every part; returns the terms of the log density that are no function of these."""
    value = 0.0
    for turn in range(len(target.parts)):
        value += place_part(position, target, part_in_order(turn, int(target.numbers[REFERENCE])), work)
    return value


@compiled
def part_terms(part: Part, work: Floats, lost: float, inside: int) -> tuple[float, float]:
    """The log of the powers of C's diagonal, with derivatives in BAR; also returns the derivative in the rows."""
    rows, size = part.numbers[ROWS], work.shape[1]
    value, slope = 0.0, 0.0
    if part.numbers[LATENT] > 0.0:
        value, slope = rows_constant(rows, inside, size - 1, lost)
    for i in range(size):
        work[BAR, i, : i + 1] = 0.0
        weight = part.weights[FIXED_POWER, i] + part.weights[ROW_POWER, i] * rows
        if weight != 0.0 or part.weights[ROW_POWER, i] != 0.0:
            logged = log(work[FACTOR, i, i])
            value += weight * logged
            slope += part.weights[ROW_POWER, i] * logged
            work[BAR, i, i] = weight / work[FACTOR, i, i]
    return value, slope


@compiled
def noise_terms(part: Part, work: Floats) -> tuple[float, float]:
    """Log density of the noise, with derivatives in C added to BAR; also returns the derivative in the rows."""
    n, noise, value, in_rows = part.numbers[ROWS], int(part.numbers[NOISE]), 0.0, 0.0
    for i in range(work.shape[1]):
        for j in range(i + 1):
            scale = part.matrices[SCALES, i, j]
            if scale == 0.0:
                continue
            residual = (part.matrices[NOISY, i, j] - n * work[MOMENTS, i, j]) / scale
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
            slope /= scale
            in_rows += slope * work[MOMENTS, i, j]
            slope *= n
            for k in range(j + 1):
                work[BAR, i, k] += slope * work[FACTOR, j, k]
            for k in range(j + 1):
                work[BAR, j, k] += slope * work[FACTOR, i, k]
    return value, in_rows


@inlined
def pull_whole(share: float, whole: Floats, work: Floats) -> float:
    """Add to BAR the derivatives of the whole's terms in one part; returns the derivative in its rows, in unit rows."""
    in_share, size = 0.0, work.shape[1]
    for i in range(size):
        for k in range(size):
            weight = share * (whole[PULL, i, k] if k <= i else whole[PULL, k, i])
            for j in range(min(i, k) + 1):
                work[BAR, i, j] += weight * work[FACTOR, k, j]
        for k in range(i):
            in_share += whole[PULL, i, k] * work[MOMENTS, i, k]
        in_share += 0.5 * whole[PULL, i, i] * work[MOMENTS, i, i]
    return in_share


@inlined
def own_slopes(target: Target, index: int, work: Floats, in_rows: float, gradient: Floats) -> float:
    """Log density of one part and its noise; BAR gets derivatives in C before the transformation, the whole's, too."""
    numbers, whole, own_work = target.numbers, work[len(target.parts)], work[index]
    part = Part(target.parts[index], target.matrices[index], target.weights[index], target.blocks)
    own, in_own = part_terms(part, own_work, numbers[INTERCEPT], int(numbers[INSIDE]))
    noise, in_noise = noise_terms(part, own_work)
    in_share = pull_whole(part.numbers[ROWS] / numbers[UNIT_ROWS], whole, own_work)
    kind, at = int(part.numbers[SIGMA]), int(part.numbers[OFFSET])
    if kind != NO_SIGMA:
        last, in_sigma = own_work.shape[1] - 1, whole[FREE, 0, 1]
        gradient[at + int(part.numbers[LATENT])] = in_sigma
        if kind == RATIO:
            own_work[BAR, last, last] += in_sigma / own_work[FACTOR, last, last]
    if part.numbers[TRANSFORM] > 0.0:
        pull_transform(part, own_work)
    if part.numbers[LATENT] > 0.0:
        above = part.numbers[ROWS] - work.shape[2]
        slope = in_rows + in_own + in_noise + in_share / numbers[UNIT_ROWS] - 1.0 / part.numbers[ROWS]
        gradient[at] = 1.0 + slope * above
    return own + noise


@inlined
def pull_part(position: Floats, target: Target, index: int, work: Floats, gradient: Floats) -> None:
    """Derivatives in one part's coordinates from those in its C, and in the reference's C."""
    part = Part(target.parts[index], target.matrices[index], target.weights[index], target.blocks)
    own, reference = work[index], int(target.numbers[REFERENCE])
    offset = int(part.numbers[OFFSET]) + int(part.numbers[LATENT])
    if int(part.numbers[SIGMA]) != NO_SIGMA:
        offset += 1
    if part.numbers[WIDE] > 0.0:
        pull_wide(position[offset:], part, own, gradient[offset:])
    elif part.numbers[RELATED] == 0.0:
        pull(position[offset:], part, own, gradient[offset:])
    else:
        pull_relative(position[offset:], part, work[reference], own, gradient[offset:])


@inlined
def part_slopes(position: Floats, target: Target, work: Floats, in_rows: float, gradient: Floats) -> float:
    """Log density of all parts, and the gradient; the reference comes last, since other parts add to its slopes."""
    value, reference = 0.0, int(target.numbers[REFERENCE])
    for j in range(len(target.parts)):
        value += own_slopes(target, j, work, in_rows, gradient)
    for turn in range(len(target.parts) - 1, -1, -1):
        pull_part(position, target, part_in_order(turn, reference), work, gradient)
    return value
