"""C from its straight coordinates T where noise is Laplace's: entries of R that noise knows are steadied, then bent.

Entry R_ij = n (C C')_ij of a continuous row has a coordinate of its own, T_ij. Steadied, C_ij follows what the entries
before it do, so that R_ij stays what T says where noise knows it well; where noise hides it, C_ij stays what T says:
C_ij = T_ij + k (f - T_ij), f C_jj = T_ij T_jj + sum_{l<j} (T_il T_jl - C_il C_jl), k = s^2 / (s^2 + S). On the diagonal
p(C_ii^2) = p(T_ii^2) + a - sum_{l<i} C_il^2, p(q) = q - e^2 / q, e where noise begins to know a square; a is that sum
of the straight row, of the response's row at the reference. Then kinks are bent out (kinks.py).
"""

from math import exp, log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import (
    ANCHOR,
    BAR,
    BENT,
    FACTOR,
    KINKED,
    LOW,
    NOISY,
    ROWS,
    SCALES,
    STEADY,
    STRAIGHT,
    STRAIGHT_BAR,
    UNIT,
    Part,
)
from dpbayes_core.samplers.collapsed.coordinates import first_continuous
from dpbayes_core.samplers.collapsed.kinks import FADE, WIDTH, move, move_reverse

KNOWN = 0.5 * sqrt(FADE)  # e, in units of the square's noise


@compiled
def held(square: float, shift: float, least: float) -> float:
    """The q with p(q) = p(square) + shift."""
    level = square - least * least / square + shift
    root = sqrt(level * level + 4.0 * least * least)
    return 0.5 * (level + root) if level > 0.0 else 2.0 * least * least / (root - level)


@compiled
def shift_of(part: Part, work: Floats, i: int) -> float:
    """What the entries before C_ii leave it to make up for."""
    straight, bent = 0.0, 0.0
    for k in range(i):
        straight += work[STRAIGHT, i, k] * work[STRAIGHT, i, k]
        bent += work[FACTOR, i, k] * work[FACTOR, i, k]
    anchor = part.weights[ANCHOR, i]
    return (straight if anchor < 0.0 else anchor) - bent


@compiled
def room_for(part: Part, work: Floats, i: int) -> float:
    """What the noisy square of row i leaves for C_ii^2; not positive where its kink is out of reach."""
    room = part.matrices[NOISY, i, i] / part.numbers[ROWS]
    for k in range(i):
        room -= work[FACTOR, i, k] * work[FACTOR, i, k]
    return room


@compiled
def known(part: Part, work: Floats, i: int, j: int) -> float:
    """k of an entry below the diagonal."""
    s = part.numbers[ROWS] / part.matrices[SCALES, i, j] * work[STRAIGHT, j, j] * part.weights[UNIT, i]
    return s * s / (s * s + FADE)


@compiled
def before(work: Floats, slot: int, i: int, j: int) -> float:
    """What columns before j add to the product of rows i and j."""
    total = 0.0
    for k in range(j):
        total += work[slot, i, k] * work[slot, j, k]
    return total


@compiled
def bend_row(part: Part, work: Floats, i: int) -> float:
    """Move row i of C up to its diagonal, the rows above moved already; returns the product of its slopes."""
    product, unit = 1.0, part.weights[UNIT, i]
    for j in range(int(part.numbers[LOW]), i):
        straight, ratio, share = (
            work[STRAIGHT, i, j],
            work[STRAIGHT, j, j] / work[FACTOR, j, j],
            known(part, work, i, j),
        )
        inner = before(work, FACTOR, i, j)
        kept = straight * ratio + (before(work, STRAIGHT, i, j) - inner) / work[FACTOR, j, j]
        entry = straight + share * (kept - straight)
        product *= 1.0 + share * (ratio - 1.0)
        work[STEADY, i, j], work[FACTOR, i, j] = entry, entry
        if part.numbers[BENT] == KINKED:
            rate = part.numbers[ROWS] / part.matrices[SCALES, i, j]
            inner += entry * work[FACTOR, j, j]
            x = rate * inner - part.matrices[NOISY, i, j] / part.matrices[SCALES, i, j]
            moved, slope = move(x, rate * work[FACTOR, j, j] * unit, exp(-abs(x) / WIDTH))
            work[STEADY, j, i] = x
            work[FACTOR, i, j] += unit * moved
            product *= slope
    return product


@compiled
def bend_diagonal(part: Part, work: Floats, i: int) -> float:
    """Move C_ii; returns the log Jacobian."""
    straight = work[STRAIGHT, i, i] * work[STRAIGHT, i, i]
    noise = part.matrices[SCALES, i, i] / part.numbers[ROWS]
    least = KNOWN * noise
    square = held(straight, shift_of(part, work, i), least)
    steepness = (straight + least * least / straight) / (square + least * least / square)
    moved, slope, room = 0.0, 1.0, room_for(part, work, i)
    if room > 0.0 and part.numbers[BENT] == KINKED:
        x = room / noise * log(square / room)
        moved, slope = move(x, 2.0 * room / noise, exp(-abs(x) / WIDTH))
    logged = 0.5 * log(square) + moved
    work[FACTOR, i, i] = exp(logged)
    return logged - log(work[STRAIGHT, i, i]) + log(steepness * slope)


@compiled
def bend(part: Part, work: Floats) -> float:
    """Move the continuous rows of C; returns the log Jacobian."""
    value, size = 0.0, work.shape[1]
    for i in range(first_continuous(part), size):
        value += log(bend_row(part, work, i)) + bend_diagonal(part, work, i)
    return value


@compiled
def unbend_diagonal(part: Part, work: Floats, i: int) -> None:
    """Reverse of the diagonal's move."""
    pivot = work[STRAIGHT, i, i]
    straight, noise, anchor = pivot * pivot, part.matrices[SCALES, i, i] / part.numbers[ROWS], part.weights[ANCHOR, i]
    least = KNOWN * noise
    square, room = held(straight, shift_of(part, work, i), least), room_for(part, work, i)
    in_log, in_room = work[BAR, i, i] * work[FACTOR, i, i], 0.0
    if room > 0.0 and part.numbers[BENT] == KINKED:
        s, length = 2.0 * room / noise, 0.5 * log(square / room)
        in_x, in_s = move_reverse(s * length, s, exp(-abs(s * length) / WIDTH), in_log + 1.0)
        in_log += in_x * s
        in_room = 2.0 / noise * (in_s + in_x * (length - 0.5))
    above, below = straight + least * least / straight, square + least * least / square
    in_log += 1.0 - 2.0 * (square - least * least / square) / below
    in_shift = 0.5 * in_log / below
    in_pivot = in_log * above / below - 1.0 + 2.0 * (straight - least * least / straight) / above
    work[STRAIGHT_BAR, i, i] += in_pivot / pivot
    for k in range(i):
        work[BAR, i, k] -= 2.0 * (in_room + in_shift) * work[FACTOR, i, k]
        if anchor < 0.0:
            work[STRAIGHT_BAR, i, k] += 2.0 * in_shift * work[STRAIGHT, i, k]


@compiled
def unkink(part: Part, work: Floats, i: int, j: int) -> float:
    """Reverse of an entry's bend, the steadied entry left out; returns the derivative in the product of rows."""
    unit, x = part.weights[UNIT, i], work[STEADY, j, i]
    rate = part.numbers[ROWS] / part.matrices[SCALES, i, j]
    s = rate * work[FACTOR, j, j] * unit
    in_x, in_s = move_reverse(x, s, exp(-abs(x) / WIDTH), work[BAR, i, j] * unit)
    work[BAR, j, j] += in_s * unit * rate
    return in_x * rate


@compiled
def unbend_entry(part: Part, work: Floats, i: int, j: int) -> None:
    """Reverse of the moves of an entry below the diagonal."""
    share, straight, entry, pivot = (
        known(part, work, i, j),
        work[STRAIGHT, i, j],
        work[STEADY, i, j],
        work[FACTOR, j, j],
    )
    in_inner = unkink(part, work, i, j) if part.numbers[BENT] == KINKED else 0.0
    in_entry, ratio = work[BAR, i, j] + in_inner * pivot, work[STRAIGHT, j, j] / pivot
    kept = straight + (entry - straight) / share if share > 0.0 else straight
    slope = 1.0 + share * (ratio - 1.0)
    in_share, in_total = in_entry * (kept - straight) + (ratio - 1.0) / slope, in_entry * share / pivot
    in_ratio = share / slope
    work[STRAIGHT_BAR, i, j] += in_entry * (1.0 - share) + in_total * work[STRAIGHT, j, j]
    work[STRAIGHT_BAR, j, j] += in_total * straight + in_ratio / pivot
    work[STRAIGHT_BAR, j, j] += 2.0 * in_share * share * (1.0 - share) / work[STRAIGHT, j, j]
    work[BAR, j, j] += in_inner * entry - in_total * kept - in_ratio * ratio / pivot
    in_bent = in_inner - in_total
    for k in range(j):
        work[STRAIGHT_BAR, i, k] += in_total * work[STRAIGHT, j, k]
        work[STRAIGHT_BAR, j, k] += in_total * work[STRAIGHT, i, k]
        work[BAR, i, k] += in_bent * work[FACTOR, j, k]
        work[BAR, j, k] += in_bent * work[FACTOR, i, k]


@compiled
def unbend(part: Part, work: Floats) -> None:
    """Reverse of `bend`: derivatives in the straight C from those in the bent one, both in BAR; C is straight again."""
    first, size = first_continuous(part), work.shape[1]
    for i in range(size):
        work[STRAIGHT_BAR, i, : i + 1] = 0.0
    for i in range(size - 1, first - 1, -1):
        unbend_diagonal(part, work, i)
        for j in range(i - 1, int(part.numbers[LOW]) - 1, -1):
            unbend_entry(part, work, i, j)
    for i in range(size):
        for k in range(i + 1):
            work[BAR, i, k] = work[STRAIGHT_BAR, i, k] + (work[BAR, i, k] if i < first else 0.0)
            work[FACTOR, i, k] = work[STRAIGHT, i, k]
