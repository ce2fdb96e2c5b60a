"""Coverage of 95% intervals at fixed truths: strong relations, wide bounds, collinear and skewed columns, clipping."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.experiments.coverage_cells import cells, name_of
from dpbayes_core.experiments.coverage_tables import Table, table_of
from dpbayes_core.experiments.interface import Box, Cell, Experiment, Figure, Panel, Row
from dpbayes_core.experiments.intervals import TAIL, Fit, band, coverage_rows, fit_of, relative
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.expected_prior import expected_prior
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.moments import SecondMoments, grid_for, on_grid
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity

DELTA = 1e-6
COMPARED = 20  # tables of a cell that are also analysed under the other prior
CHAINS, DRAWS, QUICK_DRAWS = 4, 1000, 250
DEFAULT, OTHER, EXACT, NAIVE = "default", "conjugate", "non-private", "naive"
METHODS = (DEFAULT, OTHER, EXACT, NAIVE)
LAW_OF: Mapping[str, Prior] = {DEFAULT: IndependentPrior(), OTHER: Prior()}
FLAT = Prior(intercept_sd=1e3, coefficient_sd=1e3, noise_shape=1e-3, noise_scale=1e-9)  # as if there were none


def about(cell: Cell) -> dict[str, Any]:
    """The facts by which dpbayes/kinds/regression/measured_coverage.py compares a study with a cell."""
    table, rows = table_of(cell), int(cell["rows"])
    mechanism, variables = _mechanism(table.schema, cell), table.schema.variables[:-1]
    guess = {"guess": cell["guess"]} if "guess" in cell else {}
    return {
        "name": name_of(cell),
        "noise": float(mechanism.scales.max()) / rows,
        "mechanism": mechanism.name,
        "epsilon": cell["epsilon"],
        "response_sd": table.response_sd / (table.schema.response.bounds.width / 2),
        "explained": cell["explained"],
        "coefficients": len(variables),
        "levels": sum(variable.kind != "continuous" for variable in variables) / len(variables),
        "related": table.related,
        "spread": table.spread,
        "prior": laws_of(cell)[DEFAULT].to_record(),
        **guess,
    }


def laws_of(cell: Cell) -> dict[str, Prior]:
    """The default prior of a study of such tables, and the former default."""
    if "guess" not in cell:
        return dict(LAW_OF)
    table = table_of(cell)
    return {**LAW_OF, DEFAULT: expected_prior(table.schema, table.expected(cell["guess"]))}


def run(cell: Cell, seed: int) -> list[Row]:
    """All methods on the same tables."""
    table, generator = table_of(cell), np.random.Generator(np.random.Philox(seed))
    found: dict[str, list[Fit]] = {method: [] for method in METHODS}
    laws = laws_of(cell)
    for number in range(cell["data_sets"]):
        release, exact = _release(table, cell, generator)
        seeds = int(generator.integers(2**53))
        found[EXACT].append(_least_squares(table.schema, exact, exact[0, 0]))
        found[NAIVE].append(_naive(release))
        for method, prior in laws.items():
            if method == DEFAULT or number < COMPARED:
                found[method].append(_posterior(release, prior, QUICK_DRAWS if cell["quick"] else DRAWS, seeds))
    others = found[DEFAULT][: len(found[OTHER])], found[OTHER]
    compared = relative(*others, table.truths)
    return [row for method in METHODS for row in _rows(cell, table, method, found[method], compared)]


def _release(table: Table, cell: Cell, generator: np.random.Generator) -> tuple[Release, Floats]:
    """A release of new rows, and their exact moments."""
    mechanism, count = _mechanism(table.schema, cell), int(cell["rows"])
    design = RegressionDesign(schema=table.schema, mechanism=mechanism)
    statistic = SecondMoments(table.schema)
    sums = statistic.sum(statistic.encode(table.rows(generator, count)))
    noise = SeededNoise(int(generator.integers(2**31)), i_know_this_is_not_private=True)
    exact = Release(
        schema=table.schema,
        neighbours=design.neighbours,
        rows=count,
        mechanism=mechanism,
        values=tuple(on_grid(sums, mechanism.grid).tolist()),
    )
    return design.release(noise, sums), exact.matrix()


def _mechanism(schema: RegressionSchema, cell: Cell) -> Mechanism:
    sensitivity, grid = regression_sensitivity(schema), grid_for(int(cell["rows"]))
    if cell["mechanism"] == "laplace":
        return laplace_for(sensitivity, epsilon=cell["epsilon"], grid=grid, entries=len(sensitivity.weights))
    return gaussian_for(sensitivity, grid=grid, epsilon=cell["epsilon"], delta=DELTA)


def _naive(release: Release) -> Fit:
    from dpbayes_core.samplers.naive import repaired

    return _least_squares(release.schema, repaired(release.matrix()), release.count)


def _least_squares(schema: RegressionSchema, moments: Floats, rows: float) -> Fit:
    """Intervals of the plain fit of these moments."""
    from scipy.special import gammaincinv, stdtrit

    whole = FLAT.response_matrix(schema) + moments
    precision, shape = whole[:-1, :-1], FLAT.noise_shape + rows / 2
    theta = np.asarray(np.linalg.solve(precision, whole[:-1, -1]), dtype=np.float64)
    scale = (whole[-1, -1] - whole[-1, :-1] @ theta) / 2
    sigmas = np.sqrt(np.asarray(scale / gammaincinv(shape, [1 - TAIL, TAIL]), dtype=np.float64))
    change = _to_user_units(schema)
    middle, _ = schema.to_user_units(theta, sigmas)
    spread = np.sqrt(scale / shape * np.diag(change @ np.linalg.inv(precision) @ change.T))
    reach = stdtrit(2 * shape, 1 - TAIL) * spread
    _, (low, high) = schema.to_user_units(theta, sigmas)
    return Fit(np.append(middle - reach, low), np.append(middle + reach, high))


def _to_user_units(schema: RegressionSchema) -> Floats:
    """The matrix from standardised coefficients to the user's, up to an offset."""
    units = np.vstack([np.zeros(len(schema.coefficients)), np.eye(len(schema.coefficients))])
    mapped, _ = schema.to_user_units(units, np.zeros(len(units)))
    return (mapped[1:] - mapped[0]).T


def _posterior(release: Release, prior: Prior, draws: int, seed: int) -> Fit:
    """Intervals from the default sampler, converged or not."""
    from dpbayes_core.samplers.driver import sample

    return fit_of(sample(release, prior, sampler="collapsed", chains=CHAINS, draws=draws, seed=seed))


def _rows(cell: Cell, table: Table, method: str, fits: Sequence[Fit], compared: tuple[Floats, Floats]) -> list[Row]:
    varied = {key: cell[key] for key in ("covariates", "wide", "too_wide", "clipped", "rows")}
    found = coverage_rows(fits, table.truths, compared if method == DEFAULT else None)
    return [{"experiment": "coverage", **varied, "method": method, **row, **about(cell)} for row in found]


def figures(rows: Sequence[Row]) -> tuple[Figure, ...]:
    """Coverage of the slopes, then of sigma."""
    return tuple(_figure(parameter, rows) for parameter in ("slopes", "sigma"))


def _figure(parameter: str, rows: Sequence[Row]) -> Figure:
    chosen = [row for row in rows if row["parameter"] == parameter]
    panels: list[Panel] = []
    for method in METHODS:
        boxes = tuple(
            Box(_place(row), band(row["coverage"], row["standard_error"]), 0.95)
            for row in chosen
            if row["method"] == method
        )
        panels.append(Panel(method, boxes))
    return Figure(
        name=f"coverage-{parameter}",
        title=f"Coverage of 95% intervals of {parameter} at fixed truths",
        words="Share of tables whose interval holds the truth, with its Monte Carlo error; a dot marks 0.95.",
        axis="coverage",
        limits=(0.0, 1.0),
        panels=tuple(panels),
    )


def _place(row: Row) -> str:
    clipped = f" {100 * row['clipped']:g}%" if row["clipped"] else ""
    wide = f" {row['wide']:g}x" if row["wide"] > 1 else ""
    wide += f" expected {row['guess']:.2g}x" if "guess" in row else ""
    return f"{row['covariates']} {row['explained']:g}{wide}{clipped} {row['rows']:g}/{row['epsilon']:g}"


EXPERIMENT = Experiment(
    name="coverage",
    title="Coverage of 95% intervals at fixed truths, of the default prior and of the law that was the default before",
    columns=(
        *(
            "experiment",
            "covariates",
            "explained",
            "wide",
            "too_wide",
            "guess",
            "clipped",
            "mechanism",
            "rows",
            "epsilon",
        ),
        *("data_sets", "method", "parameter", "coverage", "standard_error", "worst", "width"),
        *("relative_score", "relative_width", "not_converged"),
    ),
    cells=cells,
    run=run,
    figures=figures,
    notes=(
        "explained is the share of the response's variance; wide, how many times too wide the bounds of the named "
        "columns are, beyond 3.5 sds on either side; delta 1e-6. The truth is that of the response before clipping.",
        "guess is the response's sd that the study expects, over what it is; where there is none, it expects nothing.",
        "default is what a study that states no prior gets: 4 chains of 1,000 draws, doubled as in any analysis, "
        f"counted whether or not they converged. conjugate is `law: conjugate`, on the first {COMPARED} tables. "
        "non-private is least squares on the exact sums of the same clipped rows, naive that on the noisy sums.",
        "Standard errors take the parameters of one table together; worst is the parameter that was held least. "
        "relative_score and relative_width are mean interval score and width over those of conjugate on the same "
        "tables.",
    ),
)
