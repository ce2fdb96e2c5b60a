"""Dates and decimals of Parquet files become the same numbers as their text does elsewhere."""

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes.secure.sources.open_source import lay_out
from dpbayes.study.table_source import ColumnRule, TableSource
from tests.dpbayes.secure.sources.cases import RULES, refusal


def stored(path: Path, rule: ColumnRule, values: pa.Array) -> TableSource:
    pq.write_table(pa.table({rule.name: values}), path, row_group_size=3)
    return TableSource(path=str(path), columns=(rule,), unit=None)


def read(table: TableSource) -> list[Any]:
    name = table.columns[0].name
    columns = [batch.read((name,)).column(name) for batch in lay_out(table).batches()]
    return [value for column in columns for value in column.cast(pa.float64()).to_pylist()]


DAYS = [None, 0, -1, 19782, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(DAYS, pa.int32()).cast(pa.date32()),
        pa.array([None if day is None else day * 86_400_000 for day in DAYS], pa.int64()).cast(pa.date64()),
        pa.array(DAYS, pa.int32()).cast(pa.date32()).dictionary_encode(),
    ],
    ids=lambda values: str(values.type),
)
def test_dates_are_days(tmp_path: Path, values: pa.Array) -> None:
    assert read(stored(tmp_path / "t.parquet", RULES[1], values)) == DAYS


def test_a_column_of_dates_takes_dates_only_and_others_take_none(tmp_path: Path) -> None:
    number = stored(tmp_path / "t.parquet", RULES[1], pa.array([1.0]))
    assert "column born is stored as double. Store it as date." in refusal(number)
    date = stored(tmp_path / "t.parquet", RULES[0], pa.array([datetime.date(2026, 1, 1)]))
    assert "column x is stored as date32[day]. Store it as integer, float, decimal or boolean." in refusal(date)
    moment = stored(tmp_path / "t.parquet", RULES[1], pa.array([datetime.datetime(2026, 1, 1)]))
    assert "column born is stored as timestamp[us]. Store it as date." in refusal(moment)
    assert read(stored(tmp_path / "t.parquet", RULES[1], pa.nulls(2))) == [None, None]


@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (18, 9), (38, 20), (38, 0)])
def test_decimals_become_the_nearest_doubles(tmp_path: Path, precision: int, scale: int) -> None:
    chance = random.Random(precision * scale)
    digits = [chance.randrange(-(10**precision) + 1, 10**precision) for _ in range(500)]
    values = [None, *(Decimal(one).scaleb(-scale) for one in digits)]
    column = pa.array(values, pa.decimal128(38, scale))
    expected = [None if value is None else float(value) for value in values]
    assert read(stored(tmp_path / "t.parquet", RULES[0], column)) == expected
    if scale:
        assert column.cast(pa.float64()).to_pylist() != expected  # Arrow's own cast, which misses some
