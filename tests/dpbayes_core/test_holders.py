"""One pass for several holders: each one's sums are those of a pass over its rows alone."""

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.holders import HolderStatistics, HolderSums
from dpbayes_core.regression.moments import SecondMoments
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity

BOX = Bounds(-1, 1)
SCHEMA = RegressionSchema(Continuous("y", BOX), (Continuous("x", BOX), Factor("g", ("a", "b", "c"))))
STATISTIC = HolderSums(SecondMoments(SCHEMA), "site", ("north", "south", "east"))


def columns_of(rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    numbers = {name: generator.uniform(-1.5, 1.5, rows) for name in ("x", "y")}
    return numbers | {"g": generator.integers(0, 3, rows), "site": generator.integers(-1, 4, rows)}


def summed(columns: dict[str, np.ndarray]) -> HolderStatistics:
    return STATISTIC.sum(STATISTIC.encode(columns))


def test_each_holder_has_the_sums_of_its_own_rows_and_strangers_count_nowhere() -> None:
    columns = columns_of(500)
    one = SecondMoments(SCHEMA)
    alone = [{name: values[columns["site"] == code] for name, values in columns.items()} for code in range(3)]
    found = summed(columns)
    assert found.parts == tuple(one.sum(one.encode(own)) for own in alone)
    assert 0 < sum(part.rows for part in found.parts) < 500


def test_splits_add_up_and_go_to_plain_arrays_and_back() -> None:
    columns = columns_of(300)
    halves = [{name: values[part] for name, values in columns.items()} for part in (slice(120), slice(120, None))]
    whole = summed(columns)
    assert summed(halves[0]) + summed(halves[1]) == whole
    assert STATISTIC.empty().from_arrays(whole.to_arrays()) == whole
    assert summed({name: values[:0] for name, values in columns.items()}) == STATISTIC.empty()
    assert STATISTIC.columns == ("x", "g", "y", "site")


@pytest.mark.parametrize("seed", range(30))
def test_a_person_who_moves_changes_two_holders_each_as_under_add_remove(seed: int) -> None:
    rest, one, other = (columns_of(rows, 100 * place + seed) for place, rows in enumerate((20, 1, 1)))
    one["site"], other["site"] = np.array([0]), np.array([seed % 3])
    pair = [summed({name: np.append(rest[name], row[name]) for name in rest}) for row in (one, other)]
    declared = regression_sensitivity(SCHEMA, "add-remove" if seed % 3 else "replace-one")
    moved = 0
    for before, after in zip(pair[0].parts, pair[1].parts, strict=True):
        first, second = (part.with_count().sums for part in (before, after))
        change = sum(abs(a - b) for a, b in zip(first, second, strict=True)) / UNIT**2
        assert change <= declared.l1
        moved += change > 0
    assert moved == (2 if seed % 3 else 1)
