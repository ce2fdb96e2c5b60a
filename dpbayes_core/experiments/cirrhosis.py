"""Bernstein and Sheldon's predictive check: cirrhosis by wine and liquor, 36 states for training and 10 to predict."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.experiments.interface import Box, Cell, Experiment, Figure, Panel, Row
from dpbayes_core.experiments.intervals import band
from dpbayes_core.privacy.mechanisms import laplace_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.moments import SecondMoments, grid_for, on_grid
from dpbayes_core.regression.prediction import forecast
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.sampling.posterior import Posterior

Columns = Mapping[str, Floats]

TABLE, SIMULATED = "cirrhosis", "simulated"
SCHEMA = RegressionSchema(
    Continuous("cirrhosis", Bounds(28.0, 129.9)),
    (Continuous("wine", Bounds(2.0, 31.0)), Continuous("liquor", Bounds(26.0, 97.0))),
)
STATES, LEARNT = 46, 36
EPSILONS = (0.01, 0.1, 1.0)
LEVELS = (0.5, 0.9)
SPLITS, QUICK_SPLITS = 100, 3
CHAINS, DRAWS = 2, 500
PRIOR_DRAWS = 20_000

Interval = tuple[Floats, Floats]


def cells(quick: bool) -> tuple[Cell, ...]:
    """Each epsilon, on the table of states and on simulated ones."""
    splits = QUICK_SPLITS if quick else SPLITS
    sources: tuple[dict[str, Any], ...] = ({"data": SIMULATED}, {"data": TABLE, "table": TABLE})
    return tuple({**source, "epsilon": epsilon, "data_sets": splits} for source in sources for epsilon in EPSILONS)


def run(cell: Cell, seed: int) -> list[Row]:
    """All methods on the same splits."""
    generator = np.random.Generator(np.random.Philox(seed))
    covered: dict[str, list[Floats]] = {}
    widths: dict[str, list[Floats]] = {}
    converged: dict[str, list[bool]] = {}
    for _ in range(cell["data_sets"]):
        table = _table(cell, generator)
        order = generator.permutation(STATES)
        learnt, predicted = (
            {name: values[part] for name, values in table.items()} for part in np.split(order, [LEARNT])
        )
        truths = predicted[SCHEMA.response.name]
        for method, intervals, good in _methods(learnt, predicted, float(cell["epsilon"]), generator):
            inside = [(low <= truths) & (truths <= high) for low, high in intervals]
            covered.setdefault(method, []).append(np.mean(inside, axis=1))
            spans = [np.median(high - low) / SCHEMA.response.bounds.width for low, high in intervals]
            widths.setdefault(method, []).append(np.array(spans))
            converged.setdefault(method, []).append(good)
    return [
        row for method in covered for row in _rows(cell, method, covered[method], widths[method], converged[method])
    ]


def _table(cell: Cell, generator: np.random.Generator) -> Columns:
    """The states' columns, or columns simulated from the model."""
    if cell["data"] == SIMULATED:
        wine, liquor = np.clip(generator.normal([12.0, 57.0], [7.0, 18.0], (STATES, 2)), [2.0, 26.0], [31.0, 97.0]).T
        response = 0.25 + 1.9 * wine + 0.65 * liquor + generator.normal(0.0, 10.0, STATES)
        return {"wine": wine, "liquor": liquor, "cirrhosis": np.clip(response, 28.0, 129.9)}
    if "columns" not in cell:
        raise ValueError("cannot run a cell on a public table: its columns are not there. Put them into the cell.")
    return cell["columns"]


def _methods(
    learnt: Columns, predicted: Columns, epsilon: float, generator: np.random.Generator
) -> Iterator[tuple[str, list[Interval], bool]]:
    """Predictive intervals at each level by each method, and whether its chains converged."""
    from dpbayes_core.samplers.driver import sample

    release, exact = _release(learnt, epsilon, generator)
    asked: dict[str, Any] = {"chains": CHAINS, "draws": DRAWS, "seed": int(generator.integers(2**53))}
    drawn: dict[str, Posterior] = {
        "noise-aware": sample(release, Prior(), sampler="collapsed", **asked),
        "naive": sample(release, Prior(), sampler="naive", **asked),
        "without privacy": sample(exact, Prior(), sampler="naive", **asked),
    }
    for method, posterior in drawn.items():
        yield method, _intervals(posterior.draws, predicted), posterior.converged
    yield "prior", _intervals(Prior().draws(SCHEMA, PRIOR_DRAWS, generator), predicted), True


def _release(columns: Columns, epsilon: float, generator: np.random.Generator) -> tuple[Release, Release]:
    """A release of the training rows, and the same without noise."""
    grid, sensitivity = grid_for(LEARNT), regression_sensitivity(SCHEMA)
    mechanism = laplace_for(sensitivity, epsilon=epsilon, grid=grid, entries=len(sensitivity.weights))
    design = RegressionDesign(schema=SCHEMA, mechanism=mechanism)
    statistic = SecondMoments(design.schema)
    sums = statistic.sum(statistic.encode(columns))
    noise = SeededNoise(int(generator.integers(2**31)), i_know_this_is_not_private=True)
    exact = Release(
        schema=SCHEMA,
        neighbours=design.neighbours,
        rows=LEARNT,
        mechanism=mechanism,
        values=tuple(on_grid(sums, mechanism.grid).tolist()),
    )
    return design.release(noise, sums), exact


def _intervals(draws: Mapping[str, Floats], predicted: Columns) -> list[Interval]:
    tails = [end for level in LEVELS for end in ((1 - level) / 2, (1 + level) / 2)]
    ends = forecast(draws, SCHEMA, predicted, tails).quantiles
    return [(ends[:, 2 * place], ends[:, 2 * place + 1]) for place in range(len(LEVELS))]


def _rows(
    cell: Cell, method: str, covered: Sequence[Floats], widths: Sequence[Floats], converged: Sequence[bool]
) -> Iterator[Row]:
    for place, level in enumerate(LEVELS):
        shares = np.array(
            [each[place] for each in covered]
        )  # one share for each split: its predictions depend on each other
        floor = 0.5 / shares.size  # so that no error is shown as 0
        yield {
            "data": cell["data"],
            "epsilon": cell["epsilon"],
            "splits": cell["data_sets"],
            "method": method,
            "level": level,
            "coverage": float(shares.mean()),
            "standard_error": max(float(shares.std(ddof=1)) / math.sqrt(shares.size), floor),
            "width": float(np.median([each[place] for each in widths])),
            "converged": float(np.mean(converged)),
        }


def figures(rows: Sequence[Row]) -> tuple[Figure, ...]:
    """Coverage by method, a panel an epsilon; a figure for each table and level."""
    found: list[Figure] = []
    for data in dict.fromkeys(row["data"] for row in rows):
        for level in LEVELS:
            chosen = [row for row in rows if (row["data"], row["level"]) == (data, level)]
            panels = [
                Panel(f"epsilon = {epsilon:g}", tuple(_box(row) for row in chosen if row["epsilon"] == epsilon))
                for epsilon in sorted({float(row["epsilon"]) for row in chosen})
            ]
            found.append(_figure(str(data), level, tuple(panels)))
    return tuple(found)


def _figure(data: str, level: float, panels: tuple[Panel, ...]) -> Figure:
    return Figure(
        name=f"{data}-{100 * level:g}",
        title=f"Coverage of {100 * level:g}% predictive intervals: {data}",
        words="Share of predicted states inside their interval, with its Monte Carlo error; a dot marks the nominal.",
        axis="coverage",
        limits=(0.0, 1.0),
        panels=panels,
    )


def _box(row: Row) -> Box:
    return Box(str(row["method"]), band(row["coverage"], row["standard_error"]), row["level"])


EXPERIMENT = Experiment(
    name="cirrhosis",
    title="Predictive coverage: cirrhosis by wine and liquor, 36 states learnt from, 10 predicted",
    columns=("data", "epsilon", "splits", "method", "level", "coverage", "standard_error", "width", "converged"),
    cells=cells,
    run=run,
    figures=figures,
    notes=(
        "Random splits of 46 states; Laplace noise of a pure epsilon on the second moments of the 36; the default "
        "prior; 2 chains of 500 draws, more where the gate asks for them. Standard errors are over splits.",
        "width: the median interval, as a share of the response's bounds. prior is the prior predictive interval, "
        "without privacy the conjugate posterior of the exact sums, naive that of the noisy ones.",
        "Bounds are the ranges of the public table, as published experiments on it have them; for a confidential one "
        "they would have to be known beforehand. simulated: 46 rows from a regression, new ones for each split.",
    ),
)
