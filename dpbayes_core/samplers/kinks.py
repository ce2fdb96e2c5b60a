"""A bend of the coordinates that takes the kinks out of Laplace noise, so that trajectories need not creep over them.

Every entry R_ij of a continuous row has a coordinate of its own, c = (Q T)_ij. With x the entry's residual in units of
the noise if C_ij were c, and s = dx / dc, C_ij = c + h(s) E(x), E(x) = x |x| exp(-|x| / W) / 2. The log Jacobian then
has the noise's kink with the opposite sign, and nothing moves far away. h(s) = s / (s^2 + S) fades out where the noise
hardly knows the entry and a kink does no harm. On the diagonal the same is done to log C_ii.
"""

from math import copysign, exp, log

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.compiled import compiled
from dpbayes_core.samplers.coordinates import first_continuous
from dpbayes_core.samplers.flat import BAR, FACTOR, LOW, NEAR, NOISY, RESIDUAL, ROWS, SCALES, STRAIGHT, UNIT, Part

Floats = NDArray[np.float64]

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


@compiled
def steepness(part: Part, work: Floats, i: int, j: int) -> float:
    """s of an entry below the diagonal, c measured in units of Q_ii."""
    rate = part.numbers[ROWS] / part.matrices[SCALES, i, j]
    return rate * work[FACTOR, j, j] * part.weights[UNIT, i]


@compiled
def room_for(part: Part, work: Floats, i: int) -> float:
    """What the noisy square of row i leaves for C_ii^2; not positive where its kink is out of reach."""
    room = part.matrices[NOISY, i, i] / part.numbers[ROWS]
    for k in range(i):
        room -= work[FACTOR, i, k] * work[FACTOR, i, k]
    return room


@compiled
def bend_row(part: Part, work: Floats, i: int) -> float:
    """Move row i of C, the rows above bent already; returns the product of its slopes."""
    product = 1.0
    for j in range(int(part.numbers[LOW]), i):
        inner = work[FACTOR, j, j] * work[FACTOR, i, j]
        for k in range(j):
            inner += work[FACTOR, i, k] * work[FACTOR, j, k]
        x = (part.numbers[ROWS] * inner - part.matrices[NOISY, i, j]) / part.matrices[SCALES, i, j]
        near = exp(-abs(x) / WIDTH)
        moved, slope = move(x, steepness(part, work, i, j), near)
        work[STRAIGHT, i, j], work[RESIDUAL, i, j], work[NEAR, i, j] = work[FACTOR, i, j], x, near
        work[FACTOR, i, j] += part.weights[UNIT, i] * moved
        product *= slope
    return product


@compiled
def bend(part: Part, work: Floats) -> float:
    """Move the continuous rows of C; returns the log Jacobian."""
    value = 0.0
    for i in range(first_continuous(part), work.shape[1]):
        product = bend_row(part, work, i)
        work[STRAIGHT, i, i] = work[FACTOR, i, i]
        room = room_for(part, work, i)
        if room > 0.0:
            s = 2.0 * part.numbers[ROWS] * room / part.matrices[SCALES, i, i]
            x = s * (log(work[STRAIGHT, i, i]) - 0.5 * log(room))
            moved, slope = move(x, s, exp(-abs(x) / WIDTH))
            work[FACTOR, i, i] *= exp(moved)
            product *= slope
            value += moved
        value += log(product)
    return value


@compiled
def unbend_diagonal(part: Part, work: Floats, i: int) -> None:
    """Reverse of the diagonal's move: derivatives in the straight C_ii and in the entries before it."""
    room = room_for(part, work, i)
    if not room > 0.0:
        return
    rate = 2.0 * part.numbers[ROWS] / part.matrices[SCALES, i, i]
    s, length = rate * room, log(work[STRAIGHT, i, i]) - 0.5 * log(room)
    in_log = work[BAR, i, i] * work[FACTOR, i, i]
    in_x, in_s = move_reverse(s * length, s, exp(-abs(s * length) / WIDTH), in_log + 1.0)
    work[BAR, i, i] = (in_log + in_x * s) / work[STRAIGHT, i, i]
    in_room = rate * (in_s + in_x * (length - 0.5))
    for k in range(i):
        work[BAR, i, k] -= 2.0 * in_room * work[FACTOR, i, k]


@compiled
def unbend(part: Part, work: Floats) -> None:
    """Reverse of `bend`: derivatives in the straight C from those in the bent one, both in BAR; C is straight again."""
    for i in range(work.shape[1] - 1, first_continuous(part) - 1, -1):
        unit = part.weights[UNIT, i]
        unbend_diagonal(part, work, i)
        for j in range(i - 1, int(part.numbers[LOW]) - 1, -1):
            s, bar = steepness(part, work, i, j), work[BAR, i, j] * unit
            in_x, in_s = move_reverse(work[RESIDUAL, i, j], s, work[NEAR, i, j], bar)
            rate = part.numbers[ROWS] / part.matrices[SCALES, i, j]
            in_x *= rate
            work[BAR, i, j] += in_x * work[FACTOR, j, j]
            work[BAR, j, j] += in_x * work[STRAIGHT, i, j] + in_s * unit * rate
            for k in range(j):
                work[BAR, i, k] += in_x * work[FACTOR, j, k]
            for k in range(j):
                work[BAR, j, k] += in_x * work[FACTOR, i, k]
        work[FACTOR, i, : i + 1] = work[STRAIGHT, i, : i + 1]
