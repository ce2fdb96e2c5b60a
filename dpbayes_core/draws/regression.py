"""Exact draws of a linear regression's coefficients inside a ball, for a known residual standard deviation.

For every shift s >= 0 the density exp(-(t - mu)' L (t - mu) / 2) on |t| <= r is, up to a constant, that of a Gaussian
of precision L + s I and mean (L + s I)^-1 L mu, times exp(-s (r^2 - |t|^2) / 2) <= 1: propose the Gaussian, accept with
that factor. No draw is projected to the edge. With the shift at which the proposal's expected |t|^2 is r^2 acceptance
is likely; any other is exact, too, but slower.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpbayes_core.arrays import Floats
from dpbayes_core.draws.model import records_moved
from dpbayes_core.errors import Refusal
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import ExactStatistics, SecondMoments
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.rounding import float_up, fraction, root_up

GRID_BITS = 28  # of the radius
FIRST_BATCH, LARGEST_BATCH = 64, 4096


def ball_gaussian(noise: NoiseSource, precision: Floats, pull: Floats, radius: float, draws: int) -> Floats:
    """(draws, d) independent draws with density exp(pull . t - t' precision t / 2) on |t| <= radius.

    Published on a public grid of multiples of 2^-28 of the radius, rounded towards zero.
    """
    if not (np.isfinite(radius) and radius > 0) or draws < 1:
        raise ValueError("cannot draw inside a ball: radius or number of draws is not positive. State positive ones.")
    values, vectors = np.linalg.eigh(precision)
    if not values[-1] > 0:
        raise ValueError("cannot draw inside a ball: the precision is not positive. State a prior with a precision.")
    rotated = vectors.T @ pull
    shift = shift_for(values, rotated, radius)
    mean, spread = rotated / (values + shift), 1 / np.sqrt(values + shift)
    found, batch = np.empty((0, len(values))), FIRST_BATCH
    while len(found) < draws:
        uniform = noise.uniform(batch * (len(values) + 1)).reshape(batch, -1)
        batch = min(2 * batch, LARGEST_BATCH)
        proposed = mean + spread * ndtri(uniform[:, 1:])
        room = radius**2 - (proposed**2).sum(axis=1)
        accepted = (room >= 0) & (np.log(uniform[:, 0]) < -shift * room / 2)
        found = np.concatenate([found, proposed[accepted]])
    cell = radius * 2.0**-GRID_BITS
    return np.trunc(found[:draws] @ vectors.T / cell) * cell


def shift_for(values: Floats, rotated: Floats, radius: float) -> float:
    """The s at which the proposal's expected |t|^2 is r^2; nearly 0 where that is smaller already."""

    def excess(shift: float) -> float:
        return float(((rotated / (values + shift)) ** 2 + 1 / (values + shift)).sum()) - radius**2

    least = max(0.0, 1e-12 * float(values[-1]) - float(values[0]))  # keeps the shifted precision invertible
    if excess(least) <= 0:
        return least
    low, high = least, max(1.0, least)
    while excess(high) > 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


LEAST, LARGEST = 1e-6, 1e6  # of radius and sigma; the sampler's precision was measured within these limits
LEAST_PRECISION, LARGEST_PRECISION = 1e-9, 1e9


@dataclass(frozen=True, kw_only=True)
class RegressionSubject:
    """Standardised coefficients with |theta| <= radius, a Gaussian prior truncated to that ball, and a known sigma.

    A standardised response is in [-1, 1]. A row (1, x) has a squared norm of at most 1 plus the number of columns,
    since at most one of a factor's indicators is 1.
    """

    schema: RegressionSchema
    radius: float
    sigma: float  # of the standardised response
    prior_precision: float  # of each coefficient, before truncation

    def __post_init__(self) -> None:
        for name, value in (("radius", self.radius), ("sigma", self.sigma)):
            if not LEAST <= value <= LARGEST:
                what = "cannot draw coefficients: radius or sigma is not between 0.000001 and 1000000"
                raise Refusal(name, what, "State ones within")
        if not LEAST_PRECISION <= self.prior_precision <= LARGEST_PRECISION:
            what = "cannot draw coefficients: the prior precision is not between 1e-9 and 1e9"
            raise Refusal("prior_precision", what, "State one within")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients, the intercept first."""
        return self.schema.coefficients

    def oscillation(self, neighbours: str) -> float:
        """4aY / sigma^2 if Y >= a = R radius, else (Y + a)^2 / sigma^2; half of it for adding or removing a record."""
        longest = root_up(Fraction(1 + len(self.schema.covariates)))
        return regression_oscillation(longest, 1, self.radius, self.sigma, records=records_moved(neighbours))

    def statistic(self) -> SecondMoments:
        """The second moments of the regression."""
        return SecondMoments(self.schema)

    def draw(self, noise: NoiseSource, exact: ExactStatistics, tempering: float, draws: int) -> Floats:
        """Independent standardised coefficients."""
        sums = np.array([float(Fraction(total, UNIT**2)) for total in exact.sums])
        moments = tempering / self.sigma**2 * self.schema.complete(sums, float(exact.rows))
        precision = moments[:-1, :-1] + self.prior_precision * np.eye(len(moments) - 1)
        return ball_gaussian(noise, precision, moments[:-1, -1], self.radius, draws)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "model": "regression",
            "prior_precision": self.prior_precision,
            "radius": self.radius,
            "schema": self.schema.to_record(),
            "sigma": self.sigma,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "RegressionSubject":
        """The inverse of `to_record`."""
        names = ("radius", "sigma", "prior_precision")
        return cls(schema=RegressionSchema.from_record(record["schema"]), **{name: record[name] for name in names})


def regression_oscillation(
    longest: float | Fraction, response: float | Fraction, radius: float, sigma: float, *, records: int
) -> float:
    """The range of the log-likelihood's difference over |theta| <= radius, |x| <= longest, |y| <= response, rounded up.

    With a = longest x radius one record's (y - x theta)^2 / 2 ranges over 2aY, or (Y + a)^2 / 2 where Y < a.
    """
    reach, height = Fraction(longest) * fraction(radius), Fraction(response)
    one = 2 * reach * height if height >= reach else (height + reach) ** 2 / 2
    return float_up(records * one / fraction(sigma) ** 2)
