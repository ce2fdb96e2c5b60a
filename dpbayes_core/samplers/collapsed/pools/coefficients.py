"""Theta and log sigma of a pool whose parts differ, each coefficient in standard units of its prior and the parts."""

from math import exp

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import AIM, ANCHOR, FAINT, LOW, PRECISE, RATE, SHAPE, UNIT_ROWS, Target
from dpbayes_core.samplers.collapsed.pools.leaning import Lean, lean, lean_slopes
from dpbayes_core.samplers.collapsed.pools.shared import LOGGED, Shared


@compiled
def slope_lean(target: Target, i: int, logged: float) -> Lean:
    """What a coefficient leans on: what the parts say of it at the mode, and its prior at this sigma."""
    weights = target.weights[0]
    scale = 1.0 if target.numbers[RATE] > 0.0 else exp(logged)
    return Lean(weights[AIM, i], weights[PRECISE, i], weights[ANCHOR, i], scale * weights[FAINT, i])


@compiled
def place_theta(position: Floats, target: Target, shared: Shared) -> float:
    """Fill theta and sigma, whose logarithm is the last coordinate."""
    low, size, numbers = int(target.parts[0, LOW]), len(shared.theta), target.numbers
    logged, value = position[size - low], 0.0
    shared.numbers[LOGGED] = logged
    for i in range(low, size):
        shared.theta[i], slope = lean(slope_lean(target, i, logged), position[i - low])
        value += slope
    square = target.response[size, size]
    for i in range(low, size):
        square -= 2.0 * target.response[size, i] * shared.theta[i]
        for k in range(low, size):
            square += target.response[max(i, k), min(i, k)] * shared.theta[i] * shared.theta[k]
    square *= 0.5 * numbers[UNIT_ROWS]
    if numbers[RATE] > 0.0:
        return value + numbers[SHAPE] * logged - numbers[RATE] * exp(logged) - square
    return value - (size - low + 2.0 * numbers[SHAPE]) * logged - square * exp(-2.0 * logged)


@compiled
def pull_theta(position: Floats, target: Target, shared: Shared, slopes: Shared, gradient: Floats) -> None:
    """Reverse of `place_theta`."""
    low, size, numbers = int(target.parts[0, LOW]), len(shared.theta), target.numbers
    logged = shared.numbers[LOGGED]
    wide, unit = numbers[RATE] > 0.0, numbers[UNIT_ROWS]
    scale, in_logged, square = 1.0 if wide else exp(-2.0 * logged), slopes.numbers[LOGGED], 0.0
    for i in range(low, size):
        half = -target.response[size, i]
        for k in range(low, size):
            half += target.response[max(i, k), min(i, k)] * shared.theta[k]
        square += (half - target.response[size, i]) * shared.theta[i]
        bar = slopes.theta[i] - unit * half * scale
        own, _, in_spread = lean_slopes(slope_lean(target, i, logged), position[i - low], bar)
        gradient[i - low] = own
        in_logged += 0.0 if wide else in_spread
    square += target.response[size, size]
    if wide:
        in_logged += numbers[SHAPE] - numbers[RATE] * exp(logged)
    else:
        in_logged += unit * square * scale - (size - low + 2.0 * numbers[SHAPE])
    gradient[size - low] = in_logged
