"""Who may be replaced by whom: a person with all rows for somebody new, and then one counted row changes, never n.

Neighbours are as docs/data-plane.md defines them; tables go through Parquet and the real pass.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpbayes.secure.read_table import read_statistics
from dpbayes_core.regression.moments import PRODUCT_BITS, ExactStatistics
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from tests.support.small_tables import KEY, SCHEMA, STATISTIC, Row, ordinary_rows, source, sums_of, write

STRANGERS = (None, "", " ", "null", "None", "nan", "07", "7.0", "７", "P1", "p1 ", "p01", "é", "e\u0301", "p" * 300)


def table(seed: int) -> list[Row]:
    """Persons of one row to many, nobody's rows among them in half of the tables."""
    rows = ordinary_rows(40, people=12, seed=seed)
    return [row for row in rows if row["person"] is not None or seed % 2]


def rows_of(person: str | None, count: int, seed: int) -> list[Row]:
    return [row | {"person": person} for row in ordinary_rows(count, people=1, seed=seed)]


def statistics(path: Path, rows: list[Row], cut: int = 7) -> ExactStatistics:
    return read_statistics(source(write(path, rows, cut)), STATISTIC, key=KEY).statistics


def one_row_apart(one: ExactStatistics, other: ExactStatistics, left: list[Row], entered: list[Row]) -> bool:
    """Whether the sums differ by one of the rows that left and one of those that entered, to the last integer."""
    moved = tuple(b - a for a, b in zip(one.sums, other.sums, strict=True))
    apart = (
        tuple(b - a for a, b in zip(sums_of([out]), sums_of([into]), strict=True)) for out in left for into in entered
    )
    return moved in set(apart)


@pytest.mark.parametrize("seed", range(40))
def test_a_replaced_person_moves_one_counted_row_and_n_stays(tmp_path: Path, seed: int) -> None:
    rows, generator = table(seed), np.random.default_rng(seed)
    people = list(dict.fromkeys(row["person"] for row in rows))
    leaves = people[generator.integers(len(people))]
    rest = [row for row in rows if row["person"] != leaves]
    free = [name for name in (*STRANGERS, leaves) if name not in people or name == leaves]
    enters = free[generator.integers(len(free))]
    left = [row for row in rows if row["person"] == leaves]
    entered = rows_of(enters, int(generator.integers(1, 6)), seed + 1000)
    shuffled = [[*rest, *entered][place] for place in generator.permutation(len(rest) + len(entered))]
    one, other = statistics(tmp_path / "a.parquet", rows), statistics(tmp_path / "b.parquet", shuffled, cut=5)
    assert one.rows == other.rows == len(people)
    assert one_row_apart(one, other, left, entered)
    declared = regression_sensitivity(SCHEMA)
    moved = np.array([b - a for a, b in zip(one.sums, other.sums, strict=True)]) / 2.0**PRODUCT_BITS
    assert np.abs(moved).sum() <= declared.l1
    assert np.linalg.norm(moved * declared.weights) <= declared.l2


def test_an_identifier_that_is_there_already_makes_one_person_fewer_and_is_no_replacement(tmp_path: Path) -> None:
    rows = rows_of("a", 2, 1) + rows_of("b", 3, 2)
    assert statistics(tmp_path / "t.parquet", rows).rows == 2
    assert statistics(tmp_path / "t.parquet", rows[:2] + rows_of("a", 3, 2)).rows == 1


def test_among_those_without_an_identifier_one_may_change_come_or_go(tmp_path: Path) -> None:
    named, nameless = rows_of("a", 2, 1), rows_of(None, 3, 2)
    before = statistics(tmp_path / "t.parquet", named + nameless)
    for others in (nameless[1:], nameless + rows_of(None, 1, 3), nameless[:2] + rows_of(None, 1, 4)):
        after = statistics(tmp_path / "t.parquet", named + others)
        assert before.rows == after.rows == 2
        assert one_row_apart(before, after, nameless, others)


def test_but_to_get_an_identifier_is_to_become_another_person(tmp_path: Path) -> None:
    nameless = rows_of(None, 3, 2)
    assert statistics(tmp_path / "t.parquet", nameless).rows == 1
    assert statistics(tmp_path / "t.parquet", nameless[1:] + rows_of("new", 1, 2)).rows == 2


def test_somebody_with_two_identifiers_counts_twice_and_the_comparison_sees_it(tmp_path: Path) -> None:
    rows = rows_of("a", 1, 1) + rows_of("b", 1, 2)
    both = rows_of("a", 1, 3) + rows_of("b", 1, 4)
    one, other = statistics(tmp_path / "a.parquet", rows), statistics(tmp_path / "b.parquet", both)
    assert not one_row_apart(one, other, rows, both)


@pytest.mark.parametrize(("seed", "most"), [(seed, most) for seed in range(12) for most in (1, 2, 5)])
def test_a_person_of_several_rows_comes_goes_or_is_replaced_within_the_declared_sensitivity(
    tmp_path: Path, seed: int, most: int
) -> None:
    generator = np.random.default_rng(seed)
    rows = table(seed)
    rest = [row for row in rows if row["person"] != "p3"]
    sides = [rest, *(rest + rows_of("p3", int(generator.integers(1, 9)), seed + place) for place in (2000, 3000))]
    found = [
        read_statistics(
            replace(source(write(tmp_path / f"{place}.parquet", side, 5)), max_rows_per_unit=most), STATISTIC, key=KEY
        ).statistics.with_count()
        for place, side in enumerate(sides)
    ]
    relations = {"add-remove": found[:2], "replace-one": found[1:]}
    for relation, (one, other) in relations.items():
        declared = regression_sensitivity(SCHEMA, relation, most)
        moved = np.array([float(b - a) for a, b in zip(one.sums, other.sums, strict=True)]) / 2.0**PRODUCT_BITS
        assert abs(one.rows - other.rows) <= most
        assert np.abs(moved).sum() <= declared.l1
        assert np.linalg.norm(moved[-len(declared.weights) :] * declared.weights) <= declared.l2
