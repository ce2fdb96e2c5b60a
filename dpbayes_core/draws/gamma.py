"""Gamma numbers above a floor, exactly: rejection from three exponential pieces that lie above the log density."""

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.noise import NoiseSource

Floats = NDArray[np.float64]

FLAT = 1e-12  # a piece that falls less than this over its length is as good as level


def truncated_gamma(noise: NoiseSource, shape: Floats, rate: Floats, floor: Floats) -> Floats:
    """Independent x > floor with density x^(shape-1) exp(-rate x); one for each shape > 0, rate > 0, floor > 0."""
    drawn = np.empty(len(shape))
    waiting = np.arange(len(shape))
    while len(waiting):
        hull = _Hull(shape[waiting], rate[waiting], floor[waiting])
        value, kept = hull.try_once(noise.uniform(3 * len(waiting)).reshape(3, -1))
        drawn[waiting[kept]] = value[kept]
        waiting = waiting[~kept]
    return drawn


class _Hull:
    """v = log(x / mode) has the concave log density f(v) = shape v - pull (exp(v) - 1) from `low` on, f(0) = 0.

    `mode` is where log x is densest, at the floor or above. Tangents left of it, at it and right of it bound f.
    """

    def __init__(self, shape: Floats, rate: Floats, floor: Floats) -> None:
        inside = shape > rate * floor
        self.mode = np.where(inside, shape / rate, floor)
        self.shape, self.pull = shape, np.where(inside, shape, rate * floor)
        self.low = np.minimum(np.log(floor / self.mode), 0.0)
        # where the density falls from the floor on, one over its slope is its width; else its curvature gives it
        width = 1 / np.maximum(self.pull - shape, np.sqrt(self.pull))
        touch = np.stack([np.maximum(-width, self.low), np.zeros_like(width), width])
        self.slope = self.shape - self.pull - self.pull * np.expm1(touch)
        height = self._density(touch)
        middles = _meetings(touch, height, self.slope)
        start, end = np.stack([self.low, *middles]), np.stack([*middles, np.full(len(width), np.inf)])
        self.length = end - start
        self.highest = np.where(self.slope > 0, end, start)  # of each piece
        self.level = height + self.slope * (self.highest - touch)
        self.cumulative = np.cumsum(np.exp(self.level) * _area(np.abs(self.slope), self.length), axis=0)

    def _density(self, v: Floats) -> Floats:
        return self.shape * v - self.pull * np.expm1(v)

    def try_once(self, uniform: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """One proposal for each density, and whether it is accepted."""
        aim = uniform[0] * self.cumulative[-1]
        piece = np.minimum((aim >= self.cumulative).sum(axis=0), 2)[None, :]
        highest, length, slope, level = (
            np.take_along_axis(part, piece, axis=0)[0] for part in (self.highest, self.length, self.slope, self.level)
        )
        step = _within(uniform[1], np.abs(slope), length)
        place = np.maximum(highest - np.where(slope > 0, step, -step), self.low)
        log_ratio = self._density(place) - (level - np.abs(slope) * step)
        return self.mode * np.exp(place), np.log(uniform[2]) < log_ratio


def _meetings(touch: Floats, height: Floats, slope: Floats) -> Floats:
    """Where neighbouring tangents meet, between the places where they touch."""
    gap = slope[:-1] - slope[1:]
    rise = height[1:] - slope[1:] * touch[1:] - height[:-1] + slope[:-1] * touch[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = np.where(gap > 0, rise / gap, touch[1:])
    return np.clip(meet, touch[:-1], touch[1:])


def _area(steepness: Floats, length: Floats) -> Floats:
    """The integral of exp(-steepness t) over 0 < t < length."""
    reach = steepness * length
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(reach < FLAT, length, -np.expm1(-reach) / steepness)


def _within(uniform: Floats, steepness: Floats, length: Floats) -> Floats:
    """A place in (0, length) with density proportional to exp(-steepness t)."""
    reach = steepness * length
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(reach < FLAT, uniform * length, -np.log1p(uniform * np.expm1(-reach)) / steepness)
