"""Where chains start and how they stretch: reference, mode and curvature of a smoothed target.

Laplace noise is smoothed (pseudo-Huber) so that a mode and a curvature exist; the chains sample the true target.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.collapsed_density import log_density
from dpbayes_core.samplers.compiled import compiled, inlined
from dpbayes_core.samplers.flat import (
    CONSTANT,
    LAPLACE,
    NOISE,
    NOISY,
    REFERENCE,
    ROWS,
    SCALES,
    SMOOTHED,
    Target,
    work_for,
)
from dpbayes_core.samplers.linear_algebra import cholesky, invert_lower, solve_lower, solve_upper
from dpbayes_core.samplers.target import STANDARD_DEVIATION, Layout

Floats = NDArray[np.float64]

FLOOR = 0.1  # smallest curvature believed, where the reference makes 1 the natural scale
LARGEST = 1000  # dimensions; beyond, the curvature costs more than it gives
ROUNDS = 100


@dataclass(frozen=True)
class Whitening:
    """Coordinates = centre + stretch @ u, with u about standard normal."""

    centre: Floats
    stretch: Floats  # upper triangular


def whiten(target: Target, layout: Layout) -> tuple[Target, Whitening]:
    """The target with its reference set by the noisy statistic, and the whitening at its smoothed mode."""
    reference, start = reference_point(target, layout)
    numbers, matrices = target.numbers.copy(), target.matrices.copy()
    matrices[REFERENCE] = reference
    numbers[CONSTANT] += np.log(np.diag(reference)) @ np.arange(len(reference))
    target = target._replace(numbers=numbers, matrices=matrices)
    smooth = target._replace(numbers=numbers.copy())
    if numbers[NOISE] == LAPLACE:
        smooth.numbers[NOISE] = SMOOTHED
    work = work_for(target)
    if start.size > LARGEST:
        lower = np.eye(start.size)
    else:
        start, curvature = climb(start, smooth, work, FLOOR, ROUNDS)
        lower = np.zeros_like(curvature)
        invert_lower(curvature, lower, start.size)
    return target, Whitening(start, np.ascontiguousarray(lower.T))


def reference_point(target: Target, layout: Layout) -> tuple[Floats, Floats]:
    """Q of the coordinates from the noisy statistic, eigenvalues floored at half the noise; and where to start."""
    n, factors, scales = target.numbers[ROWS], layout.factor_rows, target.matrices[SCALES]
    moments = target.matrices[NOISY] / n
    noise = np.median(scales[scales > 0]) * STANDARD_DEVIATION[int(target.numbers[NOISE])] / n
    mean, logits = _noisy_means(moments[0].copy(), layout, max(1 / n, float(noise)))
    scatter = moments - np.outer(moments[0], mean) - np.outer(mean, moments[0]) + np.outer(mean, mean)
    values, vectors = np.linalg.eigh(scatter[1:, 1:])
    scatter = (vectors * np.maximum(values, max(noise / 2, 1e-12))) @ vectors.T
    inside, below = scatter[:factors, :factors], scatter[factors:, :factors]
    slopes = np.linalg.solve(inside, below.T).T
    rest = scatter[factors:, factors:] - slopes @ below.T
    reference = np.eye(len(mean))
    reference[1 + factors :, 1 + factors :] = np.linalg.cholesky((rest + rest.T) / 2)
    reference[1 + factors :, 1 : 1 + factors] = slopes
    reference[1 + factors :, 0] = mean[1 + factors :] - slopes @ mean[1 : 1 + factors]
    return reference, _start(np.linalg.cholesky(inside), logits, layout, len(mean))


def _noisy_means(mean: Floats, layout: Layout, least: float) -> tuple[Floats, list[Floats]]:
    """Means with every level share at least `least` (or a quarter of an equal share), and the logits of the shares."""
    logits: list[Floats] = []
    for first, size, step in zip(layout.first, layout.size, layout.step, strict=True):
        block = slice(first, first + size)
        shares = (mean[block] + step - 1) / step
        shares = np.maximum(np.append(shares, 1 - shares.sum()), min(least, 0.25 / (size + 1)))
        shares /= shares.sum()
        mean[block] = step * shares[:-1] + 1 - step
        logits.append(np.log(shares[:-1] / shares[-1]))
    return mean, logits


def _start(inside: Floats, logits: list[Floats], layout: Layout, size: int) -> Floats:
    """Coordinates of the reference: its shares and cross products, zeros for the continuous rows."""
    parts: list[NDArray[Any]] = []
    for first, width, shares in zip(layout.first, layout.size, logits, strict=True):
        rows, earlier = slice(first - 1, first - 1 + width), slice(0, first - 1)
        parts += [shares, np.linalg.solve(inside[rows, rows], inside[rows, earlier]).ravel()]
    parts += [np.zeros(row + 1) for row in range(1 + layout.factor_rows, size)]
    return np.concatenate(parts)


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
    for i in range(size):  # no curvature to speak of: the coordinates' own scale
        factor[i, :i] = 0.0
        factor[i, i] = 1.0


@compiled
def climb(start: Floats, target: Target, work: Floats, floor: float, rounds: int) -> tuple[Floats, Floats]:
    """Newton's method with a ridge to the mode; returns it and the Cholesky factor of its floored curvature."""
    size = start.size
    position, trial = start.copy(), start.copy()
    gradient, direction, steps = np.zeros(size), np.zeros(size), np.full(size, 1e-5)
    hessian, factor = np.zeros((size, size)), np.zeros((size, size))
    for _ in range(rounds):
        negative_hessian(position, target, work, steps, hessian)
        ridged_cholesky(hessian, floor, factor)
        value = log_density(position, target, work, gradient)
        gain = 0.0
        for i in range(size):
            direction[i] = gradient[i]
        solve_lower(factor, direction, size)
        solve_upper(factor, direction, size)
        for i in range(size):
            gain += direction[i] * gradient[i]
        length = 1.0
        for _ in range(40):
            for i in range(size):
                trial[i] = position[i] + length * direction[i]
            if log_density(trial, target, work, gradient) > value + 1e-4 * length * gain:
                position[:] = trial
                break
            length *= 0.5
        if gain < 1e-6:
            break
    negative_hessian(position, target, work, steps, hessian)
    ridged_cholesky(hessian, floor, factor)
    return position, factor
