"""Great Expectations alerts the steward about the profile; it says nothing elsewhere and decides nothing."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from dpbayes.secure.profile import ColumnCounts, GroupProfile, Profile
from dpbayes.secure.read_table import read_statistics
from dpbayes.secure.validation.checks import Expectation, expectations_of, foreseen_by, validate
from dpbayes.study.table_source import ColumnRule, TableSource
from dpbayes_core.bounds import Bounds
from tests.support.small_tables import KEY, STATISTIC, ordinary_rows, source, write

TABLE = TableSource(
    path="t.parquet",
    columns=(ColumnRule(name="wage, in euro", bounds=Bounds(0, 5)), ColumnRule(name="region", levels=("n", "s"))),
    unit="person",
)


def group(rows: int = 5, null_units: int = 0, region: ColumnCounts | None = None, **wage: int) -> GroupProfile:
    columns = {"wage, in euro": ColumnCounts(**wage), "region": region or ColumnCounts()}
    return GroupProfile(file="t.parquet", row_group=0, rows=rows, columns=columns, null_units=null_units)


def profile(*groups: GroupProfile, duplicate_rows: int = 0) -> Profile:
    return Profile(types={}, groups=groups, duplicate_rows=duplicate_rows)


def unmet(counted: Profile) -> list[tuple[str | None, str]]:
    result = validate(counted, TABLE)
    assert result.ran
    assert result.success is (not any(not met for _, met in result.met))
    return [(expectation.column, expectation.count) for expectation, met in result.met if not met]


def test_a_clean_table_meets_every_expectation() -> None:
    result = validate(profile(group(), group()), TABLE)
    assert result.success
    assert {expectation for expectation, _ in result.met} == set(expectations_of(TABLE))


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        (profile(group(), group(nulls=1)), ("wage, in euro", "nulls")),
        (profile(group(not_a_number=1)), ("wage, in euro", "not_a_number")),
        (profile(group(out_of_bounds=3), group()), ("wage, in euro", "out_of_bounds")),
        (profile(group(region=ColumnCounts(unknown_levels=1))), ("region", "unknown_levels")),
        (profile(group(region=ColumnCounts(nulls=1))), ("region", "nulls")),
        (profile(group(null_units=2)), (None, "null_units")),
        (profile(group(), duplicate_rows=1), (None, "duplicate_rows")),
        (profile(group(), group(rows=0)), (None, "rows")),
        (profile(), (None, "rows")),
    ],
    ids=lambda value: str(value),
)
def test_each_broken_expectation_is_named(counted: Profile, expected: tuple[str | None, str]) -> None:
    assert unmet(counted) == [expected]


RULED = TableSource(
    path="t.parquet", columns=TABLE.columns, unit="person", max_rows_per_unit=3, stated=("wage, in euro", "region")
)


def test_what_the_study_states_a_rule_for_is_counted_and_raises_no_alarm() -> None:
    found = {(one.column, one.count) for one in expectations_of(TABLE)} - {
        (one.column, one.count) for one in expectations_of(RULED)
    }
    assert (
        found
        == {(one.column, one.count) for one in foreseen_by(RULED)}
        == {
            ("wage, in euro", "nulls"),
            ("wage, in euro", "not_a_number"),
            ("region", "nulls"),
            ("region", "unknown_levels"),
            (None, "duplicate_rows"),
        }
    )
    assert foreseen_by(TABLE) == ()
    counted = profile(group(nulls=9, region=ColumnCounts(unknown_levels=3)), duplicate_rows=7)
    assert validate(counted, RULED).success
    assert not validate(counted, TABLE).success


def test_a_rule_for_nulls_is_none_for_values_out_of_bounds() -> None:
    assert not validate(profile(group(out_of_bounds=1)), RULED).success


def test_other_expectations_may_stand_in_place_of_the_derived_ones() -> None:
    own = [Expectation(count="nulls", column="wage, in euro", at_most=10), Expectation(count="rows", at_least=100)]
    result = validate(profile(group(nulls=7)), TABLE, own)
    assert [met for _, met in result.met] == [True, False]


@pytest.mark.parametrize("own", [Expectation(count="nulls", column="absent"), Expectation(count="absent")])
def test_validation_that_cannot_run_says_only_that(own: Expectation) -> None:
    result = validate(profile(group(nulls=4711)), TABLE, [own])
    assert result.to_record() == {"ran": False, "success": False, "expectations": [], "own": []}


def test_a_failure_inside_the_library_says_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("zebra-4711")

    monkeypatch.setattr("dpbayes.secure.validation.checks._met", fail)
    result = validate(profile(group()), TABLE)
    assert (result.ran, result.success) == (False, False)


def test_the_record_holds_names_and_answers_only(tmp_path: Path) -> None:
    rows = [row | {"person": "zebra-4711", "region": "zebra-4711"} for row in ordinary_rows(30, people=9, seed=21)]
    table = source(write(tmp_path / "t.parquet", rows, 10))
    result = validate(read_statistics(table, STATISTIC, key=KEY).profile, table)
    record = json.loads(json.dumps(result.to_record()))
    assert record["success"] is False
    assert "4711" not in json.dumps(record)
    assert {"at_least": 0, "at_most": 0, "column": "region", "count": "unknown_levels", "met": False} in record[
        "expectations"
    ]
    assert repr(result) == "ValidationResult(values=withheld)"


def test_nothing_is_printed_or_warned(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        validate(profile(group(nulls=1)), TABLE)
    assert not caught
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_fresh_process_connects_to_nobody_and_prints_nothing() -> None:
    program = """
import socket, sys
def refuse(*_):
    raise SystemExit("a connection was tried")
socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = refuse
from tests.dpbayes.secure.test_validation import TABLE, group, profile
from dpbayes.secure.validation.checks import validate
assert "great_expectations" not in sys.modules
assert "pandas" not in sys.modules
sys.exit(0 if validate(profile(group()), TABLE).success else 3)
"""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "GX_ANALYTICS_ENABLED": "true"}
    done = subprocess.run([sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_the_pass_loads_nothing_heavy() -> None:
    rooms = "dpbayes.secure.read_table, dpbayes.secure.validation.checks, storage.home.vault, dpbayes.secure.leak_guard"
    program = f"import sys, {rooms}; print(sorted(sys.modules))"
    root = Path(__file__).parents[3]
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert not [name for name in ("pyarrow", "numba", "pandas", "great_expectations", "numpy") if f"'{name}'" in loaded]
