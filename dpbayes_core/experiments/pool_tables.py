"""Simulated tables in several parts whose people differ, or do not: offices, months, and parts hidden by noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.experiments.interface import Cell
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema

SIGMA = 0.2
RELATED = 0.5  # slope of every number on the one before it, in half widths
GROUPS = (0.5, 0.3, 0.2)  # shares of a factor's levels, where parts are alike
UNALIKE = ((0.7, 0.2, 0.1), (0.2, 0.6, 0.2), (0.1, 0.3, 0.6), (0.4, 0.2, 0.4))  # where they differ


@dataclass(frozen=True)
class PoolTable:
    """A regression of columns in [-1, 1], and its truth."""

    schema: RegressionSchema
    theta: Floats  # intercept, slopes of numbers, then of levels
    sigma: float
    numbers: int

    @property
    def truths(self) -> Floats:
        """The true intercept, slopes and sigma."""
        return np.append(self.theta, self.sigma)


@dataclass(frozen=True)
class Part:
    """The law of one part: its number of rows, means and sds of its numbers, and shares of the factor's levels."""

    rows: int
    means: Floats
    sds: Floats
    skewed: bool = False
    shares: Sequence[float] = GROUPS

    def columns(self, table: PoolTable, generator: np.random.Generator) -> Columns:
        """Simulated rows of the part; the response depends on the covariates after clipping."""
        shape = (self.rows, table.numbers)
        drawn = generator.standard_exponential(shape) - 1 if self.skewed else generator.standard_normal(shape)
        numbers = self.means + self.sds * drawn
        numbers[:, 1:] += RELATED * (numbers[:, :-1] - self.means[:-1])
        numbers = np.clip(numbers, -1, 1)
        columns: dict[str, NDArray[Any]] = {f"x{k}": numbers[:, k] for k in range(table.numbers)}
        response = table.theta[0] + numbers @ table.theta[1 : 1 + table.numbers]
        if len(table.theta) > 1 + table.numbers:
            levels = generator.choice(len(self.shares), self.rows, p=self.shares).astype(np.int32)
            response += np.append(0.0, table.theta[1 + table.numbers :])[levels]
            columns["group"] = levels
        return {**columns, "y": response + table.sigma * generator.standard_normal(self.rows)}


def table_of(cell: Cell) -> PoolTable:
    """The regression of a cell."""
    bounds = Bounds(-1, 1)
    y, x = Continuous("y", bounds), [Continuous(f"x{k}", bounds) for k in range(5)]
    if cell["covariates"] == "five numbers":
        return PoolTable(RegressionSchema(y, tuple(x)), np.array([0.05, 0.2, -0.15, 0.1, 0.1, -0.1]), SIGMA, 5)
    if cell["covariates"] == "a number and a factor":
        group = Factor("group", tuple(f"level{k}" for k in range(len(GROUPS))))
        return PoolTable(RegressionSchema(y, (x[0], group)), np.array([0.05, 0.4, 0.2, -0.1]), SIGMA, 1)
    if cell["covariates"] == "two numbers, strong":
        return PoolTable(RegressionSchema(y, tuple(x[:2])), np.array([0.05, 0.8, -0.6]), 0.05, 2)
    return PoolTable(RegressionSchema(y, tuple(x[:2])), np.array([0.05, 0.4, -0.3]), SIGMA, 2)


def parts_of(cell: Cell, table: PoolTable, generator: np.random.Generator) -> list[Part]:
    """The parts of one table of a cell, drawn anew where they are random."""
    rows = list(cell["rows"])
    return LAWS[cell["parts"]](rows, table.numbers, generator, float(cell["by"]))


Law = Callable[[list[int], int, np.random.Generator, float], list[Part]]


def _alike(rows: list[int], numbers: int, generator: np.random.Generator, by: float) -> list[Part]:
    return [Part(count, np.full(numbers, 0.1), np.full(numbers, by)) for count in rows]


def _means(rows: list[int], numbers: int, generator: np.random.Generator, by: float) -> list[Part]:
    """Means evenly from -by to by; with more than two parts, in another order for every other number.

    This keeps the response within its bounds.
    """
    places = np.linspace(-by, by, len(rows))
    other = places if len(places) == 2 else np.roll(places, len(places) // 2)
    means = np.stack([places if k % 2 == 0 else other for k in range(numbers)], axis=1)
    return [Part(count, own, np.full(numbers, 0.2)) for count, own in zip(rows, means, strict=True)]


def _spreads(rows: list[int], numbers: int, generator: np.random.Generator, by: float) -> list[Part]:
    sds = [0.3 * (1 - by), 0.3, 0.3, 0.3 * (1 + by)]
    return [Part(count, np.full(numbers, 0.1), np.full(numbers, sd)) for count, sd in zip(rows, sds, strict=True)]


def _random(rows: list[int], numbers: int, generator: np.random.Generator, by: float) -> list[Part]:
    """Random means and log standard deviations, both with a standard deviation of `by`."""
    means, logs = by * generator.standard_normal((2, len(rows), numbers))
    return [Part(count, mean, 0.25 * np.exp(log)) for count, mean, log in zip(rows, means, logs, strict=True)]


def _months(rows: list[int], numbers: int, generator: np.random.Generator, by: float) -> list[Part]:
    """The first number's mean moves by `by` each month."""
    starts = [by * (month - (len(rows) - 1) / 2) for month in range(len(rows))]
    means = [np.append(start, np.full(numbers - 1, 0.1)) for start in starts]
    return [Part(count, mean, np.full(numbers, 0.3)) for count, mean in zip(rows, means, strict=True)]


def _one_spreads(rows: list[int], numbers: int, generator: np.random.Generator, by: float) -> list[Part]:
    """One number's sds range from .08 to .5; other numbers' are equal."""
    sds = [np.append(sd, np.full(numbers - 1, by)) for sd in np.geomspace(0.08, 0.5, len(rows))]
    return [Part(count, np.full(numbers, 0.05), own) for count, own in zip(rows, sds, strict=True)]


def _skewed(rows: list[int], numbers: int, generator: np.random.Generator, by: float) -> list[Part]:
    """Means that differ by `by`, and sds that differ more; equal where it is 0."""
    means = by * np.linspace(-1, 1, len(rows))[:, None] * np.ones(numbers)
    sds = 0.25 * np.exp(by * np.linspace(-1, 1, len(rows)))[:, None] * np.ones(numbers)
    return [Part(count, mean, sd, skewed=True) for count, mean, sd in zip(rows, means, sds, strict=True)]


def _offices(rows: list[int], numbers: int, generator: np.random.Generator, by: float) -> list[Part]:
    """Different means and shares of levels."""
    means = np.linspace(-by, by, len(rows))[:, None] * np.ones(numbers)
    sds = np.full(numbers, 0.2)
    parts = zip(rows, means, UNALIKE, strict=True)
    return [Part(count, mean, sds, shares=shares) for count, mean, shares in parts]


LAWS: Mapping[str, Law] = {
    "alike": _alike,
    "means apart": _means,
    "spreads apart": _spreads,
    "means and spreads apart": _random,
    "months that move": _months,
    "spreads of one number apart": _one_spreads,
    "skewed": _skewed,
    "means and shares apart": _offices,
}
