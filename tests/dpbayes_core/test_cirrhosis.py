"""Predictive coverage on states: what the table of results must show, on simulated states."""

import numpy as np
import pytest

from dpbayes_core.experiments.cirrhosis import SCHEMA, STATES, cells, run


@pytest.mark.slow
def test_predictions_from_noisy_sums_cover_and_naive_ones_do_not() -> None:
    cell = {"data": "simulated", "epsilon": 1.0, "data_sets": 6}
    rows = {(row["method"], row["level"]): row for row in run(cell, 3)}
    for level in (0.5, 0.9):
        aware, naive, prior = (rows[method, level] for method in ("noise-aware", "naive", "prior"))
        assert aware["coverage"] > level - 3 * aware["standard_error"]
        assert naive["coverage"] < level - 3 * naive["standard_error"]
        assert aware["width"] < prior["width"]
        assert rows["without privacy", level]["width"] < aware["width"]
        assert 0 < aware["standard_error"] < 0.25


def test_every_epsilon_is_run_on_the_states_and_on_simulated_ones() -> None:
    asked = [(cell["data"], cell["epsilon"]) for cell in cells(False)]
    assert len(asked) == len(set(asked)) == 6
    assert all(cell["data_sets"] == 100 for cell in cells(False))
    assert [cell.get("table") for cell in cells(False)] == [None] * 3 + ["cirrhosis"] * 3


@pytest.mark.slow
def test_a_cell_on_the_states_reads_the_columns_it_is_given() -> None:
    generator = np.random.default_rng(1)
    columns = {
        column.name: generator.uniform(column.bounds.low, column.bounds.high, STATES)
        for column in (SCHEMA.response, *SCHEMA.covariates)
    }
    cell = {"data": "cirrhosis", "table": "cirrhosis", "epsilon": 10.0, "data_sets": 2}
    rows = run({**cell, "columns": columns}, 1)
    assert {row["method"] for row in rows} == {"noise-aware", "naive", "without privacy", "prior"}
    with pytest.raises(ValueError, match="its columns are not there"):
        run(cell, 1)
