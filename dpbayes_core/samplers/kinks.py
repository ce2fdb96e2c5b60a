"""A bend of the coordinates that takes the kinks out of Laplace noise, so that trajectories need not creep over them.

Every entry R_ij of a continuous row has a coordinate of its own, c = (Q T)_ij. With x the entry's residual in units of
the noise if C_ij were c, and s = dx / dc, C_ij = c + h(s) E(x), E(x) = x |x| exp(-|x| / W) / 2. The log Jacobian then
has the noise's kink with the opposite sign, and nothing moves far away. h(s) = s / (s^2 + S) fades out where the noise
hardly knows the entry and a kink does no harm. On the diagonal the same is done to log C_ii.
"""

from math import exp, log

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.compiled import compiled
from dpbayes_core.samplers.coordinates import first_continuous
from dpbayes_core.samplers.flat import BAR, FACTOR, NOISY, REFERENCE, ROWS, SCALES, STRAIGHT, Target

Floats = NDArray[np.float64]

WIDTH = 4.0  # W; the slope 1 + s h E' stays between 0.67 and 1.92
FADE = 50.0  # S


@compiled
def move(x: float, s: float) -> tuple[float, float]:
    """How far a coordinate moves, and the log of its slope."""
    size, rate = abs(x), s / (s * s + FADE)
    fade = exp(-size / WIDTH)
    return 0.5 * rate * x * size * fade, log(1.0 + s * rate * (size - 0.5 * x * x / WIDTH) * fade)


@compiled
def move_reverse(x: float, s: float, bar: float) -> tuple[float, float]:
    """Derivatives in x and s of the log slope plus `bar` times the move."""
    size, down = abs(x), s * s + FADE
    fade = exp(-size / WIDTH)
    bump, slope = 0.5 * x * size * fade, (size - 0.5 * x * x / WIDTH) * fade
    bend = np.sign(x) * (1.0 - 2.0 * size / WIDTH + 0.5 * x * x / WIDTH**2) * fade
    share = 1.0 / (1.0 + s * s / down * slope)
    in_x = bar * s / down * slope + s * s / down * bend * share
    in_s = (bar * bump * (FADE - s * s) + 2.0 * s * FADE * slope * share) / (down * down)
    return in_x, in_s


@compiled
def residual(target: Target, work: Floats, i: int, j: int) -> tuple[float, float]:
    """x and s of an entry below the diagonal, c measured in units of Q_ii; the columns before j are bent already."""
    inner = work[FACTOR, j, j] * work[STRAIGHT, i, j]
    for k in range(j):
        inner += work[FACTOR, i, k] * work[FACTOR, j, k]
    weight = target.numbers[ROWS] / target.matrices[SCALES, i, j]
    x = weight * inner - target.matrices[NOISY, i, j] / target.matrices[SCALES, i, j]
    return x, weight * work[FACTOR, j, j] * target.matrices[REFERENCE, i, i]


@compiled
def room_for(target: Target, work: Floats, i: int) -> float:
    """What the noisy square of row i leaves for C_ii^2; not positive where its kink is out of reach."""
    room = target.matrices[NOISY, i, i] / target.numbers[ROWS]
    for k in range(i):
        room -= work[FACTOR, i, k] * work[FACTOR, i, k]
    return room


@compiled
def bend(target: Target, work: Floats) -> float:
    """Move the continuous rows of C; returns the log Jacobian."""
    value = 0.0
    for i in range(first_continuous(target), work.shape[1]):
        for j in range(i):
            work[STRAIGHT, i, j] = work[FACTOR, i, j]
            moved, slope = move(*residual(target, work, i, j))
            work[FACTOR, i, j] += target.matrices[REFERENCE, i, i] * moved
            value += slope
        work[STRAIGHT, i, i] = work[FACTOR, i, i]
        room = room_for(target, work, i)
        if room > 0.0:
            s = 2.0 * target.numbers[ROWS] * room / target.matrices[SCALES, i, i]
            moved, slope = move(s * (log(work[STRAIGHT, i, i]) - 0.5 * log(room)), s)
            work[FACTOR, i, i] *= exp(moved)
            value += slope
    return value


@compiled
def unbend_diagonal(target: Target, work: Floats, i: int) -> None:
    """Reverse of the diagonal's move: derivatives in the straight C_ii and in the entries before it."""
    room = room_for(target, work, i)
    if not room > 0.0:
        return
    rate = 2.0 * target.numbers[ROWS] / target.matrices[SCALES, i, i]
    s, length = rate * room, log(work[STRAIGHT, i, i]) - 0.5 * log(room)
    in_log = work[BAR, i, i] * work[FACTOR, i, i]
    in_x, in_s = move_reverse(s * length, s, in_log)
    work[BAR, i, i] = (in_log + in_x * s) / work[STRAIGHT, i, i]
    in_room = rate * (in_s + in_x * (length - 0.5))
    for k in range(i):
        work[BAR, i, k] -= 2.0 * in_room * work[FACTOR, i, k]


@compiled
def unbend(target: Target, work: Floats) -> None:
    """Reverse of `bend`: derivatives in the straight C from those in the bent one, both in BAR; Jacobian included."""
    for i in range(work.shape[1] - 1, first_continuous(target) - 1, -1):
        unit = target.matrices[REFERENCE, i, i]
        unbend_diagonal(target, work, i)
        for j in range(i - 1, -1, -1):
            x, s = residual(target, work, i, j)
            in_x, in_s = move_reverse(x, s, work[BAR, i, j] * unit)
            weight = target.numbers[ROWS] / target.matrices[SCALES, i, j]
            work[BAR, i, j] += in_x * weight * work[FACTOR, j, j]
            work[BAR, j, j] += weight * (in_x * work[STRAIGHT, i, j] + in_s * unit)
            for k in range(j):
                work[BAR, i, k] += in_x * weight * work[FACTOR, j, k]
                work[BAR, j, k] += in_x * weight * work[FACTOR, i, k]
