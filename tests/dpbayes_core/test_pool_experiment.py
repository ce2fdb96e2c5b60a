"""The measurement of pools at fixed truths: its parts are what they say, and its table says what was counted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpbayes_core.experiments.pool_tables import parts_of, table_of
from dpbayes_core.experiments.pools import ALIKE, DIFFER, cells, run
from tools.pool_coverage import HEAD, lines

ROWS = 100_000


@pytest.mark.parametrize("number", range(len(cells(False))))
def test_rows_of_every_cell_have_the_truth_within_their_bounds(number: int) -> None:
    cell, generator = cells(False)[number], np.random.default_rng(number)
    table = table_of(cell)
    parts = parts_of(cell, table, generator)
    assert [part.rows for part in parts] == list(cell["rows"])
    many = [replace(part, rows=ROWS // len(parts)).columns(table, generator) for part in parts]
    columns: dict[str, Any] = {name: np.concatenate([part[name] for part in many]) for name in many[0]}
    numbers = [columns[f"x{k}"] for k in range(table.numbers)]
    levels = [columns["group"] == level for level in (1, 2)] if "group" in columns else []
    matrix = np.column_stack([np.ones(len(columns["y"])), *numbers, *levels])
    fitted, residual, *_ = np.linalg.lstsq(matrix, columns["y"])
    error = np.sqrt(residual[0] / len(matrix) * np.diag(np.linalg.inv(matrix.T @ matrix)))
    assert np.all(np.abs(fitted - table.theta) < 5 * error)
    assert np.sqrt(residual[0] / len(matrix)) == pytest.approx(table.sigma, rel=5 / np.sqrt(2 * len(matrix)))
    assert np.abs(numbers).max() <= 1
    assert (np.abs(columns["y"]) > 1).mean() < 3e-3


def test_parts_differ_in_what_is_said_and_by_as_much() -> None:
    for cell in cells(False):
        if cell["parts"] == "means apart":
            means = np.array([part.means for part in parts_of(cell, table_of(cell), np.random.default_rng(1))])
            assert (means.min(), means.max()) == pytest.approx((-cell["by"], cell["by"]))
        if cell["parts"] == "alike":
            parts = parts_of(cell, table_of(cell), np.random.default_rng(1))
            assert len({(*part.means, *part.sds, *part.shares) for part in parts}) == 1
        if cell["parts"] == "months that move":
            parts = parts_of(cell, table_of(cell), np.random.default_rng(1))
            assert np.diff([part.means[0] for part in parts]) == pytest.approx(cell["by"])


@pytest.mark.slow
def test_the_table_shows_each_cell_once_with_what_both_ways_to_read_it_held() -> None:
    rows = [row for cell in cells(True)[:2] for row in run({**cell, "data_sets": 2}, 3)]
    found = lines(rows)
    assert len(found) == 2
    assert {len(line) for line in found} == {len(HEAD)}
    assert [line[0] for line in found] == ["means apart (0.6)", "alike"]
    own = {(row["parts"], row["method"], row["parameter"]): row for row in rows}
    for line in found:
        part = "alike" if line[0] == "alike" else "means apart"
        told = dict(zip(HEAD, line, strict=True))
        assert told["slopes"].startswith(f"{own[part, DIFFER, 'slopes']['coverage']:.3f}")
        assert told["alike: slopes"] == f"{own[part, ALIKE, 'slopes']['coverage']:.2f}"
        assert told["rows"] == "4 x 10,000"
