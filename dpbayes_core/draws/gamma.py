"""Logarithms of gamma numbers in an interval, and log odds of beta numbers: log-concave whatever the shapes.

Places are distances from the density's peak, so that nothing of it is lost where the peak is narrow.
"""

from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.draws.log_concave import Hull
from dpbayes_core.privacy.noise import NoiseSource


@dataclass(frozen=True)
class LogGamma:
    """u = log(x / peak) of x with density x^(shape-1) exp(-rate x): shape u - pull (exp(u) - 1)."""

    low: Floats
    high: Floats
    shape: Floats
    pull: Floats  # rate x peak

    @classmethod
    def of(cls, shape: Floats, rate: Floats, floor: float, room: float) -> "LogGamma":
        """Those of floor <= x <= floor + room."""
        peak = np.clip(shape / rate, floor, floor + room)
        low = -np.log1p((peak - floor) / floor)
        inside = (shape / rate > floor) & (shape / rate < floor + room)
        return cls(low, np.log1p(room / floor) + low, shape, np.where(inside, shape, rate * peak))

    def height(self, place: Floats) -> Floats:
        """The log density."""
        return self.shape * place - self.pull * np.expm1(place)

    def slope(self, place: Floats) -> Floats:
        """Its derivative."""
        return (self.shape - self.pull) - self.pull * np.expm1(place)

    def take(self, rows: Integers) -> "LogGamma":
        """Some rows."""
        return LogGamma(self.low[rows], self.high[rows], self.shape[rows], self.pull[rows])


@dataclass(frozen=True)
class LogOdds:
    """u = log odds - log odds at the peak, of p with density p^(first-1) (1-p)^(second-1), first <= second.

    With s = p at the peak, which is at most 1/2, it is first u - (first + second) log(1 + s (exp(u) - 1)).
    """

    low: Floats
    high: Floats
    first: Floats
    total: Floats
    peak: Floats

    @classmethod
    def of(cls, first: Floats, second: Floats, floor: float) -> "LogOdds":
        """Those of floor <= p <= 1 - floor."""
        furthest = np.log1p((1 - 2 * floor) / floor)  # log odds of 1 - floor
        centre = np.maximum(np.log(first) - np.log(second), -furthest)
        inside = centre > -furthest
        peak = np.where(inside, first / (first + second), floor)
        return cls(-(furthest + centre), furthest - centre, first, first + second, peak)

    def height(self, place: Floats) -> Floats:
        """The log density."""
        return self.first * place - self.total * np.log1p(self.peak * np.expm1(place))

    def slope(self, place: Floats) -> Floats:
        """Its derivative."""
        raised = np.expm1(place)
        away = (1 - self.peak) * raised / (1 + self.peak * raised)  # of p from the peak, relative to it
        return (self.first - self.total * self.peak) - self.total * self.peak * away

    def take(self, rows: Integers) -> "LogOdds":
        """Some rows."""
        return LogOdds(self.low[rows], self.high[rows], self.first[rows], self.total[rows], self.peak[rows])


def gamma_excess(noise: NoiseSource, hull: Hull, rows: Integers, floor: float) -> Floats:
    """How far above the floor gamma numbers of these rows are."""
    return floor * np.expm1(np.maximum(hull.sample(noise, rows) - hull.density.low[rows], 0))


def beta_excess(noise: NoiseSource, hull: Hull, rows: Integers, floor: float) -> Floats:
    """How far above the floor the first of two levels is in these rows."""
    raised = np.expm1(np.maximum(hull.sample(noise, rows) - hull.density.low[rows], 0))
    return floor * (1 - floor) * raised / (1 + floor * raised)
