"""How often intervals cover coefficients where residuals grow with a covariate: `make tables ROBUST="CELL..."`.

A cell is ROWS,EPSILON,LAW,SPREAD,TABLES such as 200000,3,gaussian,grows,80; docs/coverage.md has what it printed.
Every table is released twice at the same loss, with and without `robust: true`, and each release is analysed as a study
that states no prior is, with 4 chains of 500 draws.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import gaussian_for, laplace_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.release import RegressionDesign
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.regression.sensitivity.residual import residual_sensitivity
from dpbayes_core.samplers.driver import sample

SCHEMA = RegressionSchema(
    Continuous("y", Bounds(0, 5)),
    (Continuous("age", Bounds(16, 80)), Factor("sex", ("f", "m")), Factor("region", ("n", "s", "e", "w"))),
)
TRUTH = np.array([0.9, 0.015, 0.2, 0.1, -0.1, 0.05])
AGE = 1  # its place among the coefficients
DELTA, SHARE, DRAWS, SEED = 1e-6, 0.1, 500, 20261120


@dataclass(frozen=True)
class Cell:
    """A law of simulated tables, and how they are released."""

    rows: int
    epsilon: float
    law: str = "gaussian"
    spread: str = "grows"  # or equal
    tables: int = 60

    @classmethod
    def read(cls, text: str) -> "Cell":
        """From the words of the command."""
        rows, epsilon, law, spread, tables = text.split(",")
        return cls(int(rows), float(epsilon), law, spread, int(tables))


@dataclass(frozen=True)
class Coverage:
    """Whether one sampler's intervals contain the truth, and their widths, (tables, coefficients)."""

    covered: Floats
    widths: Floats


def columns(cell: Cell, generator: np.random.Generator) -> dict[str, Any]:
    """More young people than old, whose residuals grow threefold every 23 years, or not."""
    count = cell.rows
    share, sex, region = generator.beta(2, 3, count), generator.integers(0, 2, count), generator.integers(0, 4, count)
    rows = np.column_stack([np.ones(count), 16 + 64 * share, sex, *(region == level for level in (1, 2, 3))])
    spread = 0.05 * np.exp(3 * share) if cell.spread == "grows" else 0.2
    return {
        "y": rows @ TRUTH + spread * generator.standard_normal(count),
        "age": rows[:, AGE],
        "sex": sex,
        "region": region,
    }


def designs(cell: Cell) -> dict[str, RegressionDesign]:
    """The robust and the plain release, at the same loss."""
    first, second = regression_sensitivity(SCHEMA), residual_sensitivity(SCHEMA, "replace-one", 1)
    grid = grid_for(cell.rows)
    if cell.law == "laplace":
        whole, own = (
            laplace_for(one, epsilon=epsilon, grid=grid, entries=len(one.weights))
            for one, epsilon in ((first, cell.epsilon), (second, cell.epsilon * SHARE))
        )
        shared: Any = replace(whole, epsilon=cell.epsilon * (1 - SHARE), beside=own)
        return _both(whole, shared)
    whole = gaussian_for(first, grid=grid, epsilon=cell.epsilon, delta=DELTA)
    own = gaussian_for(second, grid=grid, rho=whole.rho * SHARE)
    return _both(whole, replace(whole, rho=whole.rho * (1 - SHARE), beside=own))


def _both(whole: Any, shared: Any) -> dict[str, RegressionDesign]:
    return {
        "robust": RegressionDesign(schema=SCHEMA, mechanism=shared, besides="residuals"),
        "collapsed": RegressionDesign(schema=SCHEMA, mechanism=whole),
    }


def measure(cell: Cell) -> dict[str, Coverage]:
    """Coverage by the intervals of both samplers, on the same tables."""
    generator, made = np.random.default_rng(SEED), designs(cell)
    found: dict[str, list[Floats]] = {name: [] for name in made}
    for _ in range(cell.tables):
        table = columns(cell, generator)
        for name, design in made.items():
            statistic, seed = design.statistic(), int(generator.integers(2**31))
            exact = statistic.sum(statistic.encode(table))
            release = design.release(SeededNoise(seed, i_know_this_is_not_private=True), exact)
            posterior = sample(release, IndependentPrior(), sampler=name, draws=DRAWS, seed=seed)
            values = np.stack([np.ravel(posterior.draws[each]) for each in SCHEMA.coefficients])
            found[name].append(np.quantile(values, (0.025, 0.975), axis=1))
    ends = {name: np.array(each) for name, each in found.items()}
    return {
        name: Coverage((low <= TRUTH) & (high >= TRUTH), high - low)
        for name, (low, high) in ((name, (each[:, 0], each[:, 1])) for name, each in ends.items())
    }


def row_of(cell: Cell, found: dict[str, Coverage]) -> str:
    """A row of the table in docs/coverage.md."""
    ratio = np.median(found["robust"].widths, axis=0) / np.median(found["collapsed"].widths, axis=0)
    shares = [
        f"{one.mean():.3f} ± {max(float(one.std()), 0.1) / sqrt(cell.tables):.3f}"
        for name in ("robust", "collapsed")
        for one in (found[name].covered[:, AGE], found[name].covered[:, AGE + 1 :].mean(axis=1))
    ]
    about = (f"{cell.rows:,}", f"{cell.epsilon:g}", cell.law, cell.spread, str(cell.tables))
    return f"| {' | '.join((*about, *shares, f'{ratio[AGE]:.2f}', f'{ratio.max():.2f}'))} |"


def main(cells: Sequence[str]) -> None:
    """Measure and print cell by cell."""
    for words in cells:
        print(row_of(Cell.read(words), measure(Cell.read(words))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
