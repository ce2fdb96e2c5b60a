"""The measurement of coverage at fixed truths: its tables are what they say, and what it counts can fail."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.experiments.coverage import COMPARED, FLAT, METHODS, _least_squares, cells, run
from dpbayes_core.experiments.coverage_cells import BOUNDS, DATA_SETS, FIRM, FIRM_DATA_SETS, PLACES, STRENGTHS, cell_of
from dpbayes_core.experiments.coverage_tables import LAWS, Table, table_of
from dpbayes_core.experiments.intervals import Fit, score_of
from dpbayes_core.experiments.metrics import coverage
from dpbayes_core.regression.schema import Factor
from dpbayes_core.samplers.driver import sample
from tests.support.regressions import example, schema_of

ROWS = 200_000

TABLES = {
    **{name: cell_of(name, 0.3, 1000, 1.0) for name in LAWS},
    "related, strong": cell_of("related", 0.95, 1000, 1.0),
    "related, none": cell_of("related", 0.0, 1000, 1.0, wide=3.0),
    "one": cell_of("one", 0.85, 1000, 1.0),
    "skewed": cell_of("skewed", 0.5, 1000, 1.0, wide=3.0, too_wide="covariates"),
    "wages": cell_of("wages", 0.138, 1000, 1.0),
}


def design_of(table: Table, columns: Any, count: int) -> Floats:
    """The intercept and every variable of a table, levels as 0 and 1."""
    encoded = [np.ones(count)]
    for column in table.schema.covariates:
        values = columns[column.name]
        levels = range(1, len(column.levels)) if isinstance(column, Factor) else ()
        encoded += [values == level for level in levels] if isinstance(column, Factor) else [values]
    return np.stack(encoded, axis=1).astype(np.float64)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_simulated_rows_have_the_declared_truth_and_keep_to_their_bounds(name: str) -> None:
    cell, generator = TABLES[name], np.random.default_rng(1)
    table = table_of(cell)
    columns = table.rows(generator, ROWS)
    matrix, response = design_of(table, columns, ROWS), columns[table.schema.response.name]
    fitted, residual, *_ = np.linalg.lstsq(matrix, response)
    error = np.sqrt(residual[0] / ROWS * np.diag(np.linalg.inv(matrix.T @ matrix)))
    assert np.all(np.abs(fitted - table.theta) < 5 * error)
    assert np.sqrt(residual[0] / ROWS) == pytest.approx(table.sigma, rel=5 / np.sqrt(2 * ROWS))
    assert response.std() == pytest.approx(table.response_sd, rel=0.02)
    assert 1 - (table.sigma / response.std()) ** 2 == pytest.approx(cell["explained"], abs=0.03)
    numbers = [column for column in table.schema.covariates if not isinstance(column, Factor)]
    spreads = [columns[column.name].std() / (column.bounds.width / 2) for column in numbers]
    assert min(spreads, default=None) == (None if table.spread is None else pytest.approx(table.spread, rel=0.05))
    for column in numbers:
        assert column.bounds.low <= columns[column.name].min() <= columns[column.name].max() <= column.bounds.high
    pairs = list(itertools.combinations([columns[column.name] for column in numbers], 2))
    related = max((abs(np.corrcoef(*pair)[0, 1]) for pair in pairs), default=0.0)
    assert related == pytest.approx(table.related, abs=0.02)
    bounds = table.schema.response.bounds
    assert ((response < bounds.low) | (response > bounds.high)).mean() < 1e-3


@pytest.mark.parametrize(("too_wide", "response"), [("all columns", 3.0), ("covariates", 1.0)])
def test_bounds_are_too_wide_by_as_much_as_is_said(too_wide: str, response: float) -> None:
    fitting = table_of(cell_of("related", 0.5, 700, 2.0)).schema
    wide = table_of(cell_of("related", 0.5, 700, 2.0, wide=3.0, too_wide=too_wide)).schema
    widths = [(column, wide.covariates[k]) for k, column in enumerate(fitting.covariates)]
    pairs = [(a, b) for a, b in widths if not isinstance(a, Factor) and not isinstance(b, Factor)]
    assert [b.bounds.width / a.bounds.width for a, b in pairs] == pytest.approx([3.0] * 4)
    assert wide.response.bounds.width / fitting.response.bounds.width == pytest.approx(response)


@pytest.mark.parametrize("share", [0.005, 0.02])
def test_the_stated_share_of_responses_is_clipped(share: float) -> None:
    columns = table_of(cell_of("normal", 0.3, 1000, 1.0, clipped=share)).rows(np.random.default_rng(2), ROWS)
    assert (np.abs(columns["y"]) > 1).mean() == pytest.approx(share, abs=5 * np.sqrt(share / ROWS))


def test_intervals_of_the_plain_fit_are_those_of_draws_under_a_prior_that_says_nothing() -> None:
    release = example(schema_of("a", "b"), 500, scale=1e-3)
    fit = _least_squares(release.schema, release.matrix(), 500.0)
    posterior = sample(release, FLAT, sampler="naive", chains=2, draws=20_000, seed=3)
    drawn = np.stack([np.ravel(values) for values in posterior.draws.values()])
    ends = np.quantile(drawn, (0.025, 0.975), axis=1)
    assert np.abs(np.array([fit.low, fit.high]) - ends).max() < 0.05 * np.min(fit.high - fit.low)


def test_intervals_of_the_plain_fit_cover_where_nothing_is_clipped_and_fail_where_much_is() -> None:
    held: dict[float, float] = {}
    for share in (0.0, 0.02):
        table, generator = table_of(cell_of("normal", 0.3, 5000, 1.0, clipped=share)), np.random.default_rng(4)
        ends: list[tuple[float, float]] = []
        for _ in range(200):
            columns = table.rows(generator, 5000)
            rows = np.column_stack([design_of(table, columns, 5000), np.clip(columns["y"], -1, 1)])
            fit = _least_squares(table.schema, rows.T @ rows, 5000.0)
            ends.append((fit.low[-1], fit.high[-1]))
        low, high = np.array(ends).T
        held[share], _ = coverage(low, high, np.full(200, table.sigma))
    assert held[0.0] > 0.88
    assert held[0.02] < 0.7


def test_the_interval_score_is_the_width_where_the_truth_is_held_and_weighs_how_far_it_is_missed() -> None:
    fits, truths = [Fit(np.zeros(3), np.ones(3))], np.array([0.5, 1.1, -0.2])
    score, width = score_of(fits, truths)
    assert width == pytest.approx([1, 1, 1])
    assert score == pytest.approx([1, 1 + 0.1 * 40, 1 + 0.2 * 40])
    twice, _ = score_of([replace(fits[0], high=2 * np.ones(3)), fits[0]], np.full(3, 0.5))
    assert twice == pytest.approx([1.5, 1.5, 1.5])


def test_every_stated_cell_is_there_with_as_many_tables_as_are_said() -> None:
    keys = ("covariates", "explained", "wide", "too_wide", "rows", "epsilon", "mechanism", "clipped")
    told = [cell for cell in cells(False) if "guess" not in cell]
    found = {tuple(cell[key] for key in keys): cell["data_sets"] for cell in told}
    assert len(found) == len(told)
    for explained, (wide, which), (rows, epsilon) in itertools.product(STRENGTHS, BOUNDS, PLACES):
        least = FIRM_DATA_SETS if (explained, wide, rows, epsilon) in FIRM and which == "all columns" else DATA_SETS
        assert found["related", explained, wide, which, rows, epsilon, "gaussian", 0.0] == least
    for rows in (1000, 100_000):
        assert all((name, 0.3, 1.0, "all columns", rows, 1.0, "gaussian", 0.0) in found for name in LAWS)
        for share in (0.005, 0.02):
            assert ("normal", 0.3, 1.0, "all columns", rows, 1.0, "gaussian", share) in found
    assert {("wages", rows) for rows in (50_000, 200_000)} <= {(key[0], key[4]) for key in found}
    assert any(key[0] == "skewed" for key in found)
    assert any(key[6] == "laplace" for key in found)
    assert min(found.values()) >= DATA_SETS >= 60 > COMPARED
    assert len(cells(True)) < len(cells(False)) / 2


@pytest.mark.slow
def test_rows_tell_each_method_and_naive_intervals_are_narrower_than_those_that_know_the_noise() -> None:
    cell = {**cells(True)[0], "data_sets": 2}
    rows = {(row["method"], row["parameter"]): row for row in run(cell, 5)}
    assert set(rows) == {(m, p) for m in METHODS for p in ("intercept", "slopes", "sigma")}
    assert rows["default", "slopes"]["width"] > 2 * rows["naive", "slopes"]["width"]
    assert all(0 <= row["worst"] <= row["coverage"] <= 1 and row["standard_error"] > 0 for row in rows.values())
    assert rows["default", "slopes"]["relative_width"] > 1
    assert rows["conjugate", "slopes"]["relative_width"] is None
