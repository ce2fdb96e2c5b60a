"""The law of a coefficient's posterior given a released centre and scale or medians, with allowance for their noise.

The subsets' locations scatter around the whole posterior's location with sqrt(M) times its standard deviation s. Their
mean has Laplace noise alone; their median has scatter of sqrt(pi/2 - 1) s, too, and the exponential mechanism's noise
of 2 / epsilon ranks, sqrt(2 pi / M) s each.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms.centre_scale import PER_OCTAVE, UNIT, CentreScaleMechanism
from dpbayes_core.privacy.mechanisms.exponential import ExponentialMechanism
from dpbayes_core.subsample.quantile import QuantileRelease

MEDIAN_SCATTER = math.sqrt(math.pi / 2 - 1)  # sd of the median around the mean, in standard deviations of the mean
SPREADS = 4001  # grid points for a spread that was not released


@dataclass(frozen=True, eq=False)
class CentreScaleLaw:
    """Posterior of location and spread from a released centre and scale."""

    centre: float
    spread: float
    noise: float  # scale of the Laplace noise on the centre
    scatter: float  # standard deviation of the median around the mean; 0 where a mean was released
    jitter: float  # half a cell of the scale's grid, in octaves

    @property
    def widened(self) -> float:
        """The coefficient's standard deviation, noise included: sqrt(s^2 + scatter^2 + 2 b^2)."""
        return math.sqrt(self.spread**2 + self.scatter**2 + 2 * self.noise**2)

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Floats, Floats]:
        """Independent locations and spreads."""
        spread = self.spread * 2.0 ** generator.uniform(-self.jitter, self.jitter, count)
        scatter = self.scatter * generator.standard_normal(count)
        return self.centre + scatter + generator.laplace(0.0, self.noise, count), spread


def centre_scale_law(release: QuantileRelease, *, plain: bool = False) -> CentreScaleLaw:
    """The law given a centre-scale release; `plain` takes the released numbers as exact."""
    mechanism = release.mechanism
    if not isinstance(mechanism, CentreScaleMechanism):
        raise ValueError("cannot read a centre: medians were released. Analyse them as such.")
    subsets, spread, jitter = release.terms.subsets, release.spread, 0.5 / PER_OCTAVE
    if plain:
        return CentreScaleLaw(release.centre, spread, 0.0, 0.0, 0.0)
    if mechanism.with_mean:
        noise = mechanism.scale * release.radius / (UNIT * subsets)
        return CentreScaleLaw(release.centre, spread, noise, 0.0, jitter)
    noise = mechanism.scale * math.sqrt(2 * math.pi / subsets) * spread
    return CentreScaleLaw(release.centre, spread, noise, MEDIAN_SCATTER * spread, jitter)


@dataclass(frozen=True, eq=False)
class MediansLaw:
    """Posterior of location and spread from two or more released quantiles, with a flat prior on (location, log s)."""

    released: Floats
    steps: Floats  # standard normal quantiles of their probabilities
    rates: Floats  # 1 / scale of each quantile's Laplace noise, in spreads
    spreads: Floats
    cumulative: Floats  # of log s

    def draw(self, generator: np.random.Generator, count: int) -> tuple[Floats, Floats]:
        """Independent locations and spreads, by inversion: first the spread, then the location given it."""
        spread = np.interp(generator.random(count), self.cumulative, self.spreads)
        places, masses, slopes, heights = _segments(self.released, self.steps, self.rates, spread)
        chosen = (generator.random(count)[:, None] > np.cumsum(masses, axis=1) / masses.sum(axis=1)[:, None]).sum(1)
        chosen = np.minimum(chosen, masses.shape[1] - 1)
        shifted = _within(places, slopes, heights, chosen, generator.random(count))
        return shifted - MEDIAN_SCATTER * spread * generator.standard_normal(count), spread


def medians_law(release: QuantileRelease) -> MediansLaw:
    """The law given released medians; the spread is at most the width of the outer bounds."""
    from scipy.special import ndtri

    mechanism, terms = release.mechanism, release.terms
    if not isinstance(mechanism, ExponentialMechanism) or len(release.values) < 2:
        raise ValueError("cannot tell a spread: one median says nothing of it. Release two quantiles or more.")
    released, steps = release.estimates(), ndtri(np.array(terms.probabilities))
    rates = 1 / (mechanism.scales * math.sqrt(2 * math.pi / terms.subsets))
    widest = terms.outer[1] - terms.outer[0]
    spreads = np.geomspace(widest * 2.0**-48, widest, SPREADS)
    _, masses, _, heights = _segments(released, steps, rates, spreads)
    # heights are relative to each spread's own peak
    density = np.log(masses.sum(axis=1)) + heights.max(axis=1) - len(released) * np.log(spreads)
    weights = np.exp(density - density.max())
    cumulative = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
    return MediansLaw(released, steps, rates, spreads, cumulative / cumulative[-1])


def _segments(released: Floats, steps: Floats, rates: Floats, spread: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """For each spread, the location's piecewise linear log density: knots, masses, slopes, heights at knots."""
    knots = released - steps * spread[:, None]
    order = np.argsort(knots, axis=1)
    knots = np.take_along_axis(knots, order, axis=1)
    pull = rates[order] / spread[:, None]
    total = pull.sum(axis=1, keepdims=True)
    passed = np.concatenate([np.zeros((len(spread), 1)), np.cumsum(pull, axis=1)], axis=1)
    slopes = total - 2 * passed  # of the log density, before the first knot up to after the last
    heights = -(np.abs(knots[:, :, None] - knots[:, None, :]) * pull[:, None, :]).sum(axis=2)
    relative = heights - heights.max(axis=1, keepdims=True)
    inner_slopes, lengths = slopes[:, 1:-1], np.diff(knots, axis=1)
    top = np.maximum(relative[:, :-1], relative[:, 1:])
    drop = np.abs(inner_slopes) * lengths
    inner = np.exp(top) * lengths * np.where(drop > 1e-12, -np.expm1(-drop) / np.maximum(drop, 1e-300), 1.0)
    first = np.exp(relative[:, :1]) / slopes[:, :1]
    last = np.exp(relative[:, -1:]) / -slopes[:, -1:]
    return knots, np.concatenate([first, inner, last], axis=1), slopes, heights


def _within(knots: Floats, slopes: Floats, heights: Floats, chosen: NDArray[np.int64], uniform: Floats) -> Floats:
    """A point of the chosen segment, by inversion."""
    rows, last = np.arange(len(chosen)), knots.shape[1]
    slope = slopes[rows, chosen]
    left = knots[rows, np.maximum(chosen - 1, 0)]
    right = knots[rows, np.minimum(chosen, last - 1)]
    drop = slope * (right - left)
    with np.errstate(all="ignore"):
        inner = left + np.where(
            np.abs(drop) > 1e-12,
            np.where(
                drop > 0,
                (right - left) + np.log(uniform + (1 - uniform) * np.exp(-np.abs(drop))) / np.abs(slope),
                -np.log1p(uniform * np.expm1(-np.abs(drop))) / np.abs(slope),
            ),
            uniform * (right - left),
        )
        outside = np.where(chosen == 0, knots[:, 0] + np.log(uniform) / slope, knots[:, -1] + np.log(uniform) / slope)
    return np.where((chosen == 0) | (chosen == last), outside, inner)
