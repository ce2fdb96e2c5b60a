"""The posterior median of a slope by each method, its error in posterior standard deviations."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.experiments.interface import Cell, Row
from dpbayes_core.experiments.metrics import coverage, root_mean_square
from dpbayes_core.privacy.mechanisms.exponential import MedianLottery
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.rounding import meant
from dpbayes_core.subsample.answers import quantiles
from dpbayes_core.subsample.fits import DEFAULT_PRIOR, Powers, subset_laws
from dpbayes_core.subsample.moments import SubsetScatters
from dpbayes_core.subsample.quantile import POINTS, QuantileRelease, QuantileTerms, quantile_design
from dpbayes_core.subsample.quantile_laws import centre_scale_law
from dpbayes_core.subsample.schema import OpenSchema, Unbounded
from dpbayes_core.subsample.simulation import SLOPE, pooled, simulated

OUTER = (-100.0, 100.0)
TWO_SIDED_95 = 1.959963984540054


def terms_of(cell: Cell, method: str) -> QuantileTerms:
    """The median of the slope, under wide outer bounds."""
    return QuantileTerms(
        schema=OpenSchema("y", (Unbounded("x"),)),
        coefficient="x",
        probabilities=(0.5,),
        outer=OUTER,
        subsets=int(cell["subsets"]),
        rows=int(cell["rows"]),
        method=method,  # pyright: ignore[reportArgumentType] -- one of two literals below
    )


def quantile_rows(cell: Cell, generator: np.random.Generator) -> list[Row]:
    """Every method on the same data sets; noise is seeded, since the data are simulated."""
    noise = SeededNoise(int(generator.integers(2**62)), i_know_this_is_not_private=True)
    errors: dict[str, list[float]] = {"median": [], "centre-scale": [], "clipped mean as-published (our reading)": []}
    ends: list[tuple[float, float]] = []
    for _ in range(int(cell["data_sets"])):
        data = simulated(generator, rows=int(cell["rows"]), subsets=int(cell["subsets"]))
        whole = subset_laws(pooled(data), DEFAULT_PRIOR, Powers.of_quantiles(1), int(cell["rows"]))
        truth, spread = float(whole.locations[0, 1]), float(whole.scales[0, 1])
        for method in ("median", "centre-scale"):
            release = _released(cell, method, data, noise)
            errors[method].append((float(release.estimates()[0]) - truth) / spread)
            if method == "centre-scale":
                law = centre_scale_law(release)
                ends.append((law.centre - TWO_SIDED_95 * law.widened, law.centre + TWO_SIDED_95 * law.widened))
        published = _published(cell, data, (noise, generator))
        errors["clipped mean as-published (our reading)"].append((published - truth) / spread)
    low, high = np.array(ends).T
    covered = coverage(low, high, np.full(len(ends), SLOPE))[0]
    return [
        _row(cell, name, np.array(found), covered if name == "centre-scale" else None) for name, found in errors.items()
    ]


def _released(cell: Cell, method: str, data: SubsetScatters, noise: SeededNoise) -> QuantileRelease:
    design = quantile_design(terms_of(cell, method), epsilon=float(cell["epsilon"]))
    drawn = design.mechanism.release(noise, design.answers_of(data))
    return QuantileRelease(terms=design.terms, mechanism=design.mechanism, values=tuple(drawn.tolist()))


def _published(cell: Cell, data: SubsetScatters, by: tuple[SeededNoise, np.random.Generator]) -> float:
    """The published mean, clipped at a private maximum: half of epsilon each for the maximum and the mean."""
    terms, epsilon = terms_of(cell, "median"), float(cell["epsilon"])
    laws = subset_laws(data, terms.prior, Powers.of_quantiles(terms.subsets), terms.rows)
    middles = quantiles(laws, 1, 0.5, terms.prior, outer=OUTER)
    sizes = np.rint(np.abs(middles) / OUTER[1] * (POINTS - 1)).astype(np.int64)
    # the maximum is the median after adding the same number of values at the far end
    padded = np.concatenate([sizes, np.full(len(sizes), POINTS - 1)])
    bound = MedianLottery(meant(epsilon / 2), POINTS).draw(by[0], padded) / (POINTS - 1) * OUTER[1]
    clipped = np.clip(middles, -bound, bound).mean()
    return float(clipped + by[1].laplace(0.0, 2 * bound / (terms.subsets * epsilon / 2)))


def _row(cell: Cell, method: str, errors: Floats, covered: float | None) -> Row:
    error, margin = root_mean_square(errors)
    row: Mapping[str, Any] = {
        **{key: cell[key] for key in ("query", "rows", "subsets", "epsilon")},
        "method": method,
        "spends": float(cell["epsilon"]),
        "rmse": error,
        "rmse_error": margin,
    }
    return row if covered is None or not math.isfinite(covered) else {**row, "covers_95": covered}
