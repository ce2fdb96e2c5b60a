"""The pass over odd values and types, its progress, and what it refuses."""

import io
import math
import os
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from rich.traceback import Traceback

from dpbayes.secure.leak_guard import SecureFailure, guard_leaks
from dpbayes.secure.read_table import SecurePass, read_statistics
from dpbayes.study.table_source import ColumnRule, TableSource
from dpbayes_core.bounds import Bounds
from dpbayes_core.errors import DpbayesError, ShapeMismatch
from dpbayes_core.regression.moments import ExactStatistics, SecondMoments
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from tests.support.small_tables import (
    KEY,
    RULES,
    SCHEMA,
    STATISTIC,
    Row,
    one_row_each,
    ordinary_rows,
    rows_each,
    source,
    sums_of,
    write,
)

ORDINARY: Row = {"person": "p0", "wage": 2.5, "age": 40.0, "female": "yes", "region": "south"}
BREAKING = [
    {"wage": None},
    {"wage": math.nan},
    {"wage": math.inf},
    {"wage": -math.inf},
    {"wage": 1e308},
    {"wage": -1e308},
    {"wage": 5e-324},
    {"wage": math.nextafter(5, 6)},
    {"age": None},
    {"age": math.nan},
    {"age": 1e308},
    {"female": None},
    {"female": "unheard of"},
    {"female": ""},
    {"region": None},
    {"region": "unheard of"},
    {"person": None},
    {"person": ""},
    {"person": "p" * 100_000},
]


def sums(table: TableSource, schema: RegressionSchema = SCHEMA, key: bytes = KEY) -> tuple[int, tuple[int, ...]]:
    statistics = read_statistics(table, SecondMoments(schema), key=key).statistics
    return statistics.rows, statistics.sums


@pytest.mark.parametrize("change", BREAKING, ids=str)
@pytest.mark.parametrize("unit", [None, "person"])
def test_a_value_that_breaks_a_rule_is_summed_as_declared(tmp_path: Path, change: Row, unit: str | None) -> None:
    rows = [ORDINARY | {"person": "p1", "wage": 1.0}, ORDINARY | change]
    done = read_statistics(source(write(tmp_path / "t.parquet", rows), unit), STATISTIC, key=KEY)
    plain = read_statistics(source(write(tmp_path / "t.parquet", [rows[0], ORDINARY]), unit), STATISTIC, key=KEY)
    assert done.statistics.sums == sums_of(rows)
    assert done.statistics.rows == plain.statistics.rows == 2
    assert done.profile.types == plain.profile.types
    assert all(type(total) is int for total in done.statistics.sums)


@pytest.mark.parametrize("unit", [None, "person"])
def test_an_empty_table_is_the_zero_statistic(tmp_path: Path, unit: str | None) -> None:
    heard: list[float] = []
    table = source(write(tmp_path / "t.parquet", []), unit)
    done = read_statistics(table, STATISTIC, key=KEY, progress=heard.append)
    assert done.statistics == ExactStatistics.empty(SCHEMA)
    assert done.profile.rows == 0
    assert heard[-1] == 1.0


def test_an_empty_row_group_changes_nothing(tmp_path: Path) -> None:
    rows = ordinary_rows(20, people=10, seed=1)
    full = pq.read_table(write(tmp_path / "full.parquet", rows))
    with pq.ParquetWriter(tmp_path / "t.parquet", full.schema) as writer:
        for piece in (full[:10], full[:0], full[10:]):
            writer.write_table(piece)
    assert pq.read_metadata(tmp_path / "t.parquet").num_row_groups == 3
    assert sums(source(tmp_path / "t.parquet", None)) == (20, sums_of(rows))
    assert sums(source(tmp_path / "t.parquet")) == sums(source(tmp_path / "full.parquet"))


@pytest.mark.parametrize(
    "types",
    [
        {"female": pa.large_string(), "region": pa.large_string(), "person": pa.large_string()},
        {"female": pa.string_view(), "region": pa.string_view(), "person": pa.string_view()},
        {"female": pa.dictionary(pa.int8(), pa.string()), "region": pa.dictionary(pa.int32(), pa.large_string())},
        {"person": pa.dictionary(pa.int32(), pa.string())},
    ],
    ids=["large", "view", "dictionary", "dictionary of persons"],
)
def test_text_is_the_same_however_it_is_stored(tmp_path: Path, types: dict[str, pa.DataType]) -> None:
    rows = ordinary_rows(100, people=30, seed=2)
    counted = one_row_each(rows)
    path = write(tmp_path / "t.parquet", rows, 33, **types)
    assert sums(source(path)) == (len(counted), sums_of(counted))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [1, -128, None, 127]),
        (pa.uint64(), [1, 0, None, 2**64 - 1]),
        (pa.int64(), [2, -(2**63), None, 2**63 - 1]),
        (pa.float16(), [1.5, math.nan, None, math.inf]),
        (pa.float32(), [1.5, math.nan, None, -math.inf]),
        (pa.decimal128(10, 2), [Decimal("1.25"), Decimal("-9999999.99"), None, Decimal("9999999.99")]),
        (pa.decimal256(70, 0), [Decimal(3), Decimal(-(10**69)), None, Decimal(10**69)]),
        (pa.bool_(), [True, False, None, True]),
        (pa.null(), [None, None, None, None]),
    ],
    ids=str,
)
def test_every_kind_of_number_is_clipped_into_its_bounds(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    rows = [ORDINARY | {"wage": value} for value in values]
    path = write(tmp_path / "t.parquet", rows, wage=kind)
    as_floats = [row | {"wage": None if row["wage"] is None else float(row["wage"])} for row in rows]
    assert sums(source(path, None)) == (4, sums_of(as_floats))


@pytest.mark.parametrize(
    ("kind", "levels", "values"),
    [
        (pa.int16(), ("0", "1"), [1, 0, None, 7, 1]),
        (pa.uint64(), ("0", "18446744073709551615"), [2**64 - 1, 0, None, 7, 2**64 - 1]),
        (pa.bool_(), ("false", "true"), [True, False, None, False, True]),
        (pa.string(), ("no", "yes"), ["yes", "no", None, "NO", "yes"]),
        (pa.dictionary(pa.int8(), pa.int64()), ("0", "1"), [1, 0, None, 7, 1]),
    ],
    ids=str,
)
def test_levels_are_the_text_of_what_is_stored(
    tmp_path: Path, kind: pa.DataType, levels: tuple[str, str], values: list[Any]
) -> None:
    pq.write_table(pa.table({"y": [0.0] * 5, "x": pa.array(values, kind)}), tmp_path / "t.parquet")
    rules = (ColumnRule(name="y", bounds=Bounds(-1, 1)), ColumnRule(name="x", levels=levels))
    schema = RegressionSchema(Continuous("y", Bounds(-1, 1)), (Factor("x", levels),))
    table = TableSource(path=str(tmp_path / "t.parquet"), columns=rules, unit=None)
    _, (sum_of_x, *_) = sums(table, schema)
    assert sum_of_x == (2 - 3) * 2**38  # two at the second level; null and unknown count as the first


NO_UTF8: dict[str, Callable[[list[bytes]], pa.Array]] = {
    "string": lambda values: pa.array(values, pa.binary()).view(pa.string()),
    "large": lambda values: pa.array(values, pa.large_binary()).view(pa.large_string()),
    "view": lambda values: pa.array(values, pa.binary_view()).view(pa.string_view()),
    "dictionary": lambda values: dictionary_of(pa.array(list(dict.fromkeys(values))).view(pa.string()), values),
    "large dictionary": lambda values: dictionary_of(
        pa.array(list(dict.fromkeys(values)), pa.large_binary()).view(pa.large_string()), values
    ),
}


def dictionary_of(levels: pa.Array, values: list[bytes]) -> pa.Array:
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return pa.DictionaryArray.from_arrays(pa.array([places[value] for value in values], pa.int8()), levels)


@pytest.mark.parametrize("kind", NO_UTF8)
def test_bytes_that_are_no_utf8_are_an_unknown_level_and_a_person(tmp_path: Path, kind: str) -> None:
    as_text = NO_UTF8[kind]
    columns = {"person": as_text([b"\xff", b"\xfe\x80", b"\xff"]), "female": as_text([b"\xff", b"yes", b"\xc3"])}
    others = {"wage": [1.0, 1.0, 1.0], "age": [40.0, 40.0, 40.0], "region": ["south"] * 3}
    pq.write_table(pa.table({**columns, **others}), tmp_path / "t.parquet")
    assert sums(source(tmp_path / "t.parquet"))[0] == 2
    plain = [ORDINARY | {"wage": 1.0, "female": female} for female in ("no", "yes", "no")]
    assert sums(source(tmp_path / "t.parquet", None)) == (3, sums_of(plain))


@pytest.mark.parametrize("kind", NO_UTF8)
def test_one_row_of_bytes_that_are_no_utf8_is_summed_as_any_unknown_level(tmp_path: Path, kind: str) -> None:
    rows = ordinary_rows(100, people=30, seed=5)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    found = []
    for region in (b"we\xdft", b"west", b"\xc3"):
        regions = [row["region"].encode() if row["region"] else b"nowhere" for row in rows]
        regions[7] = region
        pq.write_table(pa.table(columns | {"region": NO_UTF8[kind](regions)}), tmp_path / "t.parquet", row_group_size=9)
        found.append(sums(source(tmp_path / "t.parquet", None)))
    assert found == [found[0]] * 3


def test_more_levels_than_the_places_of_a_dictionary_count_change_no_outcome(tmp_path: Path) -> None:
    rows = [ORDINARY | {"wage": 1.0, "region": "south", "person": f"P{place}"} for place in range(300)]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    for other in range(127, 130):  # distinct values in the group; places of 8 bits count 128
        names = [f"level {place}" for place in range(other)]
        pieces = [
            pa.DictionaryArray.from_arrays(pa.array(np.arange(100) % len(part), pa.int8()), part)
            for part in (names[:100], names[100:], names[:1])
        ]
        pq.write_table(pa.table(columns | {"region": pa.chunked_array(pieces)}), tmp_path / "t.parquet")
        assert pq.read_metadata(tmp_path / "t.parquet").num_row_groups == 1
        expected = sums_of([row | {"region": "nowhere"} for row in rows])
        assert sums(source(tmp_path / "t.parquet", None)) == (300, expected)


def test_a_column_may_be_the_unit_and_a_covariate(tmp_path: Path) -> None:
    rows = ordinary_rows(50, people=20, seed=3)
    path = write(tmp_path / "t.parquet", rows)
    assert sums(source(path, "region"))[0] == len({row["region"] for row in rows})


def test_a_name_with_a_dot_is_a_name(tmp_path: Path) -> None:
    rules = (ColumnRule(name="a", bounds=Bounds(0, 1)), ColumnRule(name="a.b", bounds=Bounds(0, 1)))
    schema = RegressionSchema(Continuous("a", Bounds(0, 1)), (Continuous("a.b", Bounds(0, 1)),))
    pq.write_table(pa.table({"a.b": [1.0, 1.0], "a.c": ["x", "y"], "a": [0.0, 1.0]}), tmp_path / "t.parquet")
    table = TableSource(path=str(tmp_path / "t.parquet"), columns=rules, unit=None)
    assert sums(table, schema)[1][:2] == (2 * 2**38, 0)


def test_progress_rises_to_one(tmp_path: Path) -> None:
    heard: list[float] = []
    path = write(tmp_path / "t.parquet", ordinary_rows(100, people=30, seed=4), 9)
    read_statistics(source(path), STATISTIC, key=KEY, progress=heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    assert len(heard) == 12 + 1  # row groups, and the end


def test_a_failure_in_one_row_group_ends_the_pass(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", ordinary_rows(100, people=30, seed=4), 1)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_statistics(source(path), STATISTIC, key=KEY, progress=interrupt)


def test_a_failure_deep_in_the_pass_carries_nothing_out_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(column: pa.ChunkedArray, rule: ColumnRule, _counts: object) -> None:
        values = column.to_pylist()
        raise ValueError(f"cannot encode {values} of {rule.name}")

    monkeypatch.setattr("dpbayes.secure.columns._numbers", fail)
    path = write(tmp_path / "t.parquet", [ORDINARY | {"wage": 47.11, "region": "zebra"}])

    @guard_leaks()
    def secure_work() -> SecurePass:
        return read_statistics(source(path), STATISTIC, key=KEY)

    with pytest.raises(SecureFailure) as caught:
        secure_work()
    screen = io.StringIO()
    shown = Traceback.from_exception(SecureFailure, caught.value, caught.value.__traceback__, show_locals=True)
    Console(file=screen, width=300).print(shown)
    everything = screen.getvalue() + "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert "ValueError" in everything
    for canary in ("47.11", "zebra", "p0"):
        assert canary not in everything


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", [ORDINARY])
    with pytest.raises(DpbayesError, match="fewer than 16 bytes"):
        read_statistics(source(path), STATISTIC, key=b"short")


@pytest.mark.parametrize("most", [1, 2, 5])
def test_at_most_so_many_rows_of_a_person_count(tmp_path: Path, most: int) -> None:
    rows = ordinary_rows(200, people=30, seed=6)
    path = write(tmp_path / "t.parquet", rows, 23)
    table = TableSource(path=str(path), columns=RULES, unit="person", max_rows_per_unit=most)
    counted = rows_each(rows, most)
    assert len(counted) < len(rows)
    done = read_statistics(table, STATISTIC, key=KEY)
    assert (done.statistics.rows, done.statistics.sums) == (len(counted), sums_of(counted))
    assert done.profile.duplicate_rows == len(rows) - len(counted)


@pytest.mark.parametrize("how", ["parquet", "csv"])
def test_a_table_replaced_while_it_is_read_is_refused(tmp_path: Path, how: str) -> None:
    rows = ordinary_rows(100, people=30, seed=4)
    path = write(tmp_path / "t.parquet", rows, 9)
    if how == "csv":
        pyarrow.csv.write_csv(pq.read_table(path), tmp_path / "t.csv")
        path = tmp_path / "t.csv"

    def touch(share: float) -> None:
        os.utime(path, ns=(1, 1))

    with pytest.raises(ShapeMismatch, match="it was replaced while it was read"):
        read_statistics(source(path), STATISTIC, key=KEY, progress=touch)
