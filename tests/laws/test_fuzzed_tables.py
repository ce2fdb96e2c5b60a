"""Whatever stands in a table: refused by its shape or summed, never an error of another kind, never a value in a word.

And no change of one row's values turns one outcome into the other.
"""

import csv
import datetime
import io
import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpbayes.secure.read_table import check_shape, read_statistics
from dpbayes.study.table_source import ColumnRule, Query, TableSource
from dpbayes_core.bounds import Bounds
from dpbayes_core.errors import ShapeMismatch
from dpbayes_core.regression.moments import SecondMoments
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema

KEY = bytes(range(32))
CANARY = "zebra-4711-canary"
BOUNDS = Bounds(-3, 7)
SCHEMA = RegressionSchema(
    Continuous("y", BOUNDS), (Continuous("born", BOUNDS), Factor("level", ("no", "yes")), Factor("code", ("0", "7")))
)
STATISTIC = SecondMoments(SCHEMA)
RULES = (
    ColumnRule(name="y", bounds=BOUNDS),
    ColumnRule(name="born", bounds=BOUNDS, measure="date"),
    ColumnRule(name="level", levels=("no", "yes")),
    ColumnRule(name="code", levels=("0", "7"), unknown="7"),
)
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MANY = settings(FEW, max_examples=1000)

Row = tuple[Any, ...]

LATIN = "we\udcdft"  # how Python spells bytes that are no UTF-8
ODD = ["", "no", "yes", "7", "0", CANARY, "nan", "\x00", '"', "a,b\r\nc", "é", LATIN]
TEXT = st.sampled_from(ODD) | st.text(max_size=5)
FLOATS = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 1e308, 5e-324, -0.0, 7.0, math.nextafter(7, 8)])
DATES = st.dates() | st.sampled_from([datetime.date.min, datetime.date.max])
NUMBERS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.float64(): FLOATS,
    pa.float32(): st.floats(width=32),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.bool_(): st.booleans(),
    pa.decimal128(20, 3): st.decimals(-(10**16), 10**16, places=3, allow_nan=False),
    pa.null(): st.none(),
}
LEVELS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.dictionary(pa.int32(), pa.string()): TEXT,
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
}
DAYS = {pa.date32(): DATES, pa.date64(): DATES, pa.null(): st.none()}
PEOPLE = {pa.string(): TEXT, pa.int64(): st.integers(0, 3), pa.dictionary(pa.int8(), pa.string()): TEXT}
OTHERS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.binary(): st.binary(max_size=3),
    pa.list_(pa.int8()): st.lists(st.integers(0, 1), max_size=2),
    pa.timestamp("us"): st.datetimes(),
    pa.float16(): st.none(),
}
NAMES = ("person", "y", "born", "level", "code")


@dataclass(frozen=True)
class Made:
    """A table's types, its rows, and a row to put in the place of one."""

    types: tuple[pa.DataType, ...]
    rows: list[Row]
    other: Row


@st.composite
def made(draw: st.DrawFn, *, wrong: bool = False) -> Made:
    """Types that fit the declaration (or, where `wrong`, any) with values that fit the types and nothing else."""
    everything = NUMBERS | LEVELS | DAYS | OTHERS
    kinds = [everything] * 5 if wrong else [PEOPLE, NUMBERS, DAYS, LEVELS, LEVELS]
    types = tuple(draw(st.sampled_from(list(kind))) for kind in kinds)
    values = [st.none() | kind[type_] for kind, type_ in zip(kinds, types, strict=True)]
    row = st.tuples(*values)
    return Made(types, draw(st.lists(row, min_size=1, max_size=6)), draw(row))


def parquet(path: Path, types: tuple[pa.DataType, ...], rows: list[Row]) -> TableSource:
    columns = [_stored([row[place] for row in rows], type_) for place, type_ in enumerate(types)]
    pq.write_table(pa.table(columns, names=list(NAMES)), path / "t.parquet", row_group_size=3)
    return source(path / "t.parquet")


def _stored(values: list[Any], type_: pa.DataType) -> pa.Array:
    if LATIN not in values:
        return pa.array(values, type_)
    content = [value.encode("utf-8", "surrogateescape") if isinstance(value, str) else None for value in values]
    if pa.types.is_dictionary(type_):
        known = list(dict.fromkeys(value for value in content if value is not None))
        places = pa.array([None if value is None else known.index(value) for value in content], type_.index_type)
        return pa.DictionaryArray.from_arrays(places, pa.array(known, pa.binary()).view(pa.string()))
    return pa.array(content, pa.large_binary() if type_ == pa.large_string() else pa.binary()).view(type_)


def source(path: Path) -> TableSource:
    return TableSource(path=str(path), columns=RULES, unit="person")


def spelled(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal | datetime.date | bool) else value


def as_csv(path: Path, types: tuple[pa.DataType, ...], rows: list[Row]) -> TableSource:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(NAMES)
    writer.writerows([[spelled(value) for value in row] for row in rows])
    (path / "t.csv").write_bytes(text.getvalue().encode("utf-8", "surrogateescape"))
    return source(path / "t.csv")


def in_sqlite(path: Path, types: tuple[pa.DataType, ...], rows: list[Row]) -> TableSource:
    (path / "t.db").unlink(missing_ok=True)
    connection = sqlite3.connect(path / "t.db")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("CREATE TABLE t (person, y, born, level, code)")
    for row in rows:
        stored = [float(value) if isinstance(value, int) and abs(value) >= 2**63 else spelled(value) for value in row]
        places = ["CAST(? AS TEXT)" if value == LATIN else "?" for value in stored]
        stored = [value.encode("utf-8", "surrogateescape") if value == LATIN else value for value in stored]
        connection.execute(f"INSERT INTO t VALUES ({', '.join(places)})", stored)
    connection.commit()
    connection.close()
    query = Query(url=f"sqlite:///{path / 't.db'}", text="SELECT * FROM t WHERE :period = 'p'", period="p")
    return TableSource(query=query, columns=RULES, unit="person")


Writer = Callable[[Path, tuple[pa.DataType, ...], list[Row]], TableSource]


def outcome(table: TableSource, unit: str | None) -> str | int:
    """What anybody could see: the rows that were summed, or the words of the refusal."""
    seen = TableSource(path=table.path, query=table.query, columns=table.columns, unit=unit)
    done, refused = None, None
    try:
        check_shape(seen)
        done = read_statistics(seen, STATISTIC, key=KEY)
    except ShapeMismatch as error:
        refused = error
    if refused is not None or done is None:
        assert refused is not None
        assert (refused.__cause__, refused.__context__) == (None, None)
        assert CANARY not in str(refused)
        assert str(refused).startswith("cannot read table t.")
        return str(refused)
    limit = done.profile.rows * 2**38
    assert all(abs(total) <= limit for total in done.statistics.sums)
    return done.profile.rows


def summed_with_any_row(folder: Path, writer: Writer, table: Made) -> None:
    for unit in ("person", None):
        assert outcome(writer(folder, table.types, table.rows), unit) == len(table.rows)
        changed = [table.other, *table.rows[1:]]
        assert outcome(writer(folder, table.types, changed), unit) == len(table.rows)


WRITERS = [parquet, as_csv, in_sqlite]


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
@FEW
@given(table=made())
def test_any_values_of_declared_types_are_summed_and_so_is_any_other_row(
    tmp_path: Path, writer: Writer, table: Made
) -> None:
    summed_with_any_row(tmp_path, writer, table)


@FEW
@given(table=made(wrong=True))
def test_any_types_are_refused_or_summed_alike_for_any_other_row(tmp_path: Path, table: Made) -> None:
    seen = outcome(parquet(tmp_path, table.types, table.rows), "person")
    changed = [table.other, *table.rows[1:]]
    assert outcome(parquet(tmp_path, table.types, changed), "person") == seen
    assert isinstance(seen, str) or seen == len(table.rows)


@FEW
@given(table=made(), share=st.floats(0, 0.999))
def test_a_cut_file_is_refused(tmp_path: Path, table: Made, share: float) -> None:
    path = Path(parquet(tmp_path, table.types, table.rows).paths[0])
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert isinstance(outcome(source(path), "person"), str)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet"])
@FEW
@given(content=st.binary(max_size=300))
def test_any_bytes_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert isinstance(outcome(source(tmp_path / name), "person"), str)


def test_ten_thousand_columns_are_no_obstacle(tmp_path: Path) -> None:
    more = [f"{CANARY}-{place}" for place in range(10_000)]
    row = ["p", "1", "1970-01-02", "yes", "7", *more]
    (tmp_path / "t.csv").write_text("\n".join(",".join(line) for line in ([*NAMES, *more], row, row)))
    assert outcome(source(tmp_path / "t.csv"), "person") == 2
    assert "column code is missing" in str(
        outcome(source(_renamed(tmp_path, [*NAMES[:4], *more], [row[:4] + more] * 2)), "person")
    )
    columns = {name: [value] * 2 for name, value in zip([*NAMES, *more], row, strict=True)}
    columns |= {"y": [1.0, 2.0], "born": [datetime.date(1970, 1, 2)] * 2}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert outcome(source(tmp_path / "t.parquet"), "person") == 2


def _renamed(folder: Path, names: list[str], rows: list[list[str]]) -> Path:
    (folder / "t.csv").write_text("\n".join(",".join(line) for line in (names, *rows)))
    return folder / "t.csv"


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
@MANY
@given(table=made())
def test_many_values_of_declared_types_are_summed(tmp_path: Path, writer: Writer, table: Made) -> None:
    summed_with_any_row(tmp_path, writer, table)


@pytest.mark.slow
@MANY
@given(table=made(), places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_parquet_is_refused_or_summed(tmp_path: Path, table: Made, places: list[tuple[float, int]]) -> None:
    path = Path(parquet(tmp_path, table.types, table.rows).paths[0])
    content = bytearray(path.read_bytes())
    for place, byte in places:
        content[int(place * (len(content) - 1))] = byte
    path.write_bytes(content)
    for unit in ("person", None):
        outcome(source(path), unit)
