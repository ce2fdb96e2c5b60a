"""Exact draws from a Dirichlet law truncated to probabilities above a floor; no draw is clamped.

Two levels are a beta variate, drawn as its log odds. More levels are independent gamma variates of one rate, each above
the floor, given that they sum to 1; that is the law for every rate. All but one are drawn; the last is the remainder
to 1, accepted in proportion to its density, which is bounded if its shape is at least 1. If no shape is, then by
1 = p_1 + ... + p_k the law is a mixture of k laws, each with one shape raised by 1, and that level is the remainder.
With the rate at which the variates sum to about 1, about one proposal in sqrt(2 pi levels) is accepted; other rates
are only slower.

Logarithms of gamma variates and log odds of beta variates have log-concave densities for all shapes. They are drawn as
distances from the density's peak, so that no precision is lost where the peak is narrow.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.draws.log_concave import Hull
from dpbayes_core.privacy.noise import NoiseSource


@dataclass(frozen=True)
class LogGamma:
    """u = log(x / peak) of x with density x^(shape-1) exp(-rate x); its log density is shape u - pull (exp(u) - 1)."""

    low: Floats
    high: Floats
    shape: Floats
    pull: Floats  # rate x peak

    @classmethod
    def of(cls, shape: Floats, rate: Floats, floor: float, room: float) -> "LogGamma":
        """The densities truncated to floor <= x <= floor + room."""
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
        """The same densities for some rows."""
        return LogGamma(self.low[rows], self.high[rows], self.shape[rows], self.pull[rows])


@dataclass(frozen=True)
class LogOdds:
    """u = log odds - log odds at the peak, of p with density p^(first-1) (1-p)^(second-1), first <= second.

    With s = p at the peak, at most 1/2, its log density is first u - (first + second) log(1 + s (exp(u) - 1)).
    """

    low: Floats
    high: Floats
    first: Floats
    total: Floats
    peak: Floats

    @classmethod
    def of(cls, first: Floats, second: Floats, floor: float) -> "LogOdds":
        """The densities truncated to floor <= p <= 1 - floor."""
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
        """The same densities for some rows."""
        return LogOdds(self.low[rows], self.high[rows], self.first[rows], self.total[rows], self.peak[rows])


def gamma_excess(noise: NoiseSource, hull: Hull, rows: Integers, floor: float) -> Floats:
    """Draws of these rows' gamma variates, less the floor."""
    return floor * np.expm1(np.maximum(hull.sample(noise, rows) - hull.density.low[rows], 0))


def beta_excess(noise: NoiseSource, hull: Hull, rows: Integers, floor: float) -> Floats:
    """Draws of these rows' probabilities of the first of two levels, less the floor."""
    raised = np.expm1(np.maximum(hull.sample(noise, rows) - hull.density.low[rows], 0))
    return floor * (1 - floor) * raised / (1 + floor * raised)


GRID_BITS = 28  # of the room above the floor: far coarser than the resolution of 53 random bits
PANELS, NODES = 48, 16  # of the quadrature of a gamma variate's mass: exact to 1e-13


def truncated_dirichlet(noise: NoiseSource, concentration: Floats, floor: float) -> Floats:
    """(rows, levels) probabilities, each row with density prod p^(concentration - 1) on p >= floor, sum 1.

    Published on a public grid of the floor plus multiples of 2^-28 of the room above it, rounded down.
    """
    levels = concentration.shape[1]
    if not 0 < floor < 1 / levels:
        raise ValueError(
            "cannot draw probabilities: the floor is not between 0 and 1 over the number of levels. Lower it."
        )
    if not (np.isfinite(concentration).all() and (concentration > 0).all()):
        raise ValueError("cannot draw probabilities: a pseudo-count is not positive. State a prior above zero.")
    shapes, rows = np.unique(concentration, axis=0, return_inverse=True)
    rows = rows.reshape(-1)
    excess = _two_levels(noise, shapes, rows, floor) if levels == 2 else _many_levels(noise, shapes, rows, floor)
    return on_grid(excess, floor)


def on_grid(excess: Floats, floor: float) -> Floats:
    """Probabilities with every level but the last rounded down to the grid, and the last as remainder."""
    room = 1 - excess.shape[1] * floor
    cells = np.floor(np.minimum(excess[:, :-1] / room, 1) * 2.0**GRID_BITS)
    coarse = floor + cells * 2.0**-GRID_BITS * room
    return np.column_stack([coarse, 1 - coarse.sum(axis=1)])


def _two_levels(noise: NoiseSource, shapes: Floats, rows: Integers, floor: float) -> Floats:
    hull = Hull(LogOdds.of(shapes.min(axis=1), shapes.max(axis=1), floor))
    lesser = beta_excess(noise, hull, rows, floor)
    pair = np.column_stack([lesser, np.maximum(1 - 2 * floor - lesser, 0)])
    return np.where((shapes[:, 0] <= shapes[:, 1])[rows][:, None], pair, pair[:, ::-1])


def _many_levels(noise: NoiseSource, shapes: Floats, rows: Integers, floor: float) -> Floats:
    levels, room = shapes.shape[1], 1 - shapes.shape[1] * floor
    spread = shapes.max(axis=1) < 1
    rate = rate_for(np.where(spread[:, None], shapes + 1 / levels, shapes), floor)
    density = LogGamma.of(shapes.reshape(-1), np.repeat(rate, levels), floor, room)
    hull = Hull(density)
    power = np.where(spread[:, None], shapes, np.maximum(shapes - 1, 0))  # of the remainder in its density
    peak = np.clip(power / rate[:, None], floor, floor + room)
    weights = np.cumsum(
        _remainder_weights(shapes, rate, power * np.log(peak) - rate[:, None] * (peak - floor), floor), axis=1
    )
    result, pending, places = np.empty((len(rows), levels)), np.arange(len(rows)), np.arange(levels)
    while len(pending):
        own = rows[pending]
        uniform = noise.uniform(2 * len(own)).reshape(2, -1)
        over = np.minimum((uniform[0][:, None] * weights[own, -1:] >= weights[own]).sum(axis=1), levels - 1)
        cells = (own[:, None] * levels + places).reshape(-1)
        excess = gamma_excess(noise, hull, cells, floor).reshape(-1, levels)
        each = np.arange(len(own))
        excess[each, over] = 0.0
        left = room - excess.sum(axis=1)
        log_ratio = _log_relative_to_peak(np.maximum(left, 0), peak[own, over], floor, power[own, over], rate[own])
        accepted = (np.log(uniform[1]) < log_ratio) & (left >= 0)
        excess[each, over] = left
        result[pending[accepted]] = excess[accepted]
        pending = pending[~accepted]
    return result


def _log_relative_to_peak(excess: Floats, peak: Floats, floor: float, power: Floats, rate: Floats) -> Floats:
    """The log of p^power exp(-rate p) relative to its peak."""
    away = excess - (peak - floor)
    near = np.log1p(np.maximum(away / peak, -0.5))
    return power * np.where(away < -peak / 2, np.log((excess + floor) / peak), near) - rate * away


def _remainder_weights(shapes: Floats, rate: Floats, log_peak: Floats, floor: float) -> Floats:
    """How often each level is the remainder: by peak over mass; with a shape of 1 or more, the largest always."""
    spread, levels = shapes.max(axis=1) < 1, shapes.shape[1]
    found = np.eye(levels)[shapes.argmax(axis=1)]
    if spread.any():
        log_weights = log_peak[spread] - log_mass(shapes[spread], rate[spread], floor)
        found[spread] = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return found


def log_mass(shapes: Floats, rate: Floats, floor: float) -> Floats:
    """log of the integral of x^(shape-1) exp(-rate (x - floor)) over the room above the floor, for shapes below 1."""
    room = 1 - shapes.shape[1] * floor
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    width = np.log1p(room / floor) / PANELS
    places = (np.arange(PANELS)[:, None] + (nodes + 1) / 2).reshape(-1) * width  # nodes of log(x / floor)
    values = np.exp(shapes[:, :, None] * places - (rate * floor)[:, None, None] * np.expm1(places))
    return shapes * np.log(floor) + np.log(values @ np.tile(weights * width / 2, PANELS))


def rate_for(shapes: Floats, floor: float) -> Floats:
    """For each row, about the rate at which gamma variates above the floor sum to 1 on average."""
    total, levels = shapes.sum(axis=1), shapes.shape[1]
    low, high = np.log(total) - 5, np.log(total + levels / (1 - levels * floor)) + 5
    for _ in range(50):
        middle = (low + high) / 2
        large = _mean(shapes, np.exp(middle)[:, None], floor).sum(axis=1) > 1
        low, high = np.where(large, middle, low), np.where(large, high, middle)
    return np.exp((low + high) / 2)


def _mean(shapes: Floats, rate: Floats, floor: float) -> Floats:
    """The mean of a gamma variate truncated to values above the floor."""
    reach = rate * floor
    above = gammaincc(shapes, reach)
    exact = shapes / rate * gammaincc(shapes + 1, reach) / np.maximum(above, 1e-290)
    tail = floor + 1 / np.maximum(rate - (shapes - 1) / floor, np.sqrt(shapes) / floor)
    return np.where(above > 1e-290, exact, tail)
