"""Coverage of 95% intervals of a pool, with parts that differ and with parts that do not."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from dpbayes_core.experiments.interface import Box, Cell, Experiment, Figure, Panel, Row
from dpbayes_core.experiments.intervals import Fit, band, coverage_rows, fit_of, relative
from dpbayes_core.experiments.pool_tables import Part, PoolTable, parts_of, table_of
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.privacy.sensitivity import ADD_REMOVE, REPLACE_ONE
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.parts_alike import parts_check
from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity, released_entries

DELTA = 1e-6
DATA_SETS, QUICK_DATA_SETS = 60, 2
COMPARED, SLOW_COMPARED = 20, 4  # tables that are also analysed as alike; fewer where that takes minutes
CHAINS, DRAWS, QUICK_DRAWS = 4, 1000, 250
DIFFER, ALIKE = "may differ", "alike"
PRIOR = IndependentPrior()
UNEQUAL = (300, 1000, 3000, 6000)


def _cell(parts: str, rows: Sequence[int], epsilon: float, by: float, **more: Any) -> Cell:
    usual = {"covariates": "two numbers", "mechanism": "gaussian", "neighbours": REPLACE_ONE, "compared": COMPARED}
    return {"parts": parts, "by": by, "rows": tuple(rows), "epsilon": epsilon, **usual, **more}


def cells(quick: bool) -> tuple[Cell, ...]:
    """Cells of parts that differ in one respect, of equal parts, of few and many, with little and much noise."""
    apart, factor = "means apart", {"covariates": "a number and a factor"}
    found = [
        _cell(apart, [10_000] * 4, 1.0, 0.6),
        _cell("alike", [10_000] * 4, 1.0, 0.3),
        _cell(apart, [100_000] * 4, 1.0, 0.6),
        _cell(apart, [20_000] * 4, 1.0, 0.3),
        _cell(apart, [100_000] * 4, 1.0, 0.3),
        _cell("spreads apart", [100_000] * 4, 1.0, 1 / 3),
        _cell(apart, UNEQUAL, 1.0, 0.6),
        _cell(apart, [10_000] * 2, 1.0, 0.6),
        _cell("alike", [10_000] * 4, 0.3, 0.3),
        _cell("alike", [2000] * 2, 0.3, 0.3),
        _cell("months that move", [20_000] * 12, 1.0, 0.02),
        _cell("months that move", [2000] * 12, 0.3, 0.02),
        _cell("spreads of one number apart", [2000] * 12, 0.3, 0.35),
        _cell("skewed", [10_000] * 4, 1.0, 0.4),
        _cell("skewed", [10_000] * 4, 1.0, 0.0),
        _cell("means and shares apart", [10_000] * 4, 1.0, 0.5, **factor),
        _cell("alike", [10_000] * 4, 1.0, 0.3, **factor),
        _cell(apart, [10_000] * 4, 1.0, 0.4, covariates="five numbers"),
        _cell(apart, [10_000] * 4, 1.0, 0.3, covariates="two numbers, strong"),
        _cell(apart, [10_000] * 4, 1.0, 0.6, mechanism="laplace", compared=SLOW_COMPARED),
        _cell("alike", [10_000] * 4, 1.0, 0.3, mechanism="laplace"),
        _cell(apart, [10_000] * 4, 1.0, 0.6, neighbours=ADD_REMOVE),
        _cell("means and spreads apart", [5000, *[20] * 8], 1.0, 0.25),
        _cell("alike", [1000] * 20, 0.1, 0.3),
        _cell("means and spreads apart", [1000] * 20, 0.1, 0.25),
    ]
    count = QUICK_DATA_SETS if quick else DATA_SETS
    return tuple({**cell, "data_sets": count, "quick": quick} for cell in (found[:2] if quick else found))


def run(cell: Cell, seed: int) -> list[Row]:
    """Both analyses, with parts that may differ and with parts alike, on the same tables."""
    table, generator = table_of(cell), np.random.Generator(np.random.Philox(seed))
    found: dict[str, list[Fit]] = {DIFFER: [], ALIKE: []}
    gradients: dict[str, list[int]] = {DIFFER: [], ALIKE: []}
    alarms = 0
    for number in range(cell["data_sets"]):
        parts = tuple(_release(table, cell, part, generator) for part in parts_of(cell, table, generator))
        phrase, own = parts_check(parts), int(generator.integers(2**53))
        alarms += phrase is not None and phrase.alarm
        for method in (DIFFER, ALIKE)[: 2 if number < cell["compared"] else 1]:
            fit, work = _posterior(Pool(parts, alike=method == ALIKE), cell, own)
            found[method].append(fit)
            gradients[method].append(work)
    compared = relative(found[DIFFER][: len(found[ALIKE])], found[ALIKE], table.truths)
    return [
        {
            "experiment": "pools",
            **{key: cell[key] for key in ("parts", "by", "covariates", "mechanism", "neighbours", "epsilon")},
            "rows": _rows(cell["rows"]),
            "method": method,
            **row,
            "alarm": alarms / cell["data_sets"],
            "gradients": float(np.mean(gradients[method])),
        }
        for method in found
        for row in coverage_rows(found[method], table.truths, compared if method == DIFFER else None)
    ]


def _release(table: PoolTable, cell: Cell, part: Part, generator: np.random.Generator) -> Release:
    mechanism = _mechanism(table.schema, cell, part.rows)
    design = RegressionDesign(schema=table.schema, mechanism=mechanism, neighbours=cell["neighbours"])
    statistic = design.statistic()
    sums = statistic.sum(statistic.encode(part.columns(table, generator)))
    return design.release(SeededNoise(int(generator.integers(2**31)), i_know_this_is_not_private=True), sums)


def _mechanism(schema: RegressionSchema, cell: Cell, rows: int) -> Mechanism:
    sensitivity, grid = regression_sensitivity(schema, cell["neighbours"]), grid_for(rows)
    if cell["mechanism"] == "laplace":
        entries = len(released_entries(schema, cell["neighbours"], 1))
        return laplace_for(sensitivity, epsilon=cell["epsilon"], grid=grid, entries=entries)
    return gaussian_for(sensitivity, grid=grid, epsilon=cell["epsilon"], delta=DELTA)


def _posterior(pool: Pool, cell: Cell, seed: int) -> tuple[Fit, int]:
    """Intervals from the default sampler, and the number of gradients of all chains."""
    from dpbayes_core.samplers.driver import sample

    draws = QUICK_DRAWS if cell["quick"] else DRAWS
    posterior = sample(cast(Any, pool), PRIOR, sampler="collapsed", chains=CHAINS, draws=draws, seed=seed)
    return fit_of(posterior), posterior.gradients


def _rows(rows: Sequence[int]) -> str:
    """Numbers of rows as a phrase."""
    runs: list[list[int]] = []
    for count in rows:
        if runs and runs[-1][1] == count:
            runs[-1][0] += 1
        else:
            runs.append([1, count])
    return " and ".join(f"{times} x {count:,}" if times > 1 else f"{count:,}" for times, count in runs)


def figures(rows: Sequence[Row]) -> tuple[Figure, ...]:
    """Coverage of the slopes, analysed in both ways."""
    chosen = [row for row in rows if row["parameter"] == "slopes"]
    panels = [
        Panel(
            method,
            tuple(
                Box(f"{row['parts']} {row['rows']}", band(row["coverage"], row["standard_error"]), 0.95)
                for row in chosen
                if row["method"] == method
            ),
        )
        for method in (DIFFER, ALIKE)
    ]
    return (
        Figure(
            name="pools-slopes",
            title="Coverage of 95% intervals of slopes, of several releases read as one",
            words="Share of tables whose interval holds the truth, with its Monte Carlo error; a dot marks 0.95.",
            axis="coverage",
            limits=(0.0, 1.0),
            panels=tuple(panels),
        ),
    )


EXPERIMENT = Experiment(
    name="pools",
    title="Coverage of 95% intervals where several releases are analysed as one",
    columns=(
        *("experiment", "parts", "by", "covariates", "mechanism", "neighbours", "rows", "epsilon"),
        *("data_sets", "method", "parameter", "coverage", "standard_error", "worst", "width"),
        *("relative_score", "relative_width", "not_converged", "alarm", "gradients"),
    ),
    cells=cells,
    run=run,
    figures=figures,
    notes=(
        "parts is in what they differ, and by how much in half widths of the bounds; delta 1e-6 for each release.",
        "may differ is what a study gets that says nothing; alike is `alike: true` under the same prior, law: "
        f"independent, on the first {COMPARED} tables, or {SLOW_COMPARED}. 4 chains of 1,000 draws, doubled as in any "
        "analysis, counted whether or not they converged.",
        "Standard errors take the parameters of one table together; worst is the parameter that was held least. "
        "relative_score and relative_width are mean interval score and width over those of alike on the same tables.",
        "alarm is the share of tables in which the released numbers speak against a random split; gradients are those "
        "of all chains of an analysis, warm-up and second attempts included.",
    ),
)
