"""What one person can move at each holder, through Parquet and the real pass: never exceeded, attained, and why.

Fixed and undeclared holders count a person's rows each by itself, so that their published counts stay when a person is
replaced by another of the same holders. Where people move, a person's rows are bounded over all holders together.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes.secure.read_table import SecurePass, read_statistics
from dpbayes.study.table_source import ColumnRule, Holders, TableSource
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.holders import HolderSums
from dpbayes_core.regression.moments import PRODUCT_BITS, ExactStatistics, SecondMoments
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from tests.support.small_tables import KEY

BOX = Bounds(-1, 1)
SCHEMA = RegressionSchema(Continuous("y", BOX), (Continuous("x", BOX),))
OFFICES = ("n", "s", "w")
STATISTIC = HolderSums(SecondMoments(SCHEMA), "office", OFFICES)
REPLACED, ADDED = regression_sensitivity(SCHEMA), regression_sensitivity(SCHEMA, "add-remove")
Row = dict[str, Any]
Table = list[Row]


def source(path: Path, membership: Any, most: int = 1) -> TableSource:
    holders = Holders(column="office", names=OFFICES, membership=membership)
    rules = (ColumnRule(name="x", bounds=BOX), ColumnRule(name="y", bounds=BOX), holders.rule)
    return TableSource(path=str(path), columns=rules, unit="person", max_rows_per_unit=most, holders=holders)


def passed(folder: Path, rows: Table, membership: str, most: int = 1, cut: int = 7) -> SecurePass:
    path = folder / "table.parquet"
    columns = {name: [row[name] for row in rows] for name in ("person", "x", "y", "office")}
    pq.write_table(pa.table(columns), path, row_group_size=cut)
    return read_statistics(source(path, membership, most), STATISTIC, key=KEY)


def parts(folder: Path, rows: Table, membership: str, most: int = 1) -> tuple[ExactStatistics, ...]:
    return passed(folder, rows, membership, most).statistics.parts


def rows_of(person: str, offices: list[str | None], generator: np.random.Generator) -> Table:
    values = generator.choice([-1.0, 1.0, 0.0, 0.3, 2.0], (len(offices), 2))
    return [{"person": person, "x": x, "y": y, "office": one} for (x, y), one in zip(values, offices, strict=True)]


def crowd(generator: np.random.Generator) -> Table:
    """People of one office each, with one row to three."""
    table = Table()
    for number in range(20):
        office = str(generator.choice(OFFICES))
        table += rows_of(f"P{number}", [office] * int(generator.integers(1, 4)), generator)
    return table


def change(one: ExactStatistics, other: ExactStatistics, declared: Sensitivity) -> tuple[float, float]:
    """How far two holders' sums are apart, in shares of what is declared: L1, and L2 with its weights."""
    counted = len(declared.weights) > len(one.sums)
    first, second = (part.with_count().sums if counted else part.sums for part in (one, other))
    moved = np.array([float(b - a) for a, b in zip(first, second, strict=True)]) / 2.0**PRODUCT_BITS
    return float(np.abs(moved).sum() / declared.l1), float(np.linalg.norm(moved * declared.weights) / declared.l2)


@pytest.mark.parametrize("seed", range(12))
def test_a_person_replaced_within_a_fixed_holder_moves_that_holder_alone(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rest, office = crowd(generator), str(generator.choice(OFFICES))
    sides = [rest + rows_of(name, [office] * int(generator.integers(1, 4)), generator) for name in ("old", "new")]
    before, after = (parts(tmp_path, side, "fixed") for side in sides)
    for name, one, other in zip(OFFICES, before, after, strict=True):
        assert one.rows == other.rows
        assert max(change(one, other, REPLACED)) <= 1
        assert name == office or one == other


@pytest.mark.parametrize(("there", "norm"), [(-1 / 3, 0), (-1.0, 1)])
def test_somebody_within_a_fixed_holder_attains_the_declared_sensitivity(
    tmp_path: Path, there: float, norm: int
) -> None:
    rest = crowd(np.random.default_rng(1))
    sides = [[*rest, {"person": "one", "x": at, "y": at, "office": "s"}] for at in (1.0, there)]
    before, after = (parts(tmp_path, side, "fixed") for side in sides)
    assert 0.9999 < change(before[1], after[1], REPLACED)[norm] <= 1


@pytest.mark.parametrize("membership", ["fixed", "undeclared"])
@pytest.mark.parametrize("seed", range(8))
def test_a_person_of_several_holders_moves_each_of_them_no_further_than_a_person_of_one(
    tmp_path: Path, seed: int, membership: str
) -> None:
    """Where the promise of fixed membership is broken, the loss is the sum over that person's holders."""
    generator = np.random.default_rng(seed)
    rest = crowd(generator)
    own = list(generator.choice(OFFICES, 2, replace=False))
    sides = [rest + rows_of(name, [*own, str(generator.choice(own))], generator) for name in ("old", "new")]
    before, after = (parts(tmp_path, side, membership) for side in sides)
    for name, one, other in zip(OFFICES, before, after, strict=True):
        assert one.rows == other.rows
        assert max(change(one, other, REPLACED)) <= 1
        assert name in own or one == other


def test_a_bound_over_all_holders_would_let_that_person_change_the_published_counts(tmp_path: Path) -> None:
    """Why fixed and undeclared holders count a person's rows each by itself."""
    generator, counts = np.random.default_rng(2), set[tuple[int, ...]]()
    rest = crowd(generator)
    for number in range(12):
        rows = rest + rows_of(f"Q{number}", ["n", "s"], generator)
        counts.add(tuple(part.rows for part in parts(tmp_path, rows, "movable")))
    assert len(counts) > 1


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("seed", range(10))
def test_whoever_moves_wherever_costs_no_more_than_two_steps(tmp_path: Path, seed: int, most: int) -> None:
    """Loss at every holder is linear in L1 and quadratic in L2; over all holders: twice epsilon, four times rho."""
    generator = np.random.default_rng(seed)
    rest, declared = crowd(generator), regression_sensitivity(SCHEMA, "add-remove", most)
    offices = [[*OFFICES, None][place] for place in generator.integers(0, 4, 8)]
    sides = [rest + rows_of("old", offices[:4], generator), rest + rows_of("new", offices[4:], generator)]
    before, after = (parts(tmp_path, side, "movable", most) for side in sides)
    shares = [change(one, other, declared) for one, other in zip(before, after, strict=True)]
    assert sum(l1 for l1, _ in shares) <= 2 * (1 + 1e-12)
    assert sum(l2**2 for _, l2 in shares) <= 4 * (1 + 1e-12)


def test_somebody_who_moves_attains_it_at_the_place_left_and_at_the_place_entered(tmp_path: Path) -> None:
    rest = crowd(np.random.default_rng(1))
    sides = [[*rest, {"person": "one", "x": 1.0, "y": 1.0, "office": office}] for office in ("n", "s")]
    before, after = (parts(tmp_path, side, "movable") for side in sides)
    shares = [change(one, other, ADDED) for one, other in zip(before, after, strict=True)]
    assert shares == [pytest.approx((1, 1), rel=1e-12), pytest.approx((1, 1), rel=1e-12), (0, 0)]


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_than_so_many_rows_of_a_person_count_at_a_holder_or_over_all(tmp_path: Path, most: int) -> None:
    rows = list(rows_of("one", ["n", "s", "w"] * 4 + [None, "elsewhere"], np.random.default_rng(1)))
    for membership, counted in (("fixed", 3 * most), ("undeclared", 3 * most), ("movable", most)):
        done = passed(tmp_path, rows, membership, most)
        assert sum(part.rows for part in done.statistics.parts) == counted
        assert done.profile.duplicate_rows == 12 - counted
        assert done.profile.several_holders == (None if membership == "movable" else 1)
        assert done.profile.to_record()["columns"]["office"]["nulls"] == 1
        assert done.profile.to_record()["columns"]["office"]["unknown_levels"] == 1


def test_the_steward_learns_how_many_people_are_with_several_holders(tmp_path: Path) -> None:
    generator = np.random.default_rng(4)
    shared = [row for number in range(9) for row in rows_of(f"Q{number}", ["n", "w", "w"], generator)]
    assert passed(tmp_path, crowd(generator), "fixed").profile.several_holders == 0
    assert passed(tmp_path, crowd(generator) + shared, "fixed", cut=3).profile.several_holders == 9


@pytest.mark.parametrize("unit", ["person", None])
def test_each_holder_has_the_sums_of_a_table_of_its_own(tmp_path: Path, unit: str | None) -> None:
    rows = crowd(np.random.default_rng(5)) + rows_of("stranger", ["elsewhere", None], np.random.default_rng(6))
    together = replace(source(tmp_path / "table.parquet", "fixed", most=3), unit=unit)  # all rows of everybody
    passed(tmp_path, rows, "fixed")
    found = read_statistics(together, STATISTIC, key=KEY).statistics.parts
    for office, part in zip(OFFICES, found, strict=True):
        passed(tmp_path, [row for row in rows if row["office"] == office], "fixed")
        alone = replace(together, columns=together.columns[:2], holders=None)
        assert part == read_statistics(alone, SecondMoments(SCHEMA), key=KEY).statistics
