"""A bend of a coordinate that takes the kink out of Laplace noise, so that trajectories need not creep over it.

With x the entry's residual in units of the noise where the coordinate alone decides it, and s = dx / dc, the coordinate
c moves by h(s) E(x), E(x) = x |x| exp(-|x| / W) / 2. The log Jacobian then has the noise's kink with the opposite sign,
and nothing moves far away. h(s) = s / (s^2 + S) fades out where the noise hardly knows the entry and a kink does no
harm.
"""

from math import copysign

from dpbayes_core.compiled import compiled

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
