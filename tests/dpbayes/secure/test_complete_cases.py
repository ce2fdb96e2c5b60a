"""Complete cases in the pass: the same rows for every cut, person, holder and statistic, and their number is kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes.secure.batches import read_part
from dpbayes.secure.columns import Reading
from dpbayes.secure.read_table import SecurePass, read_statistics
from dpbayes.secure.sources.open_source import lay_out
from dpbayes.study.table_source import ColumnRule, Holders, TableSource
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.fourth import SecondAndFourthMoments
from dpbayes_core.regression.holders import HolderSums
from dpbayes_core.regression.moments import SecondMoments
from tests.support.small_tables import (
    KEY,
    RULES,
    SCHEMA,
    Row,
    ordinary_rows,
    rows_each,
    source,
    sums_of,
    table,
    write,
)

COMPLETE = replace(SCHEMA, cases="complete")
STATISTIC = SecondMoments(COMPLETE)
KEPT = tuple(replace(rule, stays_missing=True, null_value=None, unknown=None) for rule in RULES)
ROWS = ordinary_rows(500, people=150, seed=20261120)


def is_complete(row: Row) -> bool:
    numbers = all(row[name] is not None and row[name] == row[name] for name in ("wage", "age"))
    return numbers and row["female"] in ("no", "yes") and row["region"] in ("north", "south", "east")


WHOLE = [row for row in ROWS if is_complete(row)]


def read(path: Path, most: int = 1, workers: int = 2, **more: object) -> SecurePass:
    seen = replace(source(path), columns=KEPT, max_rows_per_unit=most, **more)  # type: ignore[arg-type]
    return read_statistics(seen, STATISTIC, key=KEY, workers=workers)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize(("size", "workers"), [(7, 1), (100, 3), (1000, 2)])
def test_the_same_complete_rows_count_whatever_the_cut(tmp_path: Path, size: int, workers: int, most: int) -> None:
    counted = rows_each(WHOLE, most)
    done = read(write(tmp_path / "t.parquet", ROWS, size), most, workers)
    assert (done.statistics.rows, done.statistics.sums) == (len(counted), sums_of(counted))
    assert done.profile.incomplete_rows == len(ROWS) - len(WHOLE)
    assert done.profile.duplicate_rows == len(WHOLE) - len(counted)


def test_a_person_with_one_complete_row_counts(tmp_path: Path) -> None:
    whole = WHOLE[0] | {"person": "p"}
    rows = [whole | {"wage": None}, whole | {"female": None}, whole, whole | {"region": "unheard of"}]
    done = read(write(tmp_path / "t.parquet", rows))
    assert (done.statistics.rows, done.statistics.sums) == (1, sums_of([whole]))


def test_a_table_without_a_complete_row_is_the_zero_statistic(tmp_path: Path) -> None:
    done = read(write(tmp_path / "t.parquet", [row | {"wage": None} for row in ROWS]))
    assert (done.statistics.rows, set(done.statistics.sums)) == (0, {0})


def test_what_a_batch_keeps_for_a_later_pass_knows_how_many_rows_were_left_out(tmp_path: Path) -> None:
    for unit in ("person", None):
        seen = replace(source(write(tmp_path / "t.parquet", ROWS), unit), columns=KEPT)
        from dpbayes.secure.contribution import Keys

        (batch,) = lay_out(seen).batches()
        part = read_part(batch, seen, STATISTIC, None if unit is None else Keys.derive(KEY))
        again = type(part).from_arrays(part.to_arrays(), STATISTIC)
        assert again.profile.incomplete_rows == part.profile.incomplete_rows == len(ROWS) - len(WHOLE)


def test_every_holder_has_its_complete_rows_and_nobodys_are_not_counted_twice(tmp_path: Path) -> None:
    offices = [("n", "s", "elsewhere")[place % 3] for place in range(len(ROWS))]
    pq.write_table(table(ROWS).append_column("office", pa.array(offices)), tmp_path / "t.parquet")
    holders = Holders(column="office", names=("n", "s"), membership="fixed")
    seen = TableSource(path=str(tmp_path / "t.parquet"), columns=(*KEPT, holders.rule), unit="person", holders=holders)
    statistic, counted = HolderSums(STATISTIC, "office", holders.names), 0
    done = read_statistics(seen, statistic, key=KEY)
    all_rows = read_statistics(replace(seen, max_rows_per_unit=500), statistic, key=KEY).statistics.parts
    for place, name in enumerate(holders.names):  # one row of each: as many, though the choice knows the holder
        own = write(tmp_path / f"{place}.parquet", [row for row, at in zip(ROWS, offices, strict=True) if at == name])
        assert done.statistics.parts[place].rows == read(own).statistics.rows
        assert all_rows[place] == read(own, 500).statistics
        counted += done.statistics.parts[place].rows
    held = [row for row, office in zip(ROWS, offices, strict=True) if office != "elsewhere"]
    assert done.profile.incomplete_rows == sum(not is_complete(row) for row in held)
    assert done.profile.duplicate_rows == len(held) - done.profile.incomplete_rows - counted
    plain = read_statistics(replace(seen, unit=None), statistic, key=KEY)
    assert sum(part.rows for part in plain.statistics.parts) == sum(map(is_complete, held))


def test_third_and_fourth_moments_are_of_the_same_rows(tmp_path: Path) -> None:
    seen = replace(source(write(tmp_path / "t.parquet", ROWS, 90), None), columns=KEPT)
    both = read_statistics(seen, SecondAndFourthMoments(COMPLETE), key=KEY).statistics
    other = replace(seen, path=str(write(tmp_path / "whole.parquet", WHOLE)))
    alone = read_statistics(replace(other, columns=RULES), SecondAndFourthMoments(SCHEMA), key=KEY).statistics
    assert both.second.rows == both.fourth.rows == len(WHOLE)
    assert (both.second.sums, both.fourth.sums) == (alone.second.sums, alone.fourth.sums)


def test_a_missing_value_never_reaches_a_sum(tmp_path: Path) -> None:
    rows = [WHOLE[0] | {"wage": value, "person": str(place)} for place, value in enumerate((1.0, None, np.nan, 2.0))]
    done = read(write(tmp_path / "t.parquet", rows))
    assert done.statistics.sums == sums_of([rows[0], rows[3]])


@pytest.mark.parametrize(
    ("kind", "code", "coded"),
    [
        (pa.int64(), 99_999_999.0, [99_999_999]),
        (pa.float64(), 99_999_999.0, [99_999_999]),
        (pa.decimal128(20, 0), 16_777_217.0, [16_777_217]),
        (pa.float32(), 0.1, [0.1]),
        (pa.float16(), 0.1, [0.1]),
        (pa.float16(), 99_999.0, []),
    ],
)
def test_a_code_is_what_a_column_of_its_type_holds_of_it_and_no_number_beside_it(
    kind: pa.DataType, code: float, coded: list[float]
) -> None:
    """Single precision holds 99,999,999 as 100,000,000, which in a column of whole numbers is another number."""
    beside = [100_000_000, 16_777_216] if pa.types.is_integer(kind) or pa.types.is_decimal(kind) else [2, 0.5]
    plain = [*coded, *beside]
    values = pa.array(np.array(plain).astype(kind.to_pandas_dtype()) if pa.types.is_floating(kind) else plain, kind)
    rule = ColumnRule(name="v", bounds=Bounds(-2e9, 2e9), missing=(code,), stays_missing=True)
    reading = Reading([rule])
    (read_numbers,) = [block["v"] for block in reading.blocks(pa.table({"v": values}))]
    assert np.isnan(read_numbers).tolist() == [True] * len(coded) + [False] * len(beside)
