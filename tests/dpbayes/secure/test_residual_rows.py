"""A second step reads the rows of the first: those that its sums are of, however the table is kept, cut or resumed."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from dpbayes.secure.read_table import read_statistics
from dpbayes.secure.resume import PassCheckpoint
from dpbayes.study.table_source import Query, TableSource
from dpbayes_core.regression.public_fit import fit_of
from dpbayes_core.regression.residual_moments import SecondMomentsWithRows, SumsAndRows, residual_sums
from storage.home.vault import Vault
from tests.support.small_tables import (
    KEY,
    RULES,
    SCHEMA,
    STATISTIC,
    Row,
    ordinary_rows,
    rows_each,
    source,
    stored,
    sums_of,
    table,
    write,
)

ROWS = ordinary_rows(600, people=200, seed=20261120)
WITH_ROWS = SecondMomentsWithRows(SCHEMA)
FIT = fit_of((0.1, 0.2, -0.1, 0.05, 0.02), 0.1)


def parquet(folder: Path, rows: list[Row]) -> TableSource:
    return source(write(folder / "t.parquet", rows, 97))


def csv(folder: Path, rows: list[Row]) -> TableSource:
    pa.csv.write_csv(table(rows), folder / "t.csv")
    return source(folder / "t.csv")


def sqlite(folder: Path, rows: list[Row]) -> TableSource:
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute("CREATE TABLE t (person TEXT, wage REAL, age REAL, female TEXT, region TEXT)")
        held = [tuple(row[name] for name in ("person", "wage", "age", "female", "region")) for row in rows]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", held)
    query = Query(url=f"sqlite:///{folder / 't.db'}", text="SELECT * FROM t", period="2026-01")
    return TableSource(query=query, columns=RULES, unit="person")


def kept(table: TableSource, checkpoint: PassCheckpoint | None = None, workers: int = 2) -> SumsAndRows:
    return read_statistics(table, WITH_ROWS, key=KEY, workers=workers, checkpoint=checkpoint).statistics


@pytest.mark.parametrize("most", [None, 1, 3])
@pytest.mark.parametrize("keep", [parquet, csv, sqlite])
def test_the_rows_are_those_that_count_and_what_they_sum_to(
    tmp_path: Path, keep: Callable[[Path, list[Row]], TableSource], most: int | None
) -> None:
    declared = replace(keep(tmp_path, ROWS), unit=None if most is None else "person", max_rows_per_unit=most or 1)
    due, found = ROWS if most is None else rows_each(ROWS, most), kept(declared)
    assert found.second.sums == sums_of(due)
    assert sorted(map(tuple, np.concatenate(found.rows).tolist())) == sorted(map(stored, due))
    again = WITH_ROWS.sum(WITH_ROWS.encode({name: np.zeros(0) for name in WITH_ROWS.columns}))
    assert again.rows == ()
    in_order = (np.array([stored(row) for row in due], dtype=np.int32),)
    assert residual_sums(SCHEMA, FIT, found.rows) == residual_sums(SCHEMA, FIT, in_order)


@pytest.mark.parametrize("unit", ["person", None])
def test_a_resumed_pass_has_the_same_rows(tmp_path: Path, unit: str | None) -> None:
    for name in ("keys", "vault"):
        (tmp_path / name).mkdir(mode=0o700)
    declared = source(write(tmp_path / "t.parquet", ROWS, 97), unit)
    passes = [kept(declared, PassCheckpoint.open(Vault(tmp_path / "vault"), tmp_path / "keys", "r")) for _ in range(2)]
    assert passes[0].second == passes[1].second == read_statistics(declared, STATISTIC, key=KEY).statistics
    first, again = (residual_sums(SCHEMA, FIT, one.rows) for one in passes)
    assert first == again
