"""Holders with files of their own: the same sums as by a column, whatever the format, the cut or an interruption."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from dpbayes.secure.read_table import check_shape, read_statistics
from dpbayes.secure.resume import PassCheckpoint
from dpbayes.secure.sources.parquet import RowGroup
from dpbayes.study.table_source import Holders, Query, TableSource
from dpbayes_core.errors import ShapeMismatch
from dpbayes_core.regression.holders import HolderStatistics, HolderSums
from storage.home.vault import Vault
from tests.support.small_tables import KEY, RULES, STATISTIC, ordinary_rows, table

OFFICES = ("n", "s")
ROWS = [row | {"office": OFFICES[place % 3 == 0]} for place, row in enumerate(ordinary_rows(300, people=90, seed=3))]
SPLIT = Holders(column="office", names=OFFICES, membership="fixed")


def written(folder: Path, rows: list[dict[str, Any]], name: str, cut: int = 40) -> str:
    folder.mkdir(exist_ok=True)
    path, columns = folder / name, table(rows).append_column("office", pa.array([row["office"] for row in rows]))
    if name.endswith(".csv"):
        arrow_csv.write_csv(columns, path)
    else:
        pq.write_table(columns, path, row_group_size=cut)
    return str(path)


def by_column(folder: Path, membership: Any = "fixed") -> TableSource:
    split = replace(SPLIT, membership=membership)
    path = written(folder, ROWS, "all.parquet")
    return TableSource(path=path, columns=(*RULES, split.rule), unit="person", holders=split)


def by_files(folder: Path, ending: str = "parquet", membership: Any = "fixed", cut: int = 40) -> TableSource:
    paths = [
        tuple(written(folder, [row for row in rows if row["office"] == one], f"{one}{place}.{ending}", cut)
              for place, rows in enumerate((ROWS[:170], ROWS[170:])))
        for one in OFFICES
    ]  # fmt: skip
    split = replace(SPLIT, column="[holder]", membership=membership, paths=tuple(paths))
    return TableSource(columns=(*RULES, split.rule), unit="person", holders=split)


def summed(source: TableSource, workers: int = 2, checkpoint: PassCheckpoint | None = None) -> HolderStatistics:
    assert source.holders is not None
    statistic = HolderSums(STATISTIC, source.holders.column, OFFICES)
    return read_statistics(source, statistic, key=KEY, workers=workers, checkpoint=checkpoint).statistics


@pytest.mark.parametrize("membership", ["fixed", "movable"])
@pytest.mark.parametrize("unit", ["person", None])
@pytest.mark.parametrize(("ending", "cut", "workers"), [("parquet", 40, 2), ("parquet", 7, 1), ("csv", 0, 2)])
def test_files_of_each_holder_give_the_sums_that_a_column_gives(
    tmp_path: Path, ending: str, cut: int, workers: int, unit: str | None, membership: str
) -> None:
    one = replace(by_column(tmp_path, membership), unit=unit)
    other = replace(by_files(tmp_path / "files", ending, membership, cut), unit=unit)
    assert summed(one) == summed(other, workers)
    assert all(part.rows for part in summed(one).parts)


def test_an_interrupted_pass_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, vault, read = by_files(tmp_path / "files"), Vault(tmp_path / "vault"), RowGroup.read
    (tmp_path / "keys").mkdir(mode=0o700)
    began, dies_at = list[int](), [0]

    def dying(group: RowGroup, columns: tuple[str, ...]) -> Any:
        began.append(1)
        if len(began) == dies_at[0]:
            raise KeyboardInterrupt
        return read(group, columns)

    monkeypatch.setattr(RowGroup, "read", dying)
    whole, batches = summed(source, 1), len(began)
    dies_at[0] = batches + 5
    with pytest.raises(KeyboardInterrupt):
        summed(source, 1, PassCheckpoint.open(vault, tmp_path / "keys", "request"))
    began.clear()
    dies_at[0] = 0
    assert summed(source, 1, PassCheckpoint.open(vault, tmp_path / "keys", "request")) == whole
    assert 0 < len(began) <= batches - 4


def test_a_file_of_two_holders_or_of_none_is_another_shape(tmp_path: Path) -> None:
    source = by_files(tmp_path)
    check_shape(source)
    assert source.holders is not None
    first = source.holders.paths[0]
    for paths, said in (((first, first), "is that of two holders"), ((first, ("nowhere.parquet",)), "no such file")):
        with pytest.raises(ShapeMismatch, match=said):
            check_shape(replace(source, holders=replace(source.holders, paths=paths)))


def test_a_table_that_lacks_the_holders_column_is_another_shape(tmp_path: Path) -> None:
    source = by_column(tmp_path)
    pq.write_table(table(ROWS), source.paths[0])
    with pytest.raises(ShapeMismatch, match="column office is missing"):
        check_shape(source)


def test_whose_a_row_is_may_be_a_dictionary_a_number_or_nothing(tmp_path: Path) -> None:
    numbered = Holders(column="office", names=("1", "2"), membership="fixed")
    columns = table(ROWS)
    codes = np.where(np.arange(len(ROWS)) % 3 == 0, 2, 1)
    found = []
    for stored in (pa.array(codes), pa.array(codes.astype(str)), pa.array(codes.astype(str)).dictionary_encode()):
        pq.write_table(columns.append_column("office", stored), tmp_path / "t.parquet")
        source = TableSource(
            path=str(tmp_path / "t.parquet"), columns=(*RULES, numbered.rule), unit="person", holders=numbered
        )
        found.append(read_statistics(source, HolderSums(STATISTIC, "office", numbered.names), key=KEY).statistics)
    assert found[0] == found[1] == found[2]
    pq.write_table(columns.append_column("office", pa.nulls(len(ROWS))), tmp_path / "t.parquet")
    nobody = read_statistics(source, HolderSums(STATISTIC, "office", numbered.names), key=KEY)
    assert [part.rows for part in nobody.statistics.parts] == [0, 0]


@pytest.mark.parametrize("keeps", ["csv", "sqlite"])
def test_a_column_of_text_or_of_a_query_tells_holders_apart_as_well(tmp_path: Path, keeps: str) -> None:
    parquet = by_column(tmp_path)
    if keeps == "csv":
        other = replace(parquet, path=written(tmp_path, ROWS, "all.csv"))
    else:
        with closing(sqlite3.connect(tmp_path / "t.db")) as database, database:
            database.execute("CREATE TABLE t (person TEXT, wage REAL, age REAL, female TEXT, region TEXT, office TEXT)")
            database.executemany("INSERT INTO t VALUES (:person, :wage, :age, :female, :region, :office)", ROWS)
        text = "SELECT * FROM t WHERE :period = '2026-01'"
        query = Query(url=f"sqlite:///{tmp_path / 't.db'}", text=text, period="2026-01")
        other = replace(parquet, path=(), query=query)
    assert summed(other) == summed(parquet)
