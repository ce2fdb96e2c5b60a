"""A transformation of C for Laplace noise, after which the noise has no kinks and known entries stay where they are.

Entry R_ij = n (C C')_ij of a continuous row has a coordinate of its own, T_ij, straight at first. Then C_ij is
corrected for the entries before it, so that R_ij keeps the value that T gives it where its noise is small; where its
noise is large, C_ij stays T_ij: C_ij = T_ij + k (f - T_ij), f C_jj = T_ij T_jj + sum_{l<j} (T_il T_jl - C_il C_jl),
k = s^2 / (s^2 + S). On the diagonal p(C_ii^2) = p(T_ii^2) + a - sum_{l<i} C_il^2, p(q) = q - e^2 / q, where e is the
square at which the noise starts to inform it, and a is that sum for the straight row (of the response: at the
reference).

Last, kinks are removed, since trajectories would have to creep over them. With x the residual of the entry in units
of the noise where the coordinate c alone determines it, and s = dx / dc, c moves by h(s) E(x), E(x) = x |x|
exp(-|x| / W) / 2. The log Jacobian then has the kink of the noise with the opposite sign, and far away nothing moves.
h(s) = s / (s^2 + S) vanishes where the noise is so large that its kink does no harm.
"""

from math import copysign, exp, log, sqrt

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

WIDTH = 4.0  # W; the slope 1 + s h E' stays between 0.67 and 1.92
FADE = 50.0  # S


@compiled
def move(x: float, s: float, near: float) -> tuple[float, float]:
    """How far a coordinate moves, and its slope; near = exp(-|x| / W)."""
    size, rate = abs(x), s / (s * s + FADE)
    return 0.5 * rate * x * size * near, 1.0 + s * rate * (size - 0.5 * x * x / WIDTH) * near


@compiled
def move_reverse(x: float, s: float, near: float, bar: float) -> tuple[float, float]:
    """Derivatives in x and s of the log slope plus `bar` times the move."""
    size, rate, down = abs(x), s / (s * s + FADE), 1.0 / (s * s + FADE)
    bump, tilt = 0.5 * x * size * near, (size - 0.5 * x * x / WIDTH) * near
    bend = copysign(near, x) * (1.0 - 2.0 * size / WIDTH + 0.5 * x * x / WIDTH**2)
    share = 1.0 / (1.0 + s * rate * tilt)
    in_x = bar * rate * tilt + s * rate * bend * share
    in_s = (bar * bump * (FADE - s * s) + 2.0 * s * FADE * tilt * share) * down * down
    return in_x, in_s


KNOWN = 0.5 * sqrt(FADE)  # e, in units of the square's noise


@compiled
def held(square: float, shift: float, least: float) -> float:
    """The q with p(q) = p(square) + shift."""
    level = square - least * least / square + shift
    root = sqrt(level * level + 4.0 * least * least)
    return 0.5 * (level + root) if level > 0.0 else 2.0 * least * least / (root - level)


@compiled
def shift_of(part: Part, work: Floats, i: int) -> float:
    """The change of C_ii^2 that compensates for the entries before it."""
    straight, bent = 0.0, 0.0
    for k in range(i):
        straight += work[STRAIGHT, i, k] * work[STRAIGHT, i, k]
        bent += work[FACTOR, i, k] * work[FACTOR, i, k]
    anchor = part.weights[ANCHOR, i]
    return (straight if anchor < 0.0 else anchor) - bent


@compiled
def room_for(part: Part, work: Floats, i: int) -> float:
    """The noisy square of row i less its entries before C_ii; not positive where no C_ii reaches the kink."""
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
    """The sum over the columns before j in the product of rows i and j."""
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
    """Reverse of the removal of an entry's kink; returns the derivative in the product of rows."""
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
