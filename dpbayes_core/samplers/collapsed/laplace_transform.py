"""A transformation of C for Laplace noise: entries with little noise keep their values, and the noise has no kinks.

Let T be C before the transformation. Entry C_ij of a continuous row is first corrected for the entries before it:
where the noise of R_ij = n (C C')_ij is small, R_ij keeps the value that T gives it; where it is large, C_ij stays
T_ij: C_ij = T_ij + k (f - T_ij), f C_jj = T_ij T_jj + sum_{l<j} (T_il T_jl - C_il C_jl), k = s^2 / (s^2 + S). On the
diagonal p(C_ii^2) = p(T_ii^2) + a - sum_{l<i} C_il^2, p(q) = q - e^2 / q, where e is the square below which noise
hides C_ii^2, and a is the same sum of T (of the response: at the reference).

Then kinks are removed, over which trajectories would need small steps. With x the residual of the entry in units of
the noise, as a function of the coordinate c alone, and s = dx / dc, c moves by h(s) E(x), E(x) = x |x| exp(-|x| / W)
/ 2. The log Jacobian then has the kink of the noise with the opposite sign, and a large |x| leaves c unchanged.
h(s) = s / (s^2 + S) vanishes where the noise is so large that its kink is harmless.
"""

from math import copysign, exp, log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import (
    ANCHOR,
    BAR,
    CORRECTED,
    FACTOR,
    LOW,
    NOISY,
    ORIGINAL,
    ORIGINAL_BAR,
    ROWS,
    SCALES,
    TRANSFORM,
    UNIT,
    UNKINKING,
    Part,
)
from dpbayes_core.samplers.collapsed.coordinates import first_continuous

WIDTH = 4.0  # W; the slope 1 + s h E' stays between 0.67 and 1.92
FADE = 50.0  # S


@compiled
def move(x: float, s: float, near: float) -> tuple[float, float]:
    """The move h(s) E(x) of a coordinate, and the slope of its new value in the old; near = exp(-|x| / W)."""
    size, rate = abs(x), s / (s * s + FADE)
    return 0.5 * rate * x * size * near, 1.0 + s * rate * (size - 0.5 * x * x / WIDTH) * near


@compiled
def move_reverse(x: float, s: float, near: float, bar: float) -> tuple[float, float]:
    """Derivatives in x and s of the log slope plus `bar` times the move."""
    size, rate, down = abs(x), s / (s * s + FADE), 1.0 / (s * s + FADE)
    bump, tilt = 0.5 * x * size * near, (size - 0.5 * x * x / WIDTH) * near
    curve = copysign(near, x) * (1.0 - 2.0 * size / WIDTH + 0.5 * x * x / WIDTH**2)
    share = 1.0 / (1.0 + s * rate * tilt)
    in_x = bar * rate * tilt + s * rate * curve * share
    in_s = (bar * bump * (FADE - s * s) + 2.0 * s * FADE * tilt * share) * down * down
    return in_x, in_s


KNOWN = 0.5 * sqrt(FADE)  # e, in units of the noise of the square


@compiled
def corrected_square(square: float, shift: float, least: float) -> float:
    """The q with p(q) = p(square) + shift."""
    level = square - least * least / square + shift
    root = sqrt(level * level + 4.0 * least * least)
    return 0.5 * (level + root) if level > 0.0 else 2.0 * least * least / (root - level)


@compiled
def correction_of(part: Part, work: Floats, i: int) -> float:
    """The change of C_ii^2 that compensates for the changed entries before it."""
    original, current = 0.0, 0.0
    for k in range(i):
        original += work[ORIGINAL, i, k] * work[ORIGINAL, i, k]
        current += work[FACTOR, i, k] * work[FACTOR, i, k]
    anchor = part.weights[ANCHOR, i]
    return (original if anchor < 0.0 else anchor) - current


@compiled
def remaining_square(part: Part, work: Floats, i: int) -> float:
    """The noisy square of row i less the squares of its earlier entries; not positive where no C_ii has the kink."""
    room = part.matrices[NOISY, i, i] / part.numbers[ROWS]
    for k in range(i):
        room -= work[FACTOR, i, k] * work[FACTOR, i, k]
    return room


@compiled
def correction_share(part: Part, work: Floats, i: int, j: int) -> float:
    """k of an entry below the diagonal."""
    s = part.numbers[ROWS] / part.matrices[SCALES, i, j] * work[ORIGINAL, j, j] * part.weights[UNIT, i]
    return s * s / (s * s + FADE)


@compiled
def product_before(work: Floats, slot: int, i: int, j: int) -> float:
    """The product of rows i and j over the columns before j."""
    total = 0.0
    for k in range(j):
        total += work[slot, i, k] * work[slot, j, k]
    return total


@compiled
def transform_row(part: Part, work: Floats, i: int) -> float:
    """Transform row i of C up to its diagonal, after the rows above; returns the product of the slopes."""
    product, unit = 1.0, part.weights[UNIT, i]
    for j in range(int(part.numbers[LOW]), i):
        original, ratio, share = (
            work[ORIGINAL, i, j],
            work[ORIGINAL, j, j] / work[FACTOR, j, j],
            correction_share(part, work, i, j),
        )
        inner = product_before(work, FACTOR, i, j)
        target = original * ratio + (product_before(work, ORIGINAL, i, j) - inner) / work[FACTOR, j, j]
        entry = original + share * (target - original)
        product *= 1.0 + share * (ratio - 1.0)
        work[CORRECTED, i, j], work[FACTOR, i, j] = entry, entry
        if part.numbers[TRANSFORM] == UNKINKING:
            rate = part.numbers[ROWS] / part.matrices[SCALES, i, j]
            inner += entry * work[FACTOR, j, j]
            x = rate * inner - part.matrices[NOISY, i, j] / part.matrices[SCALES, i, j]
            moved, slope = move(x, rate * work[FACTOR, j, j] * unit, exp(-abs(x) / WIDTH))
            work[CORRECTED, j, i] = x
            work[FACTOR, i, j] += unit * moved
            product *= slope
    return product


@compiled
def transform_diagonal(part: Part, work: Floats, i: int) -> float:
    """Transform C_ii; returns the log Jacobian."""
    original = work[ORIGINAL, i, i] * work[ORIGINAL, i, i]
    noise = part.matrices[SCALES, i, i] / part.numbers[ROWS]
    least = KNOWN * noise
    square = corrected_square(original, correction_of(part, work, i), least)
    steepness = (original + least * least / original) / (square + least * least / square)
    moved, slope, room = 0.0, 1.0, remaining_square(part, work, i)
    if room > 0.0 and part.numbers[TRANSFORM] == UNKINKING:
        x = room / noise * log(square / room)
        moved, slope = move(x, 2.0 * room / noise, exp(-abs(x) / WIDTH))
    logged = 0.5 * log(square) + moved
    work[FACTOR, i, i] = exp(logged)
    return logged - log(work[ORIGINAL, i, i]) + log(steepness * slope)


@compiled
def transform(part: Part, work: Floats) -> float:
    """Transform the continuous rows of C; returns the log Jacobian."""
    value, size = 0.0, work.shape[1]
    for i in range(first_continuous(part), size):
        value += log(transform_row(part, work, i)) + transform_diagonal(part, work, i)
    return value


@compiled
def pull_diagonal(part: Part, work: Floats, i: int) -> None:
    """Reverse of `transform_diagonal`."""
    pivot = work[ORIGINAL, i, i]
    original, noise, anchor = pivot * pivot, part.matrices[SCALES, i, i] / part.numbers[ROWS], part.weights[ANCHOR, i]
    least = KNOWN * noise
    square, room = corrected_square(original, correction_of(part, work, i), least), remaining_square(part, work, i)
    in_log, in_room = work[BAR, i, i] * work[FACTOR, i, i], 0.0
    if room > 0.0 and part.numbers[TRANSFORM] == UNKINKING:
        s, length = 2.0 * room / noise, 0.5 * log(square / room)
        in_x, in_s = move_reverse(s * length, s, exp(-abs(s * length) / WIDTH), in_log + 1.0)
        in_log += in_x * s
        in_room = 2.0 / noise * (in_s + in_x * (length - 0.5))
    above, below = original + least * least / original, square + least * least / square
    in_log += 1.0 - 2.0 * (square - least * least / square) / below
    in_shift = 0.5 * in_log / below
    in_pivot = in_log * above / below - 1.0 + 2.0 * (original - least * least / original) / above
    work[ORIGINAL_BAR, i, i] += in_pivot / pivot
    for k in range(i):
        work[BAR, i, k] -= 2.0 * (in_room + in_shift) * work[FACTOR, i, k]
        if anchor < 0.0:
            work[ORIGINAL_BAR, i, k] += 2.0 * in_shift * work[ORIGINAL, i, k]


@compiled
def pull_kink(part: Part, work: Floats, i: int, j: int) -> float:
    """Reverse of the removal of an entry's kink; returns the derivative in the product of rows i and j."""
    unit, x = part.weights[UNIT, i], work[CORRECTED, j, i]
    rate = part.numbers[ROWS] / part.matrices[SCALES, i, j]
    s = rate * work[FACTOR, j, j] * unit
    in_x, in_s = move_reverse(x, s, exp(-abs(x) / WIDTH), work[BAR, i, j] * unit)
    work[BAR, j, j] += in_s * unit * rate
    return in_x * rate


@compiled
def pull_entry(part: Part, work: Floats, i: int, j: int) -> None:
    """Reverse of the transformation of an entry below the diagonal."""
    share, original, entry, pivot = (
        correction_share(part, work, i, j),
        work[ORIGINAL, i, j],
        work[CORRECTED, i, j],
        work[FACTOR, j, j],
    )
    in_inner = pull_kink(part, work, i, j) if part.numbers[TRANSFORM] == UNKINKING else 0.0
    in_entry, ratio = work[BAR, i, j] + in_inner * pivot, work[ORIGINAL, j, j] / pivot
    target = original + (entry - original) / share if share > 0.0 else original
    slope = 1.0 + share * (ratio - 1.0)
    in_share, in_total = in_entry * (target - original) + (ratio - 1.0) / slope, in_entry * share / pivot
    in_ratio = share / slope
    work[ORIGINAL_BAR, i, j] += in_entry * (1.0 - share) + in_total * work[ORIGINAL, j, j]
    work[ORIGINAL_BAR, j, j] += in_total * original + in_ratio / pivot
    work[ORIGINAL_BAR, j, j] += 2.0 * in_share * share * (1.0 - share) / work[ORIGINAL, j, j]
    work[BAR, j, j] += in_inner * entry - in_total * target - in_ratio * ratio / pivot
    in_current = in_inner - in_total
    for k in range(j):
        work[ORIGINAL_BAR, i, k] += in_total * work[ORIGINAL, j, k]
        work[ORIGINAL_BAR, j, k] += in_total * work[ORIGINAL, i, k]
        work[BAR, i, k] += in_current * work[FACTOR, j, k]
        work[BAR, j, k] += in_current * work[FACTOR, i, k]


@compiled
def pull_transform(part: Part, work: Floats) -> None:
    """Reverse of `transform`: replaces BAR by derivatives in the original C, and restores that."""
    first, size = first_continuous(part), work.shape[1]
    for i in range(size):
        work[ORIGINAL_BAR, i, : i + 1] = 0.0
    for i in range(size - 1, first - 1, -1):
        pull_diagonal(part, work, i)
        for j in range(i - 1, int(part.numbers[LOW]) - 1, -1):
            pull_entry(part, work, i, j)
    for i in range(size):
        for k in range(i + 1):
            work[BAR, i, k] = work[ORIGINAL_BAR, i, k] + (work[BAR, i, k] if i < first else 0.0)
            work[FACTOR, i, k] = work[ORIGINAL, i, k]
