"""The wages example: its study, its data, and the truth they share."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cli.init import EXAMPLES
from dpbayes.study.load import load_study
from dpbayes_core.errors import StudyInvalid
from examples.wages import generate as wages

STUDY = Path(wages.__file__).with_name("study.yaml")
ROWS = 20_000


@pytest.fixture(scope="module")
def months() -> list[dict[str, np.ndarray]]:
    tables = [wages.table(period, ROWS) for period in wages.PERIODS]
    return [{name: table[name].to_numpy() for name in table.column_names} for table in tables]


def design(month: dict[str, np.ndarray]) -> tuple[list[str], np.ndarray]:
    columns = {"(intercept)": np.ones(len(month["age"])), "age": month["age"], "tenure": month["tenure"]}
    for name, levels in (("female", wages.FEMALE), ("education", wages.EDUCATION), ("region", wages.REGION)):
        columns |= {f"{name}[{level}]": (month[name] == level).astype(float) for level in levels[1:]}
    return list(columns), np.column_stack(list(columns.values()))


def test_the_truth_names_every_coefficient_of_the_study() -> None:
    assert tuple(wages.TRUTH) == (*load_study(STUDY).design("wage-regression").schema.coefficients, "sigma")


def test_files_stand_where_the_study_looks_for_them(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes(STUDY.read_bytes())
    study = load_study(tmp_path / "study.yaml")
    files = wages.generate(tmp_path, rows=ROWS)
    assert [str(file) for file in files] == [study.table("wage-regression", p).path for p in wages.PERIODS]
    for file in files:
        parquet = pq.ParquetFile(file)
        assert parquet.metadata.num_rows == ROWS
        assert parquet.num_row_groups == 3
        assert set(parquet.schema_arrow.names) == {*study.columns, study.source.unit}
    assert json.loads((tmp_path / "data" / "truth.json").read_text()) == dict(wages.TRUTH)
    assert sorted(path.suffix for path in (tmp_path / "data").iterdir()) == [".json", *[".parquet"] * 3]


def test_the_same_seed_gives_the_same_month_whatever_else_is_written(tmp_path: Path) -> None:
    alone = wages.generate(tmp_path / "a", ("2026-03",), 2000)[0]
    last = wages.generate(tmp_path / "b", rows=2000)[-1]
    assert pq.read_table(alone).equals(pq.read_table(last))
    other = wages.generate(tmp_path / "c", ("2026-03",), 2000, seed=1)[0]
    assert not pq.read_table(alone).equals(pq.read_table(other))


def test_the_same_people_come_back_and_change_a_little(months: list[dict[str, np.ndarray]]) -> None:
    first, last = months[0], months[-1]
    assert len(np.unique(first["person_id"])) == ROWS
    assert np.array_equal(first["person_id"], last["person_id"])
    assert np.array_equal(first["female"], last["female"])
    assert np.allclose(last["age"] - first["age"], 2 / 12)
    for name, least, most in (("region", 0.003, 0.01), ("education", 0.0003, 0.003)):
        assert least < np.mean(first[name] != last[name]) < most
    assert np.corrcoef(first["log_wage"], last["log_wage"])[0, 1] > 0.9


def test_every_value_is_declared_and_clipping_is_negligible(months: list[dict[str, np.ndarray]]) -> None:
    columns = load_study(STUDY).columns
    for month in months:
        for name, column in columns.items():
            if column.bounds is not None:
                assert column.bounds.low <= month[name].min()
                assert month[name].max() <= column.bounds.high
            else:
                assert set(np.unique(month[name])) == set(column.levels or ())
        # six residual sd inside the bounds: fewer than one response in 10^8 would be clipped
        labels, x = design(month)
        fitted = x @ np.array([wages.TRUTH[label] for label in labels])
        assert fitted.min() - 4.8 * wages.TRUTH["sigma"] > 0
        assert fitted.max() + 4.8 * wages.TRUTH["sigma"] < 5


def test_least_squares_finds_the_truth(months: list[dict[str, np.ndarray]]) -> None:
    for month in months:
        labels, x = design(month)
        estimate, squares, *_ = np.linalg.lstsq(x, month["log_wage"], rcond=None)
        sigma = np.sqrt(squares[0] / (ROWS - len(labels)))
        errors = sigma * np.sqrt(np.diag(np.linalg.inv(x.T @ x)))
        truth = np.array([wages.TRUTH[label] for label in labels])
        # p < 1e-6 for the largest of 9 coefficients in 3 months
        assert np.max(np.abs(estimate - truth) / errors) < 5.5
        assert abs(sigma / wages.TRUTH["sigma"] - 1) < 5.5 / np.sqrt(2 * ROWS)


def test_the_truth_check_can_fail(months: list[dict[str, np.ndarray]]) -> None:
    labels, x = design(months[0])
    estimate = np.linalg.lstsq(x, months[0]["log_wage"] + 0.002 * months[0]["age"], rcond=None)[0]
    errors = wages.TRUTH["sigma"] * np.sqrt(np.diag(np.linalg.inv(x.T @ x)))
    age = labels.index("age")
    assert abs(estimate[age] - wages.TRUTH["age"]) / errors[age] > 5.5


def test_a_month_before_the_first_is_refused() -> None:
    with pytest.raises(StudyInvalid, match="the example begins in 2026-01"):
        wages.table("2025-12", 10)
    with pytest.raises(StudyInvalid, match="cannot use period"):
        wages.table("2026-1", 10)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_a_valid_study_of_the_same_account(name: str) -> None:
    first, other = load_study(STUDY), load_study(STUDY.with_name(name))
    assert other.account() == first.account()
    for release in other.releases:
        assert other.design(release).mechanism.cost().rho > 0
