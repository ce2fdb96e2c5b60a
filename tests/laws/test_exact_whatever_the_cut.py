"""One table, cut in every way: the same exact statistics, equal to sums of Python integers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpbayes.secure.read_table import read_statistics
from dpbayes.study.table_source import TableSource
from tests.support.small_tables import KEY, STATISTIC, Row, one_row_each, ordinary_rows, source, sums_of, write

ROWS = ordinary_rows(400, people=150, seed=20261118)


def whole(path: Path, rows: list[Row]) -> Path:
    return write(path / "table.parquet", rows)


def small_row_groups(path: Path, rows: list[Row]) -> Path:
    return write(path / "table.parquet", rows, row_group_size=37)


def one_row_groups(path: Path, rows: list[Row]) -> Path:
    return _split(path, rows, 200, 1)


def shuffled(path: Path, rows: list[Row]) -> Path:
    order = np.random.default_rng(7).permutation(len(rows))
    return write(path / "table.parquet", [rows[place] for place in order], row_group_size=64)


def shuffled_row_groups(path: Path, rows: list[Row]) -> Path:
    groups = [rows[start : start + 50] for start in range(0, len(rows), 50)]
    order = np.random.default_rng(8).permutation(len(groups))
    return write(path / "table.parquet", [row for place in order for row in groups[place]], row_group_size=50)


def many_files(path: Path, rows: list[Row]) -> Path:
    return _split(path, rows, 90, 40)


def files_in_another_order(path: Path, rows: list[Row]) -> Path:
    return _split(path, rows[::-1], 300, 11)


def with_an_empty_file(path: Path, rows: list[Row]) -> Path:
    folder = _split(path, rows, 300, 100)
    write(folder / "z.parquet", [])
    return folder


def _split(path: Path, rows: list[Row], rows_a_file: int, row_group_size: int) -> Path:
    folder = path / "table"
    folder.mkdir()
    for place, start in enumerate(range(0, len(rows), rows_a_file)):
        write(folder / f"part-{place}.parquet", rows[start : start + rows_a_file], row_group_size)
    return folder


CUTS = (
    whole,
    small_row_groups,
    one_row_groups,
    shuffled,
    shuffled_row_groups,
    many_files,
    files_in_another_order,
    with_an_empty_file,
)


def exact(table: TableSource, workers: int) -> tuple[int, tuple[int, ...]]:
    statistics = read_statistics(table, STATISTIC, key=KEY, workers=workers).statistics
    return statistics.rows, statistics.sums


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
def test_every_cut_gives_the_sums_of_python_integers(
    tmp_path: Path, cut: Callable[[Path, list[Row]], Path], workers: int
) -> None:
    path = cut(tmp_path, ROWS)
    assert exact(source(path, unit=None), workers) == (len(ROWS), sums_of(ROWS))


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
def test_every_cut_counts_the_same_row_of_each_person(
    tmp_path: Path, cut: Callable[[Path, list[Row]], Path], workers: int
) -> None:
    counted = one_row_each(ROWS)
    path = cut(tmp_path, ROWS)
    assert exact(source(path), workers) == (len(counted), sums_of(counted))


def test_the_comparison_can_fail(tmp_path: Path) -> None:
    changed = [*ROWS[:-1], ROWS[-1] | {"wage": 1.0}]
    path = whole(tmp_path, changed)
    assert exact(source(path, unit=None), 1) != (len(ROWS), sums_of(ROWS))
    first_rows = list({row["person"]: row for row in reversed(ROWS)}.values())  # a choice by order, not by hash
    assert sums_of(first_rows) != sums_of(one_row_each(ROWS))
