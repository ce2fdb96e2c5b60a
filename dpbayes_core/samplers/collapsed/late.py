"""Columns of C for levels that noise may hide, told after the numbers' own products: no wall where a level vanishes.

Of a level that may hardly be there the relation to numbers may be anything, as long as what it leaves of them is
positive definite; told before products that are well known, it would run into that as into a wall. So numbers' rows
are filled without it first (wide.py), B their lower triangle. Then the level's row is told against them: its products
with numbers are c B g, c its own length, |g| < 1, g_k = r_k tanh w_k with r_k = prod_{j<k} 1 / cosh w_j. Row by row,
rotations by these angles take B and the empty column to D and B g, DD' + B g g'B' = BB'. The log Jacobian is as that
of a row of numbers: the sum of the logs of D's diagonal, less half that of how firmly each w is known.
"""

from math import asinh, exp, log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import BAR, EARLY, FACTOR, HIDDEN, LOW, REACH, SEEN, TURN, TURN_BAR, Part
from dpbayes_core.samplers.collapsed.coordinates import first_continuous
from dpbayes_core.samplers.collapsed.softening import correlation_of, correlation_slopes


@compiled
def late_seen(part: Part, work: Floats, i: int, c: int) -> tuple[float, float]:
    """What is left of the noisy product of row i and a late level in units of its noise, and how fast g_i moves it."""
    hidden, before = part.matrices[HIDDEN, i, c], 0.0
    left = part.matrices[SEEN, i, c]
    for j in range(c):
        left -= work[FACTOR, c, j] * work[FACTOR, i, j]
    for k in range(first_continuous(part), i):
        before += work[FACTOR, i, k] * work[REACH, c, k]
    pivot = work[FACTOR, c, c]
    return (left - pivot * before) / hidden, work[FACTOR, i, i] * pivot * work[REACH, i, c] / hidden


@compiled
def turn_row(work: Floats, first: int, i: int, c: int) -> None:
    """Rotate row i, so that its column c is filled."""
    carry = 0.0
    for k in range(i, first - 1, -1):
        own, tanh, rest = work[FACTOR, i, k], work[TURN, k, c], work[TURN, c, k]
        work[FACTOR, i, k] = rest * own - tanh * carry
        carry = tanh * own + rest * carry
    work[FACTOR, i, c] = carry


@compiled
def place_late(position: Floats, part: Part, work: Floats) -> float:
    """Fill the late columns of numbers' rows, whose coordinates start `position`; returns the log Jacobian."""
    low, first, last, value = int(part.numbers[LOW]), first_continuous(part), work.shape[1] - 1, 0.0
    for c in range(int(part.numbers[EARLY]), first):
        offset, reach = 0, 1.0
        for i in range(first, last):
            offset += 1 - low
            work[REACH, i, c] = reach
            t, rho = late_seen(part, work, i, c)
            q, firm, _ = correlation_of(t, rho)
            e = exp(asinh(q) + position[offset + c - 1] / sqrt(firm))
            work[TURN, i, c], work[TURN, c, i] = (e - 1.0 / e) / (e + 1.0 / e), 2.0 / (e + 1.0 / e)
            work[REACH, c, i] = reach * work[TURN, i, c]
            reach *= work[TURN, c, i]
            turn_row(work, first, i, c)
            value += log(work[FACTOR, i, i]) - 0.5 * log(firm)
            offset += i
    return value


@compiled
def turn_back(work: Floats, first: int, i: int, c: int) -> None:
    """Reverse of `turn_row`: the row and its BAR as they were before; derivatives in the angles."""
    carry, in_carry = work[FACTOR, i, c], work[BAR, i, c]
    for k in range(first, i + 1):
        own, in_own, tanh, rest = work[FACTOR, i, k], work[BAR, i, k], work[TURN, k, c], work[TURN, c, k]
        work[TURN_BAR, k, c] += own * in_carry - carry * in_own
        work[FACTOR, i, k], carry = rest * own + tanh * carry, rest * carry - tanh * own
        work[BAR, i, k], in_carry = rest * in_own + tanh * in_carry, rest * in_carry - tanh * in_own
    work[FACTOR, i, c], work[BAR, i, c] = 0.0, 0.0


@compiled
def pull_seen(part: Part, work: Floats, i: int, c: int, slopes: tuple[float, float]) -> float:
    """Derivatives in what `late_seen` rests on, given those in what it finds; returns the one in r_i."""
    pivot, own, reach = work[FACTOR, c, c], work[FACTOR, i, i], work[REACH, i, c]
    in_t, in_rho = slopes[0] / part.matrices[HIDDEN, i, c], slopes[1] / part.matrices[HIDDEN, i, c]
    work[BAR, i, i] += in_rho * pivot * reach
    work[BAR, c, c] += in_rho * own * reach
    for k in range(first_continuous(part), i):
        work[BAR, c, c] -= in_t * work[FACTOR, i, k] * work[REACH, c, k]
        work[BAR, i, k] -= in_t * pivot * work[REACH, c, k]
        work[TURN_BAR, c, k] -= in_t * pivot * work[FACTOR, i, k]
    for j in range(c):
        work[BAR, c, j] -= in_t * work[FACTOR, i, j]
        work[BAR, i, j] -= in_t * work[FACTOR, c, j]
    return in_rho * own * pivot


@compiled
def pull_late(position: Floats, part: Part, work: Floats, gradient: Floats) -> None:
    """Reverse of `place_late`: derivatives in its coordinates, and in BAR those in C before, which C is again."""
    low, first, last = int(part.numbers[LOW]), first_continuous(part), work.shape[1] - 1
    for c in range(first - 1, int(part.numbers[EARLY]) - 1, -1):
        offset, in_next = 0, 0.0
        for i in range(first, last):
            work[TURN_BAR, i, c], work[TURN_BAR, c, i] = 0.0, 0.0
            offset += 1 - low + i
        for i in range(last - 1, first - 1, -1):
            offset -= i
            work[BAR, i, i] += 1.0 / work[FACTOR, i, i]
            turn_back(work, first, i, c)
            tanh, rest, reach, in_reach = work[TURN, i, c], work[TURN, c, i], work[REACH, i, c], work[TURN_BAR, c, i]
            in_w = rest * (work[TURN_BAR, i, c] + reach * (in_reach * rest - in_next * tanh))
            t, rho = late_seen(part, work, i, c)
            q, firm, _ = correlation_of(t, rho)
            slope = in_w / sqrt(firm)
            in_firm = -0.5 * (slope * position[offset + c - 1] + 1.0) / firm
            gradient[offset + c - 1] = slope
            slopes = correlation_slopes(t, rho, in_w / sqrt(1.0 + q * q), in_firm)
            in_next = in_reach * tanh + in_next * rest
            in_next += pull_seen(part, work, i, c, slopes)
            offset -= 1 - low
