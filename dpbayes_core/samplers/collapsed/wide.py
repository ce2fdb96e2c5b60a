"""Coordinates of one part's C under a prior that does not depend on sigma: told by what its release says.

Factors' rows as ever (coordinates.py). The length r of a continuous row has r^2 = o soft(y), soft(y) = log(1 + e^y):
linear where noise knows it, logarithmic where noise hides it. Its partial correlations w are measured from where the
noisy products put them, in units of how firmly. The response's row is that of the regression's slopes (responding.py).
"""

from math import asinh, exp, log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import BAR, EARLY, FACTOR, HIDDEN, LENGTHS, LOW, SEEN, SQUARE, Part
from dpbayes_core.samplers.collapsed.coordinates import first_continuous, place_factors, pull_factors
from dpbayes_core.samplers.collapsed.late import place_late, pull_late
from dpbayes_core.samplers.collapsed.responding import place_response, pull_response
from dpbayes_core.samplers.collapsed.softening import correlation_of, correlation_slopes, length_of, length_slope


@compiled
def correlation_seen(part: Part, work: Floats, i: int, k: int, length: float) -> tuple[float, float, float]:
    """What is left of the noisy product of rows i and k in units of its noise, and how fast T_k / r_k moves it."""
    hidden = part.matrices[HIDDEN, i, k]
    left = part.matrices[SEEN, i, k]
    for j in range(k):
        left -= work[FACTOR, k, j] * work[FACTOR, i, j]
    return left / hidden, work[FACTOR, k, k] * length / hidden, hidden


@compiled
def place_wide_row(position: Floats, i: int, part: Part, work: Floats) -> float:
    """Fill row i of C behind its mean; returns the log Jacobian."""
    length, value = length_of(position[i - 1], part.weights[SQUARE, i])
    early, first = int(part.numbers[EARLY]), first_continuous(part)
    work[FACTOR, i, early:first] = 0.0
    for k in range(1, i):
        if early <= k < first:
            continue
        work[LENGTHS, i, k] = length
        t, rho, _ = correlation_seen(part, work, i, k, length)
        q, firm, _ = correlation_of(t, rho)
        e = exp(asinh(q) + position[k - 1] / sqrt(firm))
        work[FACTOR, i, k] = length * (e - 1.0 / e) / (e + 1.0 / e)
        length *= 2.0 / (e + 1.0 / e)
        value += log(length) - 0.5 * log(firm)
    work[FACTOR, i, i] = length
    return value


@compiled
def pull_wide_row(position: Floats, i: int, part: Part, work: Floats, gradient: Floats) -> None:
    """Reverse of `place_wide_row`: derivatives in the coordinates, and in BAR those in what is before in C."""
    in_length, after = work[BAR, i, i], work[FACTOR, i, i]
    early, first = int(part.numbers[EARLY]), first_continuous(part)
    for k in range(i - 1, 0, -1):
        if early <= k < first:
            continue
        length = work[LENGTHS, i, k]
        tanh, rest = work[FACTOR, i, k] / length, after / length
        t, rho, hidden = correlation_seen(part, work, i, k, length)
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
