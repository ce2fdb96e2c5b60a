"""The profile counts what broke a rule, and holds no value."""

import copy
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpbayes.secure.profile import Profile
from dpbayes.secure.read_table import SecurePass, read_statistics
from tests.support.small_tables import KEY, STATISTIC, Row, source, write

CANARY = "zebra-4711"
ODD: list[Row] = [
    {"person": CANARY, "wage": 4711.25, "age": math.nan, "female": CANARY, "region": None},
    {"person": CANARY, "wage": None, "age": math.inf, "female": "yes", "region": CANARY},
    {"person": None, "wage": -1.0, "age": 30.0, "female": None, "region": "north"},
    {"person": "p1", "wage": 1.0, "age": 30.0, "female": "no", "region": "south"},
]


def passed(path: Path, unit: str | None = "person") -> SecurePass:
    return read_statistics(source(write(path / "t.parquet", ODD, 2), unit), STATISTIC, key=KEY)


def test_every_broken_rule_is_counted_in_its_row_group(tmp_path: Path) -> None:
    record = passed(tmp_path).profile.to_record()
    first, second = record["row_groups"]
    assert (first["file"], first["row_group"], first["rows"], first["null_units"]) == ("t.parquet", 0, 2, 0)
    assert first["columns"] == {
        "wage": {"nulls": 1, "not_a_number": 0, "out_of_bounds": 1, "unknown_levels": 0},
        "age": {"nulls": 0, "not_a_number": 1, "out_of_bounds": 1, "unknown_levels": 0},
        "female": {"nulls": 0, "not_a_number": 0, "out_of_bounds": 0, "unknown_levels": 1},
        "region": {"nulls": 1, "not_a_number": 0, "out_of_bounds": 0, "unknown_levels": 1},
    }
    assert second["null_units"] == 1
    assert second["columns"]["wage"]["out_of_bounds"] == 1
    assert record["columns"]["wage"] == {
        "type": "double",
        "nulls": 1,
        "not_a_number": 0,
        "out_of_bounds": 2,
        "unknown_levels": 0,
    }
    assert record["columns"]["person"] == {"type": "string"}
    assert record["rows"] == 4
    assert record["duplicate_rows"] == 1


def test_without_a_unit_nobody_is_counted_twice(tmp_path: Path) -> None:
    profile = passed(tmp_path, None).profile
    assert profile.duplicate_rows is None
    assert profile.groups[0].null_units is None


def test_no_value_of_the_table_is_in_the_record(tmp_path: Path) -> None:
    text = json.dumps(passed(tmp_path).profile.to_record())
    assert CANARY not in text
    assert "4711" not in text


@pytest.mark.parametrize("show", [repr, str, lambda one: f"{one}", lambda one: f"{one!r}"])
def test_nothing_confidential_prints_more_than_its_type(tmp_path: Path, show: Callable[[Any], str]) -> None:
    done = passed(tmp_path)
    for one in (done, done.statistics, done.profile, done.profile.groups[0], done.profile.groups[0].columns["wage"]):
        assert show(one) == f"{type(one).__name__}(values=withheld)"


@pytest.mark.parametrize("leave", [pickle.dumps, copy.copy, copy.deepcopy])
def test_nothing_confidential_can_be_sent_or_copied(tmp_path: Path, leave: Callable[[Any], Any]) -> None:
    done = passed(tmp_path)
    for one in (done, done.profile, done.profile.groups[0], done.profile.groups[0].columns["wage"]):
        with pytest.raises(TypeError, match="confidential"):
            leave(one)


def test_row_groups_stand_in_the_order_of_the_files(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", ODD, 1)
    write(tmp_path / "a.parquet", ODD[:3], 1)
    done = read_statistics(source(tmp_path), STATISTIC, key=KEY, workers=4)
    places = [(group.file, group.row_group) for group in done.profile.groups]
    assert places == [*(("a.parquet", n) for n in range(3)), *(("b.parquet", n) for n in range(4))]


def test_a_table_without_row_groups_has_a_profile() -> None:
    assert Profile(types={"wage": "double"}, groups=()).to_record()["rows"] == 0
