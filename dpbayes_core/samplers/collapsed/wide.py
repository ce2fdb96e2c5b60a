"""Coordinates of the C of one part under a prior that does not depend on sigma, standardised by the release.

Rows of factors are as in coordinates.py. The length r of a continuous row has r^2 = o soft(y),
soft(y) = log(1 + e^y): linear where its noise is small, logarithmic where the noise hides it. Its partial
correlations w are centred and scaled by the noisy products and their precision. The response's row is in
responding.py.

A level whose count the noise may hide (a late level) comes after the products of the numbers. Products of an almost
empty level with numbers are bounded only by positive definiteness; if they came first, well-known products of the
numbers would make that bound a hard constraint. So the rows of the numbers are filled first, without the level, B
their lower triangle. Then the level's products with numbers are c B g, c its own length, |g| < 1, g_k = r_k tanh w_k
with r_k = prod_{j<k} 1 / cosh w_j. Row by row, rotations by these angles turn B and the empty column into D and B g,
DD' + B g g'B' = BB'. The log Jacobian is as that of a row of numbers: the sum of the logs of the diagonal of D, less
half the log of the precision of each w.
"""

from math import asinh, exp, log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import (
    BAR,
    EARLY,
    FACTOR,
    LENGTHS,
    LOW,
    MEAN_NOISY,
    MEAN_SD,
    REACH,
    ROTATION,
    ROTATION_BAR,
    SQUARE,
    Part,
)
from dpbayes_core.samplers.collapsed.coordinates import first_continuous, place_factors, pull_factors
from dpbayes_core.samplers.collapsed.responding import place_response, pull_response
from dpbayes_core.samplers.collapsed.softening import correlation_of, correlation_slopes, length_of, length_slope


@compiled
def late_residual(part: Part, work: Floats, i: int, c: int) -> tuple[float, float]:
    """The residual of the noisy product of row i and a late level in units of its noise, and its derivative in g_i."""
    hidden, before = part.matrices[MEAN_SD, i, c], 0.0
    left = part.matrices[MEAN_NOISY, i, c]
    for j in range(c):
        left -= work[FACTOR, c, j] * work[FACTOR, i, j]
    for k in range(first_continuous(part), i):
        before += work[FACTOR, i, k] * work[REACH, c, k]
    pivot = work[FACTOR, c, c]
    return (left - pivot * before) / hidden, work[FACTOR, i, i] * pivot * work[REACH, i, c] / hidden


@compiled
def rotate_row(work: Floats, first: int, i: int, c: int) -> None:
    """Rotate row i, so that its column c is filled."""
    carry = 0.0
    for k in range(i, first - 1, -1):
        own, tanh, rest = work[FACTOR, i, k], work[ROTATION, k, c], work[ROTATION, c, k]
        work[FACTOR, i, k] = rest * own - tanh * carry
        carry = tanh * own + rest * carry
    work[FACTOR, i, c] = carry


@compiled
def place_late(position: Floats, part: Part, work: Floats) -> float:
    """Fill the late levels' columns in the numbers' rows; returns the log Jacobian."""
    low, first, last, value = int(part.numbers[LOW]), first_continuous(part), work.shape[1] - 1, 0.0
    for c in range(int(part.numbers[EARLY]), first):
        offset, reach = 0, 1.0
        for i in range(first, last):
            offset += 1 - low
            work[REACH, i, c] = reach
            t, rho = late_residual(part, work, i, c)
            q, firm, _ = correlation_of(t, rho)
            e = exp(asinh(q) + position[offset + c - 1] / sqrt(firm))
            work[ROTATION, i, c], work[ROTATION, c, i] = (e - 1.0 / e) / (e + 1.0 / e), 2.0 / (e + 1.0 / e)
            work[REACH, c, i] = reach * work[ROTATION, i, c]
            reach *= work[ROTATION, c, i]
            rotate_row(work, first, i, c)
            value += log(work[FACTOR, i, i]) - 0.5 * log(firm)
            offset += i
    return value


@compiled
def pull_rotation(work: Floats, first: int, i: int, c: int) -> None:
    """Reverse of `rotate_row`: restores the row and its BAR, and fills derivatives in the angles."""
    carry, in_carry = work[FACTOR, i, c], work[BAR, i, c]
    for k in range(first, i + 1):
        own, in_own, tanh, rest = work[FACTOR, i, k], work[BAR, i, k], work[ROTATION, k, c], work[ROTATION, c, k]
        work[ROTATION_BAR, k, c] += own * in_carry - carry * in_own
        work[FACTOR, i, k], carry = rest * own + tanh * carry, rest * carry - tanh * own
        work[BAR, i, k], in_carry = rest * in_own + tanh * in_carry, rest * in_carry - tanh * in_own
    work[FACTOR, i, c], work[BAR, i, c] = 0.0, 0.0


@compiled
def pull_late_residual(part: Part, work: Floats, i: int, c: int, slopes: tuple[float, float]) -> float:
    """Reverse of `late_residual`, given derivatives in its results; returns the derivative in r_i."""
    pivot, own, reach = work[FACTOR, c, c], work[FACTOR, i, i], work[REACH, i, c]
    in_t, in_rho = slopes[0] / part.matrices[MEAN_SD, i, c], slopes[1] / part.matrices[MEAN_SD, i, c]
    work[BAR, i, i] += in_rho * pivot * reach
    work[BAR, c, c] += in_rho * own * reach
    for k in range(first_continuous(part), i):
        work[BAR, c, c] -= in_t * work[FACTOR, i, k] * work[REACH, c, k]
        work[BAR, i, k] -= in_t * pivot * work[REACH, c, k]
        work[ROTATION_BAR, c, k] -= in_t * pivot * work[FACTOR, i, k]
    for j in range(c):
        work[BAR, c, j] -= in_t * work[FACTOR, i, j]
        work[BAR, i, j] -= in_t * work[FACTOR, c, j]
    return in_rho * own * pivot


@compiled
def pull_late(position: Floats, part: Part, work: Floats, gradient: Floats) -> None:
    """Reverse of `place_late`: derivatives in its coordinates, and in BAR those in C before it, which is restored."""
    low, first, last = int(part.numbers[LOW]), first_continuous(part), work.shape[1] - 1
    for c in range(first - 1, int(part.numbers[EARLY]) - 1, -1):
        offset, in_next = 0, 0.0
        for i in range(first, last):
            work[ROTATION_BAR, i, c], work[ROTATION_BAR, c, i] = 0.0, 0.0
            offset += 1 - low + i
        for i in range(last - 1, first - 1, -1):
            offset -= i
            work[BAR, i, i] += 1.0 / work[FACTOR, i, i]
            pull_rotation(work, first, i, c)
            tanh, rest, reach, in_reach = (
                work[ROTATION, i, c],
                work[ROTATION, c, i],
                work[REACH, i, c],
                work[ROTATION_BAR, c, i],
            )
            in_w = rest * (work[ROTATION_BAR, i, c] + reach * (in_reach * rest - in_next * tanh))
            t, rho = late_residual(part, work, i, c)
            q, firm, _ = correlation_of(t, rho)
            slope = in_w / sqrt(firm)
            in_firm = -0.5 * (slope * position[offset + c - 1] + 1.0) / firm
            gradient[offset + c - 1] = slope
            slopes = correlation_slopes(t, rho, in_w / sqrt(1.0 + q * q), in_firm)
            in_next = in_reach * tanh + in_next * rest
            in_next += pull_late_residual(part, work, i, c, slopes)
            offset -= 1 - low


@compiled
def correlation_residual(part: Part, work: Floats, i: int, k: int, length: float) -> tuple[float, float, float]:
    """The residual of the noisy product of rows i and k in units of its noise, and its derivative in T_k / r_k."""
    hidden = part.matrices[MEAN_SD, i, k]
    left = part.matrices[MEAN_NOISY, i, k]
    for j in range(k):
        left -= work[FACTOR, k, j] * work[FACTOR, i, j]
    return left / hidden, work[FACTOR, k, k] * length / hidden, hidden


@compiled
def place_wide_row(position: Floats, i: int, part: Part, work: Floats) -> float:
    """Fill row i of C after its mean; returns the log Jacobian."""
    length, value = length_of(position[i - 1], part.weights[SQUARE, i])
    early, first = int(part.numbers[EARLY]), first_continuous(part)
    work[FACTOR, i, early:first] = 0.0
    for k in range(1, i):
        if early <= k < first:
            continue
        work[LENGTHS, i, k] = length
        t, rho, _ = correlation_residual(part, work, i, k, length)
        q, firm, _ = correlation_of(t, rho)
        e = exp(asinh(q) + position[k - 1] / sqrt(firm))
        work[FACTOR, i, k] = length * (e - 1.0 / e) / (e + 1.0 / e)
        length *= 2.0 / (e + 1.0 / e)
        value += log(length) - 0.5 * log(firm)
    work[FACTOR, i, i] = length
    return value


@compiled
def pull_wide_row(position: Floats, i: int, part: Part, work: Floats, gradient: Floats) -> None:
    """Reverse of `place_wide_row`: derivatives in the coordinates, and in BAR those in the earlier rows of C."""
    in_length, after = work[BAR, i, i], work[FACTOR, i, i]
    early, first = int(part.numbers[EARLY]), first_continuous(part)
    for k in range(i - 1, 0, -1):
        if early <= k < first:
            continue
        length = work[LENGTHS, i, k]
        tanh, rest = work[FACTOR, i, k] / length, after / length
        t, rho, hidden = correlation_residual(part, work, i, k, length)
        q, firm, _ = correlation_of(t, rho)
        in_length += 1.0 / after
        in_w = work[BAR, i, k] * length * rest * rest - in_length * after * tanh
        in_length = work[BAR, i, k] * tanh + in_length * rest
        gradient[k - 1] = in_w / sqrt(firm)
        in_firm = -0.5 * (gradient[k - 1] * position[k - 1] + 1.0) / firm
        in_t, in_rho = correlation_slopes(t, rho, in_w / sqrt(1.0 + q * q), in_firm)
        in_t, in_rho = in_t / hidden, in_rho / hidden
        work[BAR, k, k] += in_rho * length
        in_length += in_rho * work[FACTOR, k, k]
        for j in range(k):
            work[BAR, k, j] -= in_t * work[FACTOR, i, j]
            work[BAR, i, j] -= in_t * work[FACTOR, k, j]
        after = length
    gradient[i - 1] = length_slope(position[i - 1], in_length * after + 1.0)


@compiled
def place_wide(position: Floats, part: Part, work: Floats) -> float:
    """Fill C from the coordinates; returns the part of the log density that is not a function of C alone."""
    value, offset = place_factors(position, part, work)
    low, last, start = int(part.numbers[LOW]), work.shape[1] - 1, offset
    for i in range(first_continuous(part), last + 1):
        work[FACTOR, i, 0] = 0.0 if low else position[offset]
        offset += 1 - low
        if i < last:
            value += place_wide_row(position[offset:], i, part, work)
        else:
            value += place_late(position[start:], part, work) + place_response(position[offset:], part, work)
        offset += i
    return value


@compiled
def pull_wide(position: Floats, part: Part, work: Floats, gradient: Floats) -> None:
    """Reverse of `place_wide`: derivatives in the coordinates, given those in C (BAR, lower triangle)."""
    low, last, first = int(part.numbers[LOW]), work.shape[1] - 1, first_continuous(part)
    offset = 0
    for block in range(part.blocks.shape[0]):
        offset += int(part.blocks[block, 0] * part.blocks[block, 1])
    start = offset
    for i in range(first, last + 1):
        offset += 1 - low + i
    for i in range(last, first - 1, -1):
        offset -= i
        if i == last:
            pull_response(position[offset:], part, work, gradient[offset:])
            pull_late(position[start:], part, work, gradient[start:])
        else:
            pull_wide_row(position[offset:], i, part, work, gradient[offset:])
        offset -= 1 - low
        if low == 0:
            gradient[offset] = work[BAR, i, 0]
    pull_factors(position, part, work, gradient)
