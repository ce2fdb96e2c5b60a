"""Unconstrained coordinates of the statistic R = n C C', of levels, too, with log Jacobian and gradient.

`place_x` fills an array from coordinates, and `pull_x` is its reverse in automatic differentiation: it turns
derivatives in that array (its `bar`) into derivatives in the coordinates.

Rows of C: the constant (row e_0), the variables of each factor, then continuous covariates, then the response. A
factor's rows follow from the logits of its level shares and free cross products U with the factors before it: L_f = H
M^-1 [U, I], H H' the known scatter within the factor, M M' = I + U U'. A continuous row is its mean, then its length
and its partial correlations with the rows before it: T_j = r_j tanh w_j, r_{j+1} = r_j / cosh w_j, the last entry
being the remainder, r_i > 0. These coordinates have about the same width for any row, short or correlated: the law of
correlations has exponential tails in w. With fewer rows than variables C has as many columns as there are rows, and
the rows of C below are free numbers.
"""

from math import cosh, exp, log, sqrt, tanh

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import (
    BAR,
    COLUMNS,
    FACTOR,
    FAINT,
    FIRST,
    INVERSE,
    LENGTHS,
    LOW,
    MIXING,
    MIXING_BAR,
    ROTATED,
    ROTATED_BAR,
    SHARE,
    SHARES,
    SIZE,
    SLOPES,
    STEP,
    UNIT,
    WITHIN,
    WITHIN_BAR,
    Part,
)
from dpbayes_core.samplers.collapsed.levels import (
    level_shares,
    level_slopes,
    within_factor,
    within_factor_reverse,
)


@compiled
def place_row(position: Floats, size: int, row: Floats, lengths: Floats) -> float:
    """Fill `row` from w_1..w_{size-1} and the log length, and `lengths` with the r_j; returns the log Jacobian."""
    length, value = exp(position[size - 1]), position[size - 1]
    for j in range(size - 1):
        lengths[j] = length
        row[j] = length * tanh(position[j])
        length /= cosh(position[j])
        value += log(length)
    lengths[size - 1] = length
    row[size - 1] = length
    return value


@compiled
def pull_row(position: Floats, size: int, lengths: Floats, bar: Floats, gradient: Floats) -> None:
    """Derivatives in the coordinates, given those in the row (`bar`), of the log Jacobian, too."""
    in_length = bar[size - 1]
    for j in range(size - 2, -1, -1):
        in_length += 1.0 / lengths[j + 1]
        slope, rest = tanh(position[j]), lengths[j + 1] / lengths[j]
        gradient[j] = lengths[j] * rest * (bar[j] * rest - in_length * slope)
        in_length = bar[j] * slope + in_length * rest
    gradient[size - 1] = in_length * lengths[0] + 1.0


@compiled
def first_continuous(part: Part) -> int:
    """The first row after the factors."""
    row = 1
    for block in range(part.blocks.shape[0]):
        row += int(part.blocks[block, SIZE])
    return row


@compiled
def mix(cross: Floats, first: int, size: int, work: Floats) -> float:
    """M and M^-1 [U, I] of one factor, U row by row at the start of `cross`; returns the log Jacobian of M^-1 U."""
    earlier, end, value = first - 1, first + size, 0.0
    for i in range(first, end):
        u = (i - first) * earlier
        for j in range(first, i + 1):
            total = 1.0 if i == j else 0.0
            for c in range(earlier):
                total += cross[u + c] * cross[(j - first) * earlier + c]
            for k in range(first, j):
                total -= work[MIXING, i, k] * work[MIXING, j, k]
            work[MIXING, i, j] = sqrt(total) if i == j else total / work[MIXING, j, j]
        pivot = work[MIXING, i, i]
        value -= (earlier + 2 * (end - i)) * log(pivot)
        for c in range(1, end):
            work[ROTATED, i, c] = cross[u + c - 1] if c <= earlier else 0.0
        work[ROTATED, i, i] = 1.0
        for j in range(first, i):
            for c in range(1, j + 1):
                work[ROTATED, i, c] -= work[MIXING, i, j] * work[ROTATED, j, c]
        for c in range(1, i + 1):
            work[ROTATED, i, c] /= pivot
    return value


@compiled
def place_factor(position: Floats, part: Part, block: int, work: Floats) -> float:
    """Rows of one factor in C, from its logits and cross products; returns its term of the log density."""
    first, size = int(part.blocks[block, FIRST]), int(part.blocks[block, SIZE])
    step = part.blocks[block, STEP]
    logged, value = level_shares(position, first, size, part.weights, work)
    value += part.blocks[block, SHARE] * logged
    within_factor(first, size, step, work)
    value += mix(position[size:], first, size, work)
    for i in range(first, first + size):
        for c in range(1, i + 1):
            work[FACTOR, i, c] = 0.0
        for j in range(first, i + 1):
            for c in range(1, j + 1):
                work[FACTOR, i, c] += work[WITHIN, i, j] * work[ROTATED, j, c]
        work[FACTOR, i, 0] = step * work[SHARES, 0, i] + 1.0 - step
    return value


@compiled
def shrink_response(part: Part, work: Floats) -> float:
    """Shrink the response along each C_kk that noise hides, as its slope's prior does: with C_kk and with sigma."""
    last, value = work.shape[1] - 1, 0.0
    if last >= part.numbers[COLUMNS]:
        return value
    size = log(work[FACTOR, last, last] / part.weights[UNIT, last])
    for k in range(first_continuous(part), last):
        square = work[FACTOR, k, k] ** 2
        share = 1.0 / (1.0 + part.weights[FAINT, k] / square)
        scale = 0.5 * log(share) + (1.0 - share) * size
        work[FACTOR, last, k] *= exp(scale)
        value += scale
    return value


@compiled
def pull_shrinking(part: Part, work: Floats) -> None:
    """Reverse of `shrink_response`, in BAR."""
    last = work.shape[1] - 1
    if last >= part.numbers[COLUMNS]:
        return
    own = work[FACTOR, last, last]
    size = log(own / part.weights[UNIT, last])
    for k in range(first_continuous(part), last):
        pivot = work[FACTOR, k, k]
        share = 1.0 / (1.0 + part.weights[FAINT, k] / (pivot * pivot))
        inner = (work[BAR, last, k] * work[FACTOR, last, k] + 1.0) * (1.0 - share)
        work[BAR, k, k] += inner * (1.0 - 2.0 * share * size) / pivot
        work[BAR, last, last] += inner / own
        work[BAR, last, k] *= exp(0.5 * log(share) + (1.0 - share) * size)


@compiled
def place_factors(position: Floats, part: Part, work: Floats) -> tuple[float, int]:
    """Fill the factors' rows of C; returns their term of the log density and their number of coordinates."""
    work[FACTOR, 0, 0] = 1.0
    value, offset = 0.0, 0
    for block in range(part.blocks.shape[0]):
        value += place_factor(position[offset:], part, block, work)
        offset += int(part.blocks[block, FIRST] * part.blocks[block, SIZE])
    return value, offset


@compiled
def place(position: Floats, part: Part, work: Floats) -> float:
    """Fill C from the coordinates; returns the part of the log density that is not a function of C alone."""
    value, offset = place_factors(position, part, work)
    low, columns = int(part.numbers[LOW]), int(part.numbers[COLUMNS])
    for i in range(first_continuous(part), work.shape[1]):
        work[FACTOR, i, 0] = 0.0 if low else position[offset]
        offset += 1 - low
        size = min(i, columns - 1)
        if i < min(columns, work.shape[1] - 1):
            value += place_row(position[offset:], size, work[FACTOR, i, 1:], work[LENGTHS, i])
        else:
            work[FACTOR, i, 1:] = 0.0
            work[FACTOR, i, 1 : 1 + size] = position[offset : offset + size]
            if i < columns:
                work[FACTOR, i, i] = exp(position[offset + size - 1])
                value += position[offset + size - 1]
        offset += size
    return value + shrink_response(part, work)


@compiled
def mixing_reverse(first: int, size: int, work: Floats) -> None:
    """INVERSE = twice the derivatives in M M', given the rotated ones: the reverse of a Cholesky factorisation."""
    end = first + size
    for i in range(first, end):
        for j in range(first, i + 1):
            total = 0.0
            for c in range(1, j + 1):
                total -= work[ROTATED_BAR, i, c] * work[ROTATED, j, c]
            work[MIXING_BAR, i, j] = total
        work[MIXING_BAR, i, i] -= (first - 1 + 2 * (end - i)) / work[MIXING, i, i]
    for i in range(first, end):
        for j in range(first, i + 1):
            total = 0.0
            for k in range(i, end):
                total += work[MIXING, k, i] * work[MIXING_BAR, k, j]
            work[INVERSE, i, j] = total
            work[INVERSE, j, i] = total
    for _ in range(2):  # S <- (M^-T S)', twice, is M^-T S M^-1
        for i in range(end - 1, first - 1, -1):
            for c in range(first, end):
                work[INVERSE, i, c] /= work[MIXING, i, i]
                for j in range(first, i):
                    work[INVERSE, j, c] -= work[MIXING, i, j] * work[INVERSE, i, c]
        for i in range(first, end):
            for j in range(first, i):
                upper = work[INVERSE, j, i]
                work[INVERSE, j, i] = work[INVERSE, i, j]
                work[INVERSE, i, j] = upper


@compiled
def mix_reverse(cross: Floats, first: int, size: int, work: Floats, gradient: Floats) -> None:
    """Derivatives in the cross products, given those in the rotated rows (overwritten)."""
    earlier, end = first - 1, first + size
    for i in range(end - 1, first - 1, -1):
        for c in range(1, end):
            work[ROTATED_BAR, i, c] /= work[MIXING, i, i]
        for j in range(first, i):
            for c in range(1, end):
                work[ROTATED_BAR, j, c] -= work[MIXING, i, j] * work[ROTATED_BAR, i, c]
    mixing_reverse(first, size, work)
    for i in range(first, end):
        u = (i - first) * earlier
        for c in range(earlier):
            gradient[u + c] = work[ROTATED_BAR, i, 1 + c]
        for j in range(first, end):
            weight = work[INVERSE, i, j]
            for c in range(earlier):
                gradient[u + c] += weight * cross[(j - first) * earlier + c]


@compiled
def pull_factor(position: Floats, part: Part, block: int, work: Floats, gradient: Floats) -> None:
    """Derivatives in one factor's logits and cross products, given those in its rows of C."""
    first, size = int(part.blocks[block, FIRST]), int(part.blocks[block, SIZE])
    step, share, end = part.blocks[block, STEP], part.blocks[block, SHARE], first + size
    for j in range(first, end):
        for c in range(1, end):
            work[ROTATED_BAR, j, c] = 0.0
        for i in range(j, end):
            total = 0.0
            for c in range(1, j + 1):
                total += work[BAR, i, c] * work[ROTATED, j, c]
                work[ROTATED_BAR, j, c] += work[WITHIN, i, j] * work[BAR, i, c]
            work[WITHIN_BAR, i, j] = total
    mix_reverse(position[size:], first, size, work, gradient[size:])
    for i in range(first, end):
        work[SLOPES, 0, i] = share + step * work[SHARES, 0, i] * work[BAR, i, 0]
    work[SLOPES, 0, 0] = share + within_factor_reverse(first, size, work)
    level_slopes(position, part, block, work, gradient)


@compiled
def pull_factors(position: Floats, part: Part, work: Floats, gradient: Floats) -> int:
    """Reverse of `place_factors`; returns the number of coordinates."""
    offset = 0
    for block in range(part.blocks.shape[0]):
        pull_factor(position[offset:], part, block, work, gradient[offset:])
        offset += int(part.blocks[block, SIZE] * part.blocks[block, FIRST])
    return offset


@compiled
def pull(position: Floats, part: Part, work: Floats, gradient: Floats) -> None:
    """Reverse of `place`: derivatives in the coordinates, given those in C (BAR, lower triangle)."""
    pull_shrinking(part, work)
    offset = pull_factors(position, part, work, gradient)
    low, columns = int(part.numbers[LOW]), int(part.numbers[COLUMNS])
    for i in range(first_continuous(part), work.shape[1]):
        if low == 0:
            gradient[offset] = work[BAR, i, 0]
            offset += 1
        width = min(i, columns - 1)
        if i < min(columns, work.shape[1] - 1):
            pull_row(position[offset:], width, work[LENGTHS, i], work[BAR, i, 1:], gradient[offset:])
        else:
            gradient[offset : offset + width] = work[BAR, i, 1 : 1 + width]
            if i < columns:
                gradient[offset + width - 1] = 1.0 + work[BAR, i, i] * work[FACTOR, i, i]
        offset += width
