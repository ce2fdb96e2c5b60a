"""One table, kept in every way: the same exact statistics, equal to sums of Python integers."""

import csv
import gzip
import math
import sqlite3
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dpbayes.secure.read_table import check_shape, read_statistics
from dpbayes.study.table_source import ColumnRule, Query, TableSource
from dpbayes_core.regression.moments import SecondMoments
from dpbayes_core.regression.schema import Factor
from tests.support.object_store import ObjectStore
from tests.support.postgres import Server
from tests.support.small_tables import (
    FEMALE,
    KEY,
    RULES,
    SCHEMA,
    STATISTIC,
    TYPES,
    Row,
    one_row_each,
    ordinary_rows,
    sums_of,
    table,
    write,
)

ROWS = ordinary_rows(600, people=200, seed=20261118)
FEW = ordinary_rows(7, people=3, seed=8)


def files(path: Path | str, *more: str) -> TableSource:
    return TableSource(path=(str(path), *more) if more else str(path), columns=RULES, unit="person")


def parquet(folder: Path, rows: list[Row]) -> TableSource:
    return files(write(folder / "t.parquet", rows, 97))


def as_csv(folder: Path, rows: list[Row]) -> TableSource:
    pa.csv.write_csv(table(rows), folder / "t.csv")
    return files(folder / "t.csv")


def csv_of_the_standard_library(folder: Path, rows: list[Row]) -> TableSource:
    """Quotes only where needed, CRLF, a mark of UTF-8, columns in another order, one more than declared."""
    with (folder / "t.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        names = ["region", "note", *[name for name in TYPES if name != "region"]]
        writer.writerow(names)
        for place, row in enumerate(rows):
            writer.writerow([{"note": f'"a,\r\n{place}'}.get(name, row.get(name)) for name in names])
    return files(folder / "t.csv")


def compressed_csv(folder: Path, rows: list[Row]) -> TableSource:
    pa.csv.write_csv(table(rows), folder / "plain.csv")
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "plain.csv").read_bytes()))
    return files(folder / "t.csv.gz")


def tabs(folder: Path, rows: list[Row]) -> TableSource:
    pa.csv.write_csv(table(rows), folder / "t.tsv", pa.csv.WriteOptions(delimiter="\t"))
    return files(folder / "t.tsv")


def folder_of_csv(folder: Path, rows: list[Row]) -> TableSource:
    (folder / "t").mkdir()
    for place in range(3):
        pa.csv.write_csv(table(rows[place::3]), folder / "t" / f"{place}.csv")
    return files(folder / "t")


def pattern(folder: Path, rows: list[Row]) -> TableSource:
    for place, name in enumerate(["a", "b"]):
        (folder / "t" / name).mkdir(parents=True)
        write(folder / "t" / name / "part.parquet", rows[place::2], 50)
    (folder / "t" / "notes.txt").write_text("nothing")
    return files(folder / "t" / "**" / "part.parque?")


def several_files(folder: Path, rows: list[Row]) -> TableSource:
    return files(write(folder / "x.parquet", rows[:200]), str(write(folder / "y.parquet", rows[200:], 33)))


def url(folder: Path, rows: list[Row]) -> TableSource:
    return files(f"file://{write(folder / 't.parquet', rows, 97)}")


def url_of_a_folder(folder: Path, rows: list[Row]) -> TableSource:
    place = f"memory://{uuid.uuid4().hex}/t"
    for part in range(2):
        with fsspec.open(f"{place}/{part}.parquet", "wb") as file:
            pq.write_table(table(rows[part::2]), file, row_group_size=41)
    return files(place)


def url_pattern_of_csv(folder: Path, rows: list[Row]) -> TableSource:
    place = f"memory://{uuid.uuid4().hex}/t"
    for part in range(2):
        with fsspec.open(f"{place}/{part}.csv", "wb") as file:
            pa.csv.write_csv(table(rows[part::2]), file)
    return files(f"{place}/*.csv")


def in_sqlite(folder: Path, rows: list[Row]) -> TableSource:
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute("CREATE TABLE t (month TEXT, person TEXT, wage REAL, age REAL, female TEXT, region TEXT)")
        connection.executemany("INSERT INTO t VALUES ('2026-01', ?, ?, ?, ?, ?)", [tuple(row.values()) for row in rows])
        connection.execute("INSERT INTO t VALUES ('2026-02', 'p', 1, 20, 'no', 'south')")
    connection.close()
    query = Query(url=f"sqlite:///{folder / 't.db'}", text="SELECT * FROM t WHERE month = {period};", period="2026-01")
    return TableSource(query=query, columns=RULES, unit="person")


WAYS = (
    parquet,
    as_csv,
    csv_of_the_standard_library,
    compressed_csv,
    tabs,
    folder_of_csv,
    pattern,
    several_files,
    url,
    url_of_a_folder,
    url_pattern_of_csv,
    in_sqlite,
)


def exact(source: TableSource, workers: int = 2) -> tuple[int, tuple[int, ...]]:
    check_shape(source)
    statistics = read_statistics(source, STATISTIC, key=KEY, workers=workers).statistics
    return statistics.rows, statistics.sums


def without_unit(source: TableSource) -> TableSource:
    return TableSource(path=source.path, query=source.query, columns=source.columns, unit=None)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("rows", [ROWS, FEW, []], ids=len)
def test_every_way_of_keeping_a_table_gives_the_same_sums(
    tmp_path: Path, way: Callable[[Path, list[Row]], TableSource], rows: list[Row]
) -> None:
    counted = one_row_each(rows)
    source = way(tmp_path, rows)
    assert exact(source) == (len(counted), sums_of(counted))
    assert exact(without_unit(source)) == (len(rows), sums_of(rows))


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("way", [as_csv, csv_of_the_standard_library, compressed_csv], ids=lambda way: way.__name__)
def test_a_stream_is_the_same_whatever_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[[Path, list[Row]], TableSource], size: int
) -> None:
    rows = ROWS[:60]
    source = way(tmp_path, rows)
    monkeypatch.setattr("dpbayes.secure.sources.csv.CHUNK", size)
    counted = one_row_each(rows)
    for workers in (1, 3):
        assert exact(source, workers) == (len(counted), sums_of(counted))


def test_a_query_is_the_same_however_many_rows_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = in_sqlite(tmp_path, ROWS)
    monkeypatch.setattr("dpbayes.secure.sources.sql.ROWS", 7)
    counted = one_row_each(ROWS)
    assert exact(source) == (len(counted), sums_of(counted))


def test_the_comparison_can_fail(tmp_path: Path) -> None:
    changed = [*ROWS[:-1], ROWS[-1] | {"wage": 1.0}]
    assert exact(without_unit(as_csv(tmp_path, changed))) != (len(ROWS), sums_of(ROWS))


CODES = {"wage": (-200.0, 1e300), "age": (99.9,), "female": ("refused",), "region": ("-9", "unheard")}
CODED = tuple(
    replace(rule, missing=CODES[rule.name], stays_missing=True, null_value=None, unknown="east" if place == 3 else None)
    for place, rule in enumerate(RULES)
)
COMPLETE = SecondMoments(replace(SCHEMA, cases="complete"))


def coded_rows() -> list[Row]:
    """Rows with nulls, NaN, infinities, codes and unheard-of levels; no empty text, which some writers make null."""
    rows = ordinary_rows(600, people=250, seed=20261120)
    for place, row in enumerate(rows):
        row["region"] = row["region"] or (None if place % 2 else "Łódź")
        for name, codes in CODES.items():
            if (place * 7 + len(name)) % 9 == 0:
                row[name] = codes[place % len(codes)]
    return rows


def is_complete(row: Row) -> bool:
    """By the rules above: what is no level is missing where nothing else is stated, and becomes east where it is."""
    numbers = (row[name] is not None and not math.isnan(row[name]) for name in ("wage", "age"))
    coded = any(row[name] in codes for name, codes in CODES.items())
    return all(numbers) and not coded and row["female"] in FEMALE and row["region"] is not None


def complete_cases(source: TableSource) -> tuple[int, tuple[int, ...], int]:
    done = read_statistics(replace(source, columns=CODED), COMPLETE, key=KEY)
    return done.statistics.rows, done.statistics.sums, done.profile.incomplete_rows


def assert_complete_cases(source: TableSource, rows: list[Row]) -> None:
    kept = [row for row in rows if is_complete(row)]
    counted = one_row_each(kept)
    assert complete_cases(source) == (len(counted), sums_of(counted), len(rows) - len(kept))
    assert complete_cases(without_unit(source)) == (len(kept), sums_of(kept), len(rows) - len(kept))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_of_keeping_a_table_leaves_out_the_same_incomplete_rows(
    tmp_path: Path, way: Callable[[Path, list[Row]], TableSource]
) -> None:
    rows = coded_rows()
    assert 100 < sum(map(is_complete, rows)) < 500
    assert_complete_cases(way(tmp_path, rows), rows)


INDICATED = tuple(
    ColumnRule(name=f"{rule.name}_gone", levels=("no", "yes"), of=rule)
    for rule in CODED
    if rule.name in ("age", "region")
)
BESIDE = SecondMoments(
    replace(SCHEMA, covariates=(*SCHEMA.covariates, *(Factor(rule.name, ("no", "yes")) for rule in INDICATED)))
)
FILLED = tuple(replace(rule, missing=CODES[rule.name]) for rule in RULES)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_of_keeping_a_table_tells_the_same_values_as_missing(
    tmp_path: Path, way: Callable[[Path, list[Row]], TableSource]
) -> None:
    (tmp_path / "kept").mkdir()
    rows = coded_rows()
    written = table(rows)
    for name, gone in (
        ("age", [row["age"] is None or math.isnan(row["age"]) or row["age"] in CODES["age"] for row in rows]),
        ("region", [row["region"] is None or row["region"] in CODES["region"] for row in rows]),
    ):
        assert 0.1 < sum(gone) / len(rows) < 0.9
        written = written.append_column(f"{name}_gone", pa.array(["yes" if each else "no" for each in gone]))
    pq.write_table(written, tmp_path / "explicit.parquet")
    told = tuple(replace(rule, of=None) for rule in INDICATED)
    due = replace(files(tmp_path / "explicit.parquet"), columns=(*FILLED, *told))
    for unit in ("person", None):
        found = replace(way(tmp_path / "kept" if unit else tmp_path, rows), columns=(*FILLED, *INDICATED), unit=unit)
        check_shape(found)
        sums = [read_statistics(one, BESIDE, key=KEY).statistics for one in (found, replace(due, unit=unit))]
        assert sums[0] == sums[1]


def test_codes_of_numbers_are_known_in_single_precision_and_as_decimals(tmp_path: Path) -> None:
    rows = [row | {"wage": 2.0, "female": "no", "region": "north"} for row in FEW[:3]]
    for place, age in enumerate((99.9, 50.0, 99.9)):
        rows[place] |= {"age": age, "person": str(place)}
    for kind in (pa.float32(), pa.float64(), pa.decimal128(5, 2)):
        values = pa.array([row["age"] for row in rows]).cast(kind)
        plain = table(rows).drop(["age"]).append_column("age", values)
        pq.write_table(plain, tmp_path / "t.parquet")
        assert complete_cases(files(tmp_path / "t.parquet"))[0] == 1


@pytest.fixture
def in_postgresql(postgresql: Server) -> Callable[[list[Row]], TableSource]:
    return in_database_of(postgresql)


def in_database_of(postgresql: Server) -> Callable[[list[Row]], TableSource]:
    """Fills a table of a new database, and queries it."""
    address = postgresql.new_database()

    def fill(rows: list[Row]) -> TableSource:
        columns = "month text, person text, wage float8, age float8, female text, region text"
        with postgresql.connect(address.rpartition("/")[2]) as connection:
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute(f"CREATE TABLE t ({columns})")
            values: list[list[Any]] = [["2026-01", *row.values()] for row in rows]
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO t VALUES (%s, %s, %s, %s, %s, %s)", values)
        query = Query(url=address, text="SELECT * FROM t WHERE month = :period", period="2026-01")
        return TableSource(query=query, columns=RULES, unit="person")

    return fill


def test_postgresql_gives_the_same_sums(
    in_postgresql: Callable[[list[Row]], TableSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbayes.secure.sources.sql.ROWS", 100)
    for rows in (ROWS, []):
        counted = one_row_each(rows)
        source = in_postgresql(rows)
        assert exact(source) == (len(counted), sums_of(counted))
        assert exact(without_unit(source)) == (len(rows), sums_of(rows))
    assert_complete_cases(in_postgresql(coded_rows()), coded_rows())


def on_object_store(bucket: str, rows: list[Row]) -> list[TableSource]:
    """One object of each format, two objects of a folder and of a pattern."""
    with fsspec.open(f"{bucket}/t.parquet", "wb") as file:
        pq.write_table(table(rows), file, row_group_size=97)
    with fsspec.open(f"{bucket}/t.csv", "wb") as file:
        pa.csv.write_csv(table(rows), file)
    with fsspec.open(f"{bucket}/t.csv.gz", "wb") as file, gzip.open(file, "wb") as packed:
        pa.csv.write_csv(table(rows), packed)
    for part in range(2):
        with fsspec.open(f"{bucket}/folder/{part}/t.parquet", "wb") as file:
            pq.write_table(table(rows[part::2]), file, row_group_size=41)
        with fsspec.open(f"{bucket}/flat/{part}.csv", "wb") as file:
            pa.csv.write_csv(table(rows[part::2]), file)
    places = ("t.parquet", "t.csv", "t.csv.gz", "flat", "folder/**/*.parquet")
    return [files(f"{bucket}/{place}") for place in places]


@pytest.mark.slow
def test_an_object_store_gives_the_same_sums(object_store: ObjectStore) -> None:
    for rows in (ROWS, []):
        counted = one_row_each(rows)
        for source in on_object_store(object_store.new_bucket(), rows):
            assert exact(source) == (len(counted), sums_of(counted))
            assert exact(without_unit(source)) == (len(rows), sums_of(rows))
