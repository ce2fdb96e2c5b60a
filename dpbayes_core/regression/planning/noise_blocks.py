"""The noise on every kind of released moment, relative to the moment; the comparison of two mechanisms' noise.

Both are computed before any row is read.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.regression.fourth import FourthMoments
from dpbayes_core.regression.planning.expected_moments import EXPLAINED, Expectation
from dpbayes_core.regression.public_fit import REACH
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.fourth import WEIGHT_UNIT, fourth_weights
from dpbayes_core.regression.sensitivity.residual import residual_entries


@dataclass(frozen=True)
class NoiseBlock:
    """Released numbers of one kind, by that with most relative noise, as averages over rows of columns in [-1, 1]."""

    name: str
    numbers: int
    noise: float  # standard deviation
    measures: float  # the size of the moment

    @property
    def ratio(self) -> float:
        """The noise relative to the moment."""
        return self.noise / self.measures


@dataclass(frozen=True)
class _Entry:
    block: str
    noise: float
    measures: float


def noise_blocks(
    expectation: Expectation, additional: Mechanism | None = None, holders: int = 1, besides: str = "fourth"
) -> tuple[NoiseBlock, ...]:
    """Every kind in the order of release; `additional` is the additional noise, if any, and `besides` its statistic."""
    found: dict[str, list[_Entry]] = {}
    rest = _higher(expectation, additional, holders) if besides == "fourth" else _weighed(expectation, additional)
    for entry in (*_second(expectation), *rest):
        found.setdefault(entry.block, []).append(entry)
    return tuple(_block(name, entries) for name, entries in found.items())


def _block(name: str, entries: Sequence[_Entry]) -> NoiseBlock:
    worst = max(entries, key=lambda entry: entry.noise / entry.measures)
    return NoiseBlock(name, len(entries), worst.noise, worst.measures)


def _second(known: Expectation) -> Iterator[_Entry]:
    kinds = ["constant", *(variable.kind for variable in known.schema.variables)]
    last = len(kinds) - 1
    sizes = np.array([1.0, *np.sqrt(np.diag(known.covariance)), np.sqrt(known.variance)])
    for (i, j), noise in zip(known.places.T.tolist(), np.sqrt(known.noise).tolist(), strict=True):
        if (i, j) == (0, 0):
            yield _Entry("number of rows", noise, 1.0)
        elif i == 0 and kinds[j] == "indicator":
            share = float(known.means[j - 1]) or float(known.covariance[j - 1, j - 1])
            yield _Entry("shares of levels", noise, share)
        elif i == 0 and kinds[j] == "two-level":
            rarer = (1 - abs(float(known.means[j - 1]))) / 2
            yield _Entry("shares of levels", noise / 2, rarer)
        elif i == 0:
            yield _Entry("means of numbers", noise, float(sizes[j]))
        elif i == j:
            yield _Entry("squares of numbers", noise, float(sizes[i] ** 2))
        elif last in (i, j):
            yield _Entry("products with the response", noise, float(sizes[i] * sizes[j]))
        else:
            yield _Entry("products of covariates", noise, float(sizes[i] * sizes[j]))


def _higher(known: Expectation, additional: Mechanism | None, holders: int) -> Iterator[_Entry]:
    if additional is None:
        return
    sizes = np.array([1.0, *np.sqrt(np.diag(known.covariance))])
    weights = np.array(fourth_weights(known.schema, additional.norm)) / WEIGHT_UNIT
    noise = np.sqrt(holders) * additional.deviations / weights / known.rows
    for places, own in zip(FourthMoments(known.schema).entries, noise.tolist(), strict=True):
        name = "third moments of covariates" if places[0] == 0 else "fourth moments of covariates"
        yield _Entry(name, own, float(np.prod(sizes[list(places)])))


def _weighed(known: Expectation, additional: Mechanism | None) -> Iterator[_Entry]:
    """Products of covariates weighted by squared residuals, in units of the residual of weight 1."""
    if additional is None:
        return
    sizes = np.array([1.0, *np.sqrt(np.diag(known.covariance))])
    noise = additional.deviations / known.rows
    for (i, j), own in zip(residual_entries(known.schema), noise.tolist(), strict=True):
        yield _Entry("products weighed by squared residuals", own, float(sizes[i] * sizes[j]) / REACH**2)


def width_ratio(
    schema: RegressionSchema, first: Mechanism, second: Mechanism, places: tuple[tuple[int, int], ...]
) -> float:
    """The factor by which intervals are wider with the first noise than with the second: a geometric mean over columns.

    It is the limit of much noise: neither guesses for planning nor the number of rows change it.
    """
    widths = [_widths(schema, mechanism, places) for mechanism in (first, second)]
    return math.exp(float(np.mean(np.log(widths[0]) - np.log(widths[1])) / 2))


def _widths(schema: RegressionSchema, mechanism: Mechanism, places: tuple[tuple[int, int], ...]) -> list[float]:
    """The noise's contribution to the squared width of each column's interval, in units of its own."""
    expectation = Expectation.of(schema, mechanism, rows=1, expected={}, places=places)
    response, found, variable = expectation.centred[-1], list[float](), 0
    for column in schema.covariates:
        own, spread = expectation.partial[variable], expectation.covariance[variable, variable]
        slope = EXPLAINED * expectation.variance / (expectation.d * spread)
        found.append(expectation.noise_of(own, response) + slope * expectation.noise_of(own, own))
        variable += len(column.variables())
    return found
