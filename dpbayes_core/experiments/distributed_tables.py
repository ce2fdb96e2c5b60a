"""The data of the comparison of several holders' regressions: tables, holders' rows, releases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import gaussian_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.pool import Evidence, pooled
from dpbayes_core.regression.release import RegressionDesign
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.ridge.release import ridge_design
from dpbayes_core.ridge.sampler import ridge_estimate

EPSILON, DELTA = 1.0, 1e-7  # of our methods; as published delta is 1 / rows
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Table:
    """A regression's rows in its own units, split into training and test rows."""

    covariates: Floats
    response: Floats
    learnt: Integers
    tested: Integers

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], explained: str) -> "Table":
        """A table; a fifth of its rows, always the same, are test rows."""
        names = [name for name in columns if name != explained]
        x = np.column_stack([columns[name].astype(np.float64) for name in names])
        y = columns[explained].astype(np.float64)
        order, tested = np.random.default_rng(0).permutation(len(y)), round(TEST_SHARE * len(y))
        return cls(x, y, order[tested:], order[:tested])

    def encoded(self) -> Floats:
        """Training rows (x, y) in [-1, 1], scaled by the public table's ranges."""
        rows = np.column_stack([self.covariates, self.response])
        low, high = rows.min(axis=0), rows.max(axis=0)
        return (2 * rows - low - high) / (high - low)

    @property
    def height(self) -> float:
        """Half the range of the response: the unit of errors."""
        return float(self.response.max() - self.response.min()) / 2

    def error(self, theta: Floats) -> float:
        """Mean squared error of standardised coefficients on the test rows, in squared half widths."""
        rows = self.encoded()[self.tested]
        return float(np.mean((rows[:, -1] - theta[0] - rows[:, :-1] @ theta[1:]) ** 2))


def simulated(seed: int, rows: int, d: int = 4) -> dict[str, Floats]:
    """Correlated normal covariates, which explain four fifths of the response's variance."""
    generator = np.random.default_rng(seed)
    mixed = generator.standard_normal((rows, d)) @ (np.eye(d) + 0.3)
    y = mixed @ np.linspace(1.0, -1.0, d)
    return {**{f"x{i}": mixed[:, i] for i in range(d)}, "y": y + 0.5 * y.std() * generator.standard_normal(rows)}


def shares_of(table: Table, holders: int) -> list[Integers]:
    """The training rows, assigned to holders of equal size."""
    return np.array_split(table.learnt, holders)


def clipped_averages(rows: Floats, size: int) -> Floats:
    """Sums of `size` rows over sqrt(size), then clipped: one person changes one such row, within the bounds."""
    used = len(rows) // size * size
    return np.clip(rows[:used].reshape(-1, size, rows.shape[1]).sum(axis=1) / sqrt(size), -1.0, 1.0)


def evidence_of(parts: Sequence[Floats], d: int, seed: int) -> Evidence:
    """Releases of each holder's rows in [-1, 1], with the noise that the ledger would charge."""
    schema, releases = _unit_schema(d), []
    for place, rows in enumerate(parts):
        grid = grid_for(len(rows))
        noise = gaussian_for(regression_sensitivity(schema), grid=grid, epsilon=EPSILON, delta=DELTA)
        design = RegressionDesign(schema=schema, mechanism=noise)
        statistic = design.statistic()
        exact = statistic.sum(statistic.encode(_unit_columns(rows)))
        releases.append(design.release(_noise(seed, place), exact))
    return pooled(releases)


def ridge_theta(parts: Sequence[Floats], d: int, seed: int) -> Floats:
    """AdaSSP's estimate from its own releases at the same epsilon and delta."""
    schema, releases = _unit_schema(d), []
    for place, rows in enumerate(parts):
        design = ridge_design(schema, grid=grid_for(len(rows)), epsilon=EPSILON, delta=DELTA)
        statistic = design.statistic()
        releases.append(design.release(_noise(seed, place), statistic.sum(statistic.encode(_unit_columns(rows)))))
    return ridge_estimate(releases).theta


def _unit_schema(d: int) -> RegressionSchema:
    box = Bounds(-1.0, 1.0)
    return RegressionSchema(Continuous("y", box), tuple(Continuous(f"x{i}", box) for i in range(d)))


def _unit_columns(rows: Floats) -> dict[str, Floats]:
    return {**{f"x{i}": rows[:, i] for i in range(rows.shape[1] - 1)}, "y": rows[:, -1]}


def _noise(seed: int, place: int) -> SeededNoise:
    key = int(np.random.SeedSequence([seed, place]).generate_state(1, np.uint64)[0])
    return SeededNoise(key, i_know_this_is_not_private=True)
