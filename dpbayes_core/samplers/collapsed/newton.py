"""Newton's method for the mode of a density, and its curvature there: plain loops, the same bits everywhere."""

from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.linear_algebra import cholesky, solve_lower, solve_upper
from dpbayes_core.samplers.collapsed.arrays import Target
from dpbayes_core.samplers.collapsed.density import log_density

FLOOR = 0.1  # floor of the curvature, in units of the coordinates' own scale


@inlined
def negative_hessian(position: Floats, target: Target, work: Floats, steps: Floats, hessian: Floats) -> None:
    """Minus the second derivatives, by central differences of the gradient over `steps`; lower triangle."""
    size = position.size
    ahead, behind = np.zeros(size), np.zeros(size)
    probe = position.copy()
    for i in range(size):
        probe[i] = position[i] + steps[i]
        log_density(probe, target, work, ahead)
        probe[i] = position[i] - steps[i]
        log_density(probe, target, work, behind)
        probe[i] = position[i]
        for j in range(size):
            slope = (behind[j] - ahead[j]) / (2.0 * steps[i])
            if j < i:
                hessian[i, j] = 0.5 * (hessian[i, j] + slope)
            else:
                hessian[j, i] = slope
    for i in range(size):  # a small part of the conditional sd, so that the next differences stay local
        steps[i] = min(1e-5 * max(1.0, abs(position[i])), 0.01 / sqrt(max(hessian[i, i], 1e-30)))


@compiled
def ridged_cholesky(hessian: Floats, ridge: float, factor: Floats) -> None:
    """Cholesky factor of hessian + r I, r the ridge or the smallest of its fourfold multiples that allows one."""
    size = hessian.shape[0]
    ridged = hessian.copy()
    for _ in range(60):
        for i in range(size):
            ridged[i, i] = hessian[i, i] + ridge
        if cholesky(ridged, factor, size) > 0.25 * ridge:
            return
        ridge *= 4.0
    for i in range(size):  # no ridge is large enough: use the coordinates' own scale
        factor[i, :i] = 0.0
        factor[i, i] = 1.0


@compiled
def climb(start: Floats, target: Target, work: Floats, rounds: int) -> tuple[Floats, Floats]:
    """Newton's method with a ridge to the mode; returns it and the Cholesky factor of its floored curvature."""
    size = start.size
    position, trial = start.copy(), start.copy()
    gradient, direction, steps = np.zeros(size), np.zeros(size), np.full(size, 1e-5)
    hessian, factor = np.zeros((size, size)), np.zeros((size, size))
    failed = 0
    for _ in range(rounds):
        negative_hessian(position, target, work, steps, hessian)
        ridged_cholesky(hessian, FLOOR, factor)
        value = log_density(position, target, work, gradient)
        gain = 0.0
        for i in range(size):
            direction[i] = gradient[i]
        solve_lower(factor, direction, size)
        solve_upper(factor, direction, size)
        for i in range(size):
            gain += direction[i] * gradient[i]
        length, failed = 1.0, failed + 1
        for _ in range(40):
            for i in range(size):
                trial[i] = position[i] + length * direction[i]
            if log_density(trial, target, work, gradient) > value + 1e-4 * length * gain:
                position[:] = trial
                failed = 0
                break
            length *= 0.5
        if gain < 1e-6 or failed == 3:  # differences get finer once; after that only rounding is left
            break
    negative_hessian(position, target, work, steps, hessian)
    ridged_cholesky(hessian, FLOOR, factor)
    return position, factor
