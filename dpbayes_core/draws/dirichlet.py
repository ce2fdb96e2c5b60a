"""Dirichlet numbers that are all above a floor, exactly: the truncated law itself, never a clamped draw.

Independent gamma numbers of one rate, each above the floor, given that they sum to 1, have this law for every rate. All
but the widest are drawn; the widest is what is left of 1, and is accepted in proportion to its own density. The rate at
which the gamma numbers sum to about 1 makes one proposal in sqrt(2 pi levels) or so good; another would only be slower.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from dpbayes_core.draws.gamma import truncated_gamma
from dpbayes_core.noise import NoiseSource

Floats = NDArray[np.float64]

GRID_BITS = 28  # of the room above the floor: far coarser than what 53 random bits resolve


def truncated_dirichlet(noise: NoiseSource, concentration: Floats, floor: float) -> Floats:
    """(rows, levels) probabilities, each row with density prod p^(concentration - 1) on p >= floor, sum 1.

    Published on a public grid of the floor plus multiples of 2^-28 of the room above it, rounded down.
    """
    rows, levels = concentration.shape
    if not 0 < floor < 1 / levels:
        raise ValueError(
            "cannot draw probabilities: the floor is not between 0 and 1 over the number of levels. Lower it."
        )
    if not (np.isfinite(concentration).all() and (concentration > 0).all()):
        raise ValueError("cannot draw probabilities: a pseudo-count is not positive. State a prior above zero.")
    order = np.argsort(-concentration, axis=1, kind="stable")  # the widest first: it is the one left over
    sorted_shapes = np.take_along_axis(concentration, order, axis=1)
    drawn = _draw(noise, sorted_shapes, floor)
    result = np.empty((rows, levels))
    np.put_along_axis(result, order, drawn, axis=1)
    return on_grid(result, floor)


def on_grid(probabilities: Floats, floor: float) -> Floats:
    """Every level but the last rounded down to the grid, the last what is left; none falls below the floor."""
    cell = (1 - probabilities.shape[1] * floor) * 2.0**-GRID_BITS
    coarse = floor + np.floor((probabilities[:, :-1] - floor) / cell) * cell
    coarse = np.maximum(coarse, floor)
    return np.column_stack([coarse, 1 - coarse.sum(axis=1)])


def _draw(noise: NoiseSource, shapes: Floats, floor: float) -> Floats:
    result = np.empty_like(shapes)
    rate = rate_for(shapes, floor)
    waiting = np.arange(len(shapes))
    best = np.maximum((shapes[:, 0] - 1) / rate, floor)  # where the widest one's density is largest
    while len(waiting):
        own, speed = shapes[waiting], np.repeat(rate[waiting], shapes.shape[1] - 1)
        rest = truncated_gamma(noise, own[:, 1:].reshape(-1), speed, np.full(len(speed), floor))
        rest = rest.reshape(len(waiting), -1)
        left = 1 - rest.sum(axis=1)
        peak, power, steep = best[waiting], own[:, 0] - 1, rate[waiting]
        safe = np.where(left >= floor, left, peak)
        apart = np.where(safe < peak / 2, np.log(safe / peak), np.log1p(np.maximum((safe - peak) / peak, -0.5)))
        log_ratio = power * apart - steep * (safe - peak)
        kept = (np.log(noise.uniform(len(waiting))) < log_ratio) & (left >= floor)
        result[waiting[kept]] = np.column_stack([left, rest])[kept]
        waiting = waiting[~kept]
    return result


def rate_for(shapes: Floats, floor: float) -> Floats:
    """For each row the rate at which gamma numbers above the floor sum to 1 on average, nearly."""
    total, levels = shapes.sum(axis=1), shapes.shape[1]
    low, high = np.log(total) - 5, np.log(total + levels / (1 - levels * floor)) + 5
    for _ in range(50):
        middle = (low + high) / 2
        large = _mean(shapes, np.exp(middle)[:, None], floor).sum(axis=1) > 1
        low, high = np.where(large, middle, low), np.where(large, high, middle)
    return np.exp((low + high) / 2)


def _mean(shapes: Floats, rate: Floats, floor: float) -> Floats:
    """The mean of a gamma number above the floor."""
    reach = rate * floor
    above = gammaincc(shapes, reach)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = shapes / rate * gammaincc(shapes + 1, reach) / above
        tail = floor + 1 / np.maximum(rate - (shapes - 1) / floor, np.sqrt(shapes) / floor)
    return np.where(above > 1e-290, exact, tail)
