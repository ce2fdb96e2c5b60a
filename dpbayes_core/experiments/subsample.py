"""Amitai and Reiter's repeated sampling study: probabilities and quantiles of a slope, as published and as here."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.experiments.interface import Box, Cell, Experiment, Figure, Panel, Row
from dpbayes_core.experiments.metrics import coverage, root_mean_square
from dpbayes_core.experiments.subsample_quantiles import quantile_rows
from dpbayes_core.subsample.aggregates import fisher_points, fisher_references, rescaled_normal, zeta_law
from dpbayes_core.subsample.answers import probabilities
from dpbayes_core.subsample.fits import DEFAULT_PRIOR, OpenPrior, Powers, subset_laws
from dpbayes_core.subsample.refusals import unresolvable
from dpbayes_core.subsample.simulation import THRESHOLDS, pooled, simulated

LEAST = 0.001  # p*
LEVELS = (0.9, 0.95)
MIDDLE = 4  # the threshold that is the true slope: there p is uniform over data sets
PERCENTS = (5, 25, 50, 75, 95)


@dataclass(frozen=True)
class Replication:
    """Simulated data sets: the whole table's answers, and the subsets' under two priors, (data sets, thresholds)."""

    truths: Floats
    means: dict[str, Floats]  # mean probability, by prior
    logs: dict[str, Floats]  # mean of log max(p, p*) / log p*, by prior


def replicate(cell: Cell, generator: np.random.Generator) -> Replication:
    """Simulate and fit; `published` is Zellner's prior with g = n_j in every subset, `ours` has g = n."""
    rows, subsets = int(cell["rows"]), int(cell["subsets"])
    priors = {"published": OpenPrior(g=rows / subsets), "ours": DEFAULT_PRIOR}
    shape = (int(cell["data_sets"]), len(THRESHOLDS))
    truths = np.empty(shape)
    means, logs = ({name: np.empty(shape) for name in priors} for _ in range(2))
    for repetition in range(shape[0]):
        data = simulated(generator, rows=rows, subsets=subsets)
        whole = subset_laws(pooled(data), DEFAULT_PRIOR, Powers.of_probabilities(1), rows)
        for name, prior in priors.items():
            laws = subset_laws(data, prior, Powers.of_probabilities(subsets), rows)
            for place, threshold in enumerate(THRESHOLDS):
                answers = probabilities(laws, 1, threshold, prior)
                means[name][repetition, place] = answers.mean()
                logs[name][repetition, place] = np.minimum(
                    np.log(np.maximum(answers, LEAST)) / math.log(LEAST), 1
                ).mean()
        for place, threshold in enumerate(THRESHOLDS):
            truths[repetition, place] = probabilities(whole, 1, threshold, DEFAULT_PRIOR)[0]
    return Replication(truths, means, logs)


@dataclass(frozen=True)
class _Method:
    """An estimator from subsets' answers, and its actual epsilon for one query."""

    name: str
    spends: Callable[[float, int], float]
    estimate: Callable[[Replication, float, int, np.random.Generator], Floats]


def _rescaled(
    made: Replication, prior: str, *, scale: float, factor: float, by: tuple[int, np.random.Generator]
) -> Floats:
    noise = by[1].laplace(0.0, scale, made.truths.shape) if scale > 0 else 0.0
    return rescaled_normal(made.means[prior] + noise, by[0], factor=factor)


def _fisher(made: Replication, prior: str, *, scale: float, by: tuple[int, np.random.Generator]) -> Floats:
    noisy = made.logs[prior] + by[1].laplace(0.0, scale, made.truths.shape)
    seed = int(by[1].integers(2**31))
    return fisher_points(noisy, fisher_references(by[0], least=LEAST, noise_scale=scale, seed=seed))


METHODS = (
    _Method("no noise, published form", lambda e, m: math.inf,
            lambda r, e, m, g: _rescaled(r, "published", scale=0.0, factor=1.0, by=(m, g))),
    _Method("rescaled-normal, published form", lambda e, m: e,
            lambda r, e, m, g: _rescaled(r, "published", scale=1 / (m * e), factor=1.0, by=(m, g))),
    _Method("fisher, published form", lambda e, m: e,
            lambda r, e, m, g: _fisher(r, "published", scale=1 / (m * e), by=(m, g))),
    _Method("rescaled-normal as-published", lambda e, m: 1 / e,
            lambda r, e, m, g: _rescaled(r, "published", scale=e / m, factor=1.0, by=(m, g))),
    _Method("fisher as-published", lambda e, m: m * e,
            lambda r, e, m, g: _fisher(r, "published", scale=1 / (m * m * e), by=(m, g))),
    _Method("rescaled-normal", lambda e, m: e,
            lambda r, e, m, g: _rescaled(r, "ours", scale=1 / (m * e), factor=2.0, by=(m, g))),
    _Method("fisher", lambda e, m: e,
            lambda r, e, m, g: _fisher(r, "ours", scale=1 / (m * e), by=(m, g))),
)  # fmt: skip


def run(cell: Cell, seed: int) -> list[Row]:
    """All methods on the same simulated data sets."""
    generator = np.random.Generator(np.random.Philox(seed))
    if cell["query"] == "quantile":
        return quantile_rows(cell, generator)
    made = replicate(cell, generator)
    epsilon, subsets = float(cell["epsilon"]), int(cell["subsets"])
    rows = [
        _row(
            cell, made, method.name, method.spends(epsilon, subsets), method.estimate(made, epsilon, subsets, generator)
        )
        for method in METHODS
    ]
    return [*rows, _aware(cell, made, generator)]


def _aware(cell: Cell, made: Replication, generator: np.random.Generator) -> Row:
    """The row of the noise-aware method: posterior means, coverage of intervals, whether terms were unresolvable."""
    epsilon, subsets = float(cell["epsilon"]), int(cell["subsets"])
    noisy = made.means["ours"] + generator.laplace(0.0, 1 / (subsets * epsilon), made.truths.shape)
    laws = [zeta_law(value, 1 / (subsets * epsilon), subsets) for value in noisy.ravel().tolist()]
    estimates = np.array([law.mean() for law in laws]).reshape(noisy.shape)
    row = dict(_row(cell, made, "noise-aware", epsilon, estimates))
    for level in LEVELS:
        ends = np.array([law.interval(level) for law in laws])
        middle = ends.reshape(*noisy.shape, 2)[:, MIDDLE]
        row[f"covers_{round(100 * level)}"] = coverage(middle[:, 0], middle[:, 1], made.truths[:, MIDDLE])[0]
        row[f"covers_{round(100 * level)}_anywhere"] = coverage(ends[:, 0], ends[:, 1], made.truths.ravel())[0]
    row["unresolvable"] = unresolvable(subsets=subsets, epsilon=epsilon)
    return row


def _row(cell: Cell, made: Replication, method: str, spends: float, estimates: Floats) -> Row:
    error, margin = root_mean_square(estimates - made.truths)
    boxes = np.percentile(estimates, PERCENTS, axis=0).T
    return {
        **{key: cell[key] for key in ("query", "rows", "subsets", "epsilon")},
        "method": method,
        "spends": None if math.isinf(spends) else spends,
        "rmse": error,
        "rmse_error": margin,
        "rmse_uniform": root_mean_square(estimates[:, MIDDLE] - made.truths[:, MIDDLE])[0],
        "boxes": [[float(x) for x in box] for box in boxes],
        "truths": np.median(made.truths, axis=0).tolist(),
    }


def cells(quick: bool) -> tuple[Cell, ...]:
    """Rows x subsets x epsilon for probabilities, then three quantile settings."""
    sizes = [(10**5, 40), (10**6, 40)] if quick else [(10**5, 400), (10**6, 400)]
    found: list[Cell] = [
        {"query": "probability", "rows": rows, "subsets": subsets, "epsilon": epsilon, "data_sets": sets}
        for rows, sets in sizes
        for subsets in (10, 50, 100)
        for epsilon in (0.1, 1.0)
    ]
    sets = 20 if quick else 200
    for subsets, epsilon in ((100, 1.0), (1000, 0.1), (1000, 1.0)):
        found.append({"query": "quantile", "rows": 10**5, "subsets": subsets, "epsilon": epsilon, "data_sets": sets})
    return tuple(found)


SHOWN = ("rescaled-normal, published form", "fisher, published form", "noise-aware")


def figures(rows: Sequence[Row]) -> tuple[Figure, ...]:
    """For each method, size and epsilon: estimates over the thresholds, one panel for each number of subsets."""
    asked = [row for row in rows if row["query"] == "probability"]
    found: list[Figure] = []
    for size in sorted({row["rows"] for row in asked}):
        for method in SHOWN:
            for epsilon in sorted({row["epsilon"] for row in asked}):
                chosen = [r for r in asked if (r["rows"], r["method"], r["epsilon"]) == (size, method, epsilon)]
                found.append(_figure(size, method, epsilon, sorted(chosen, key=lambda row: row["subsets"])))
    return tuple(found)


def _figure(size: int, method: str, epsilon: float, rows: Sequence[Row]) -> Figure:
    panels = tuple(Panel(f"M = {row['subsets']}, RMSE {row['rmse']:.3f}", _boxes(row)) for row in rows)
    return Figure(
        name=f"{method.replace(', ', '-').replace(' ', '-')}-n{size}-epsilon{epsilon:g}",
        title=f"{method}: n = {size:,}, epsilon = {epsilon:g}",
        words="Estimates of P(slope <= b) over data sets, by b; a dot marks the whole table's median answer.",
        axis="P(slope <= b)",
        limits=(0.0, 1.0),
        panels=panels,
    )


def _boxes(row: Row) -> tuple[Box, ...]:
    triples = zip(THRESHOLDS, cast("list[Any]", row["boxes"]), cast("list[float]", row["truths"]), strict=True)
    return tuple(Box(f"{threshold:g}", tuple(box), truth) for threshold, box, truth in triples)


COLUMNS = (
    "query",
    "rows",
    "subsets",
    "epsilon",
    "method",
    "spends",
    "rmse",
    "rmse_error",
    "rmse_uniform",
    "covers_90",
    "covers_95",
    "unresolvable",
)
NOTES = (
    "y = 1 + 2 x + e with x, e ~ N(0, 1); P(slope <= b) at nine b from 1.989 to 2.010. Fisher's p* = 0.001 and the "
    "seven b between are our choice.",
    "rmse_uniform and covers are at b = 2, the true slope: p is uniform over data sets there, as the method assumes.",
    "Published: Laplace scale epsilon/M protects at epsilon. Found: it spends 1/epsilon; 1/(M epsilon) is needed.",
    "Published: -2 log p*/(M epsilon) protects Fisher's sum, which then works at epsilon 0.1. Found: it spends "
    "M epsilon; at a true 0.1 its error is that of answering a half.",
    "Published: Phi(sqrt(M) Phi^-1(mean)). Found: attenuated by sqrt 2, for subsets scatter: sqrt(2 M).",
    "Published: g = n_j in the subsets. Found: the prior to the power 1/M is g = n, without its bias.",
    "Published: clipped means of quantiles between noisy bounds. Found: errors of hundreds of posterior standard "
    "deviations; quantile errors here are in such deviations.",
)

EXPERIMENT = Experiment(
    name="subsample",
    title="Posterior probabilities and quantiles by subsample and aggregate",
    columns=COLUMNS,
    cells=cells,
    run=run,
    figures=figures,
    notes=NOTES,
)
