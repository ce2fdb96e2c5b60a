"""What is expected of a release before any row is read: moments of the columns, and what the noise does to them.

Everything is on the standardised scale and a row's average. Levels are taken as equally common.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.bounds import Bounds
from dpbayes_core.mechanisms import Mechanism
from dpbayes_core.schema import Continuous, RegressionSchema, Standardisation

Floats = NDArray[np.float64]

EXPLAINED = 0.25
"""The share of the response's variance that the covariates are taken to explain: slopes hardly depend on it."""

CORRELATION = 0.25
"""How columns of numbers are taken to be related to each other: nobody declares it, and few are not."""

SPREAD_OF: Mapping[str, float] = {"laplace": math.sqrt(2)}
"""Standard deviation of the noise in units of its scale, where that is not 1."""


@dataclass(frozen=True)
class Expected:
    """A public guess about a column, in its own units."""

    mean: float
    sd: float

    @classmethod
    def unknown(cls, bounds: Bounds) -> "Expected":
        """Where nothing was declared: around the middle, with a quarter of the width."""
        return cls(bounds.middle, bounds.width / 4)

    def standardised(self, scale: Standardisation) -> "Expected":
        """As the encoded number has it."""
        return Expected(scale.slope * self.mean + scale.shift, abs(scale.slope) * self.sd)

    def clipped(self, bounds: Bounds) -> float:
        """The share of a normal column of this mean and deviation that lies outside the bounds."""
        reach = math.sqrt(2) * self.sd
        below, above = (bounds.low - self.mean) / reach, (bounds.high - self.mean) / reach
        return 0.5 * (math.erfc(-below) + math.erfc(above))


@dataclass(frozen=True, eq=False)
class Expectation:
    """One release, or several of disjoint people with one mechanism, taken together."""

    schema: RegressionSchema
    rows: float  # of all
    means: Floats  # (d,), of the encoded covariates; 0 without intercept, where moments are about 0
    covariance: Floats  # (d, d)
    centre: float  # of the response
    variance: float
    places: NDArray[np.int64]  # (2, D): what is released
    noise: Floats  # (D,), variance on each entry's sum over the releases, over rows squared

    @classmethod
    def of(
        cls,
        schema: RegressionSchema,
        mechanism: Mechanism,
        *,
        rows: int,
        expected: Mapping[str, Expected],
        places: tuple[tuple[int, int], ...],
        holders: int = 1,
    ) -> "Expectation":
        """From the declared guesses; columns without any by default."""
        means, covariance = _covariates(schema, expected)
        response = _standardised(schema, schema.response, expected)
        centre, variance = response.mean, response.sd**2
        if not schema.intercept:
            covariance, variance = covariance + np.outer(means, means), variance + centre**2
            means, centre = np.zeros_like(means), 0.0
        scales = mechanism.scales * SPREAD_OF.get(mechanism.name, 1.0)
        return cls(
            schema,
            float(rows),
            means,
            covariance,
            centre,
            variance,
            np.array(places, dtype=np.int64).T,
            holders * (scales / rows) ** 2,
        )

    @property
    def d(self) -> int:
        """Encoded covariates."""
        return len(self.means)

    @cached_property
    def centred(self) -> Floats:
        """(d + 1, m + 1): each covariate less its mean, then the response less its mean, over (1, x, y)."""
        rows = np.eye(self.d + 1, self.d + 2, 1)
        rows[:, 0] = [*-self.means, -self.centre]
        return rows

    @cached_property
    def constant(self) -> Floats:
        """The constant over (1, x, y)."""
        return np.eye(1, self.d + 2)[0]

    @cached_property
    def partial(self) -> Floats:
        """(d, m + 1): each covariate less what the others tell of it."""
        inverse = np.linalg.inv(self.covariance)
        return (inverse / np.diag(inverse)[:, None]) @ self.centred[:-1]

    @cached_property
    def partial_variances(self) -> Floats:
        """Of those."""
        return 1 / np.diag(np.linalg.inv(self.covariance))

    def forms(self, first: Floats, second: Floats) -> Floats:
        """What each released entry adds to the second moment of two combinations of (1, x, y); ties included."""
        i, j = self.places
        found = first[i] * second[j] + first[j] * second[i]
        found[i == j] /= 2
        kinds = np.array(["constant", *(v.kind for v in self.schema.variables)])
        tied = (i == 0) & (kinds[j] == "indicator")  # its square is itself
        found[tied] += first[j[tied]] * second[j[tied]]
        two_level = kinds == "two-level"  # their squares are the count
        found[(i == 0) & (j == 0)] += first[two_level] @ second[two_level]
        return found

    def noise_of(self, first: Floats, second: Floats) -> float:
        """Variance of the noise in the second moment of two combinations."""
        return float(self.noise @ self.forms(first, second) ** 2)


def _standardised(schema: RegressionSchema, column: Continuous, expected: Mapping[str, Expected]) -> Expected:
    guess = expected.get(column.name, Expected.unknown(column.bounds))
    return guess.standardised(schema.standardised(column))


def _covariates(schema: RegressionSchema, expected: Mapping[str, Expected]) -> tuple[Floats, Floats]:
    means, covariance, place = np.zeros(schema.d), np.zeros((schema.d, schema.d)), 0
    numbers: list[int] = []
    for column in schema.covariates:
        if isinstance(column, Continuous):
            guess = _standardised(schema, column, expected)
            means[place], covariance[place, place] = guess.mean, guess.sd**2
            numbers.append(place)
        elif len(column.levels) == 2:
            covariance[place, place] = 1.0  # -1 and 1 alike
        else:
            share, own = 1 / len(column.levels), slice(place, place + len(column.levels) - 1)
            means[own] = share
            covariance[own, own] = share * np.eye(len(column.levels) - 1) - share**2
        place += len(column.variables())
    deviations = np.sqrt(np.diag(covariance)[numbers])
    covariance[np.ix_(numbers, numbers)] += CORRELATION * (np.outer(deviations, deviations) - np.diag(deviations**2))
    return means, covariance
