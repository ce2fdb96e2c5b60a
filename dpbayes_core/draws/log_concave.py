"""Exact draws from any log-concave density on a bounded interval: rejection from three tangents of its logarithm.

The outer tangents touch where the log density is one below its peak, or at the interval's ends. Let such a point be at
distance d from the peak, whose density is 1. Between the two, by concavity, the area under the density is at least
(1 - 1/e) d, and that under the tangents at most d; beyond the point, where the slope is at least 1/d, it is at most
d/e. So for every density at least (1 - 1/e) / (1 + 1/e) = .46 of all proposals are accepted.
"""

from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.privacy.noise import NoiseSource

FLAT = 1e-12  # a piece that falls by less than this over its length is taken as constant
HALVINGS = 60  # locate a tangent's point to the precision of doubles; any other point would only be slower


class LogConcave(Protocol):
    """Concave log densities of the distance from the peak, 0 there; one for each row."""

    @property
    def low(self) -> Floats:
        """Lower ends of the intervals, at 0 or below."""
        ...

    @property
    def high(self) -> Floats:
        """Upper ends of the intervals, at 0 or above."""
        ...

    def height(self, place: Floats) -> Floats:
        """The log density."""
        ...

    def slope(self, place: Floats) -> Floats:
        """Its derivative."""
        ...

    def take(self, rows: Integers) -> Self:
        """The same functions of some rows."""
        ...


class Hull:
    """An upper bound of three exponential pieces for each density."""

    def __init__(self, density: LogConcave) -> None:
        self.density = density
        low, high = density.low, density.high
        touch = np.stack([_tangent_point(density, low), np.zeros_like(low), _tangent_point(density, high)])
        height = np.stack([density.height(place) for place in touch])
        self.slope = np.stack([density.slope(place) for place in touch])
        middles = _intersections(touch, height, self.slope)
        start, end = np.stack([low, *middles]), np.stack([*middles, high])
        self.length = end - start
        self.highest = np.where(self.slope > 0, end, start)  # of each piece
        self.level = height + self.slope * (self.highest - touch)
        self.cumulative = np.cumsum(np.exp(self.level) * _area(np.abs(self.slope), self.length), axis=0)
        if not all(np.isfinite(part).all() for part in (self.slope, self.length, self.level, self.cumulative)):
            raise ValueError("cannot draw exactly: a density is beyond what doubles hold. State a milder prior.")

    def sample(self, noise: NoiseSource, rows: Integers) -> Floats:
        """A draw for each of these rows, as a distance from the row's peak; rows may repeat."""
        drawn = np.empty(len(rows))
        pending = np.arange(len(rows))
        while len(pending):
            place, accepted = self._try_once(noise.uniform(3 * len(pending)).reshape(3, -1), rows[pending])
            drawn[pending[accepted]] = place[accepted]
            pending = pending[~accepted]
        return drawn

    def _try_once(self, uniform: Floats, rows: Integers) -> tuple[Floats, NDArray[np.bool_]]:
        """One proposal for each row, and whether it is accepted."""
        cumulative = self.cumulative[:, rows]
        piece = np.minimum((uniform[0] * cumulative[-1] >= cumulative).sum(axis=0), 2)
        highest, length, slope, level = (
            part[piece, rows] for part in (self.highest, self.length, self.slope, self.level)
        )
        step = _within(uniform[1], np.abs(slope), length)
        density = self.density.take(rows)
        place = np.clip(highest - np.where(slope > 0, step, -step), density.low, density.high)
        log_ratio = density.height(place) - (level - np.abs(slope) * step)
        return place, np.log(uniform[2]) < log_ratio


def _tangent_point(density: LogConcave, far: Floats) -> Floats:
    """The point between the peak and the far end where the log density is 1 below its peak; else the far end."""
    near, beyond = np.zeros_like(far), far
    ended = density.height(far) >= -1
    for _ in range(HALVINGS):
        middle = (near + beyond) / 2
        above = density.height(middle) >= -1
        near, beyond = np.where(above, middle, near), np.where(above, beyond, middle)
    return np.where(ended, far, (near + beyond) / 2)


def _intersections(touch: Floats, height: Floats, slope: Floats) -> Floats:
    """Where neighbouring tangents intersect, between their points of contact."""
    gap = slope[:-1] - slope[1:]
    distance = np.diff(touch, axis=0)
    rise = np.diff(height, axis=0) - slope[1:] * distance
    share = np.divide(rise, gap * distance, out=np.ones_like(rise), where=gap * distance > 0)
    return touch[:-1] + np.clip(share, 0, 1) * distance


def _area(steepness: Floats, length: Floats) -> Floats:
    """The integral of exp(-steepness t) over 0 < t < length."""
    reach = steepness * length
    return np.where(reach < FLAT, length, -np.expm1(-reach) / np.where(reach < FLAT, 1.0, steepness))


def _within(uniform: Floats, steepness: Floats, length: Floats) -> Floats:
    """A draw in (0, length) with density proportional to exp(-steepness t), from a uniform number."""
    reach = steepness * length
    steep = -np.log1p(uniform * np.expm1(-reach)) / np.where(reach < FLAT, 1.0, steepness)
    return np.where(reach < FLAT, uniform * length, steep)
