"""The tool that sets intervals beside plain fits, on a made-up table in the place of a public one."""

import csv
from pathlib import Path

import numpy as np
import pytest

from dpbayes.kinds.prior import PriorSpec
from dpbayes.study.load import load_study
from tools.real_tables import REGRESSIONS, Regression, interval, names, plain, read, rows_of, run, study

ROWS = 400
MADE = Regression("made_up.csv", "y", ("x",), {"group": ("a", "b")})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(3)
    x, group = generator.uniform(0, 10, ROWS), generator.integers(0, 2, ROWS)
    y = 2 + 0.5 * x - group + 0.1 * generator.standard_normal(ROWS)
    with (tmp_path / MADE.file).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "group", "y"])
        writer.writerows(zip(x, np.array(["a", "b"])[group], y, strict=True))
    return tmp_path


def test_the_plain_fit_is_that_of_the_rows(folder: Path) -> None:
    fitted = plain(MADE, read(folder / MADE.file))
    assert names(MADE) == ["(intercept)", "x", "group[b]", "sigma"]
    assert fitted == pytest.approx([2, 0.5, -1, 0.1], abs=0.05)
    assert fitted[-1] == pytest.approx(0.1, rel=0.15)


def test_its_study_states_no_prior_expects_nothing_and_has_bounds_three_times_as_wide(folder: Path) -> None:
    columns = read(folder / MADE.file)
    (folder / "study.yaml").write_text(study(MADE, columns))
    found = load_study(folder / "study.yaml")
    assert [one.prior for one in found.analyses.values()] == [PriorSpec(), PriorSpec()]
    assert all(column.expect is None for column in found.columns.values())
    values, bounds = np.array(columns["x"], dtype=np.float64), found.columns["x"].bounds
    assert bounds is not None
    assert bounds.width == pytest.approx(3 * (values.max() - values.min()), rel=1e-4)
    assert found.columns["group"].levels == ("a", "b")


def test_an_interval_that_misses_is_marked() -> None:
    assert interval(1.0, 0.5, 1.5) == "0.5 to 1.5"
    assert rows_of([("x", 2.0, (0.5, 1.5), (1.0, 3.0))]) == [["x", "2", "0.5 to 1.5 (misses)", "1 to 3"]]


def test_its_regressions_name_columns_once() -> None:
    assert all(len(set(names(each))) == len(names(each)) for each in REGRESSIONS)


@pytest.mark.slow
def test_a_table_is_released_analysed_and_set_beside_the_plain_fit(folder: Path, tmp_path: Path) -> None:
    made, columns = tmp_path / "made", read(folder / MADE.file)
    made.mkdir()
    found, states = run(MADE, columns, folder, made)
    assert [name for name, *_ in found] == names(MADE)
    assert [fitted for _, fitted, *_ in found] == plain(MADE, columns)
    assert all(low < high for _, _, *each in found for low, high in each)
    assert set(states) <= {"converged", "not-converged"}
