"""Expected moments of the columns, from public guesses, and the variance of the noise on them.

Moments are on the standardised scale and divided by the rows. Levels without stated shares are equally common.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.regression.planning.relations import UNSTATED, Relations, explained_by, matrix_of, slopes_of
from dpbayes_core.regression.schema import Continuous, RegressionSchema, Standardisation

EXPLAINED = 0.25
"""The assumed share of the response's variance that the covariates explain: precision hardly depends on it."""

LEAST_SLOPE = 0.1
"""The least size of a slope, as a share of its default size: a stated 0 is uncertain, too."""


@dataclass(frozen=True)
class Expected:
    """A public guess about a column, in its own units."""

    mean: float
    sd: float

    @classmethod
    def unknown(cls, bounds: Bounds) -> "Expected":
        """The default guess: the middle of the bounds, and an sd of a quarter of their width."""
        return cls(bounds.middle, bounds.width / 4)

    def standardised(self, scale: Standardisation) -> "Expected":
        """The guess on the standardised scale."""
        return Expected(scale.slope * self.mean + scale.shift, abs(scale.slope) * self.sd)

    def clipped(self, bounds: Bounds) -> float:
        """The share of a normal column of this mean and sd that is outside the bounds."""
        reach = math.sqrt(2) * self.sd
        below, above = (bounds.low - self.mean) / reach, (bounds.high - self.mean) / reach
        return 0.5 * (math.erfc(-below) + math.erfc(above))


@dataclass(frozen=True, eq=False)
class Expectation:
    """Expected moments and their noise: of one release, or of several of disjoint people with one mechanism."""

    schema: RegressionSchema
    rows: float  # of all releases
    means: Floats  # (d,), of the encoded covariates; 0 without intercept, where moments are about 0
    covariance: Floats  # (d, d)
    centre: float  # of the response
    variance: float
    places: NDArray[np.int64]  # (2, D): the released entries
    noise: Floats  # (D,), variance on each entry's sum over the releases, over rows squared
    slopes: Floats  # (d,), expected sizes
    explained: float  # the share of the response's variance

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
        relations: Relations = UNSTATED,
    ) -> "Expectation":
        """The expectation from declared guesses, and default guesses for other columns."""
        means, covariance, stated, explained = _covariates(schema, expected, relations)
        response = _standardised(schema, schema.response, expected)
        centre, variance = response.mean, response.sd**2
        if not schema.intercept:
            covariance, variance = covariance + np.outer(means, means), variance + centre**2
            means, centre = np.zeros_like(means), 0.0
        slopes = stated * response.sd
        usual = np.sqrt(EXPLAINED * (1 - explained) * variance / (schema.d * np.diag(covariance)))
        return cls(
            schema,
            float(rows),
            means,
            covariance,
            centre,
            variance,
            np.array(places, dtype=np.int64).T,
            holders * (mechanism.deviations / rows) ** 2,
            np.where(np.isnan(slopes), usual, np.maximum(np.abs(slopes), LEAST_SLOPE * usual)),
            explained + EXPLAINED * (1 - explained) * bool(np.isnan(slopes).any()),
        )

    @property
    def d(self) -> int:
        """The number of encoded covariates."""
        return len(self.means)

    @cached_property
    def centred(self) -> Floats:
        """(d + 1, m + 1): the covariates and the response less their means, as combinations of (1, x, y)."""
        rows = np.eye(self.d + 1, self.d + 2, 1)
        rows[:, 0] = [*-self.means, -self.centre]
        return rows

    @cached_property
    def constant(self) -> Floats:
        """The constant, as a combination of (1, x, y)."""
        return np.eye(1, self.d + 2)[0]

    @cached_property
    def partial(self) -> Floats:
        """(d, m + 1): each covariate less its regression on the others, as a combination of (1, x, y)."""
        inverse = np.linalg.inv(self.covariance)
        return (inverse / np.diag(inverse)[:, None]) @ self.centred[:-1]

    @cached_property
    def partial_variances(self) -> Floats:
        """The variances of `partial`."""
        return 1 / np.diag(np.linalg.inv(self.covariance))

    def forms(self, first: Floats, second: Floats) -> Floats:
        """The weight of each released entry, and of entries tied to it, in the second moment of two combinations."""
        i, j = self.places
        found = first[i] * second[j] + first[j] * second[i]
        found[i == j] /= 2
        kinds = np.array(["constant", *(v.kind for v in self.schema.variables)])
        tied = (i == 0) & (kinds[j] == "indicator")  # an indicator equals its square
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


def _covariates(
    schema: RegressionSchema, expected: Mapping[str, Expected], relations: Relations
) -> tuple[Floats, Floats, Floats, float]:
    """Means, covariance, slopes of a response of standard deviation 1 as far as stated, and what they explain."""
    means, covariance, place = np.zeros(schema.d), np.zeros((schema.d, schema.d)), 0
    single: dict[str, int] = {}  # indices of columns with one variable
    for column in schema.covariates:
        size = len(column.variables())
        own = slice(place, place + size)
        if isinstance(column, Continuous):
            guess = _standardised(schema, column, expected)
            means[own], covariance[own, own] = guess.mean, guess.sd**2
        else:
            means[own], covariance[own, own] = _levels(relations.shares.get(column.name), len(column.levels))
        if size == 1:
            single[column.name] = place
        place += size
    numbers = {column.name: isinstance(column, Continuous) for column in schema.covariates if column.name in single}
    response, at = schema.response.name, list(single.values())
    slopes, explained = np.full(schema.d, np.nan), 0.0
    if at:
        matrix = matrix_of(numbers, response, relations)
        deviations = np.sqrt(np.diag(covariance)[at])
        covariance[np.ix_(at, at)] = matrix * np.outer(deviations, deviations)
        slopes[at] = slopes_of(list(numbers), response, matrix, relations) / deviations
        explained = explained_by(list(numbers), response, matrix, relations)
    return means, covariance, slopes, explained


def _levels(shares: tuple[float, ...] | None, count: int) -> tuple[Floats, Floats]:
    """Mean and covariance of a column's variables: -1 or 1 for two levels, else an indicator of each but the first."""
    share = np.full(count, 1 / count) if shares is None else np.array(shares)
    if count == 2:
        return np.array([share[1] - share[0]]), np.array([[4 * share[0] * share[1]]])
    return share[1:], np.diag(share[1:]) - np.outer(share[1:], share[1:])
