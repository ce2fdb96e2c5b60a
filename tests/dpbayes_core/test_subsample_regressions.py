"""The pass over unbounded columns: exact for every order and cut, total on values, keyed by person."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpbayes_core.regression.schema import Factor
from dpbayes_core.subsample.kernels import LEAST, subset_numbers
from dpbayes_core.subsample.moments import scatters
from dpbayes_core.subsample.regressions import LARGEST, SubsetMoments, SubsetRegressions
from dpbayes_core.subsample.schema import OpenSchema, Unbounded
from tests.support.small_tables import siphash
from tests.support.subsets import dealt

Columns = dict[str, NDArray[np.float64]]
SCHEMA = OpenSchema("y", (Unbounded("x"), Factor("region", ("a", "b", "c"))))
KEY = np.array([1, 2], dtype=np.uint64)


def table(rows: int, seed: int = 1) -> tuple[Columns, NDArray[np.uint64]]:
    generator = np.random.default_rng(seed)
    wild = 10.0 ** generator.integers(-12, 12, rows)
    columns = {
        "x": generator.normal(size=rows) * wild,
        "region": generator.integers(0, 3, rows).astype(np.float64),
        "y": generator.normal(2020, 1, rows),
    }
    return columns, generator.integers(0, 2**63, (rows, 2)).astype(np.uint64)


def summed(statistic: SubsetRegressions, columns: Columns, people: NDArray[np.uint64]) -> SubsetMoments:
    return statistic.sum(statistic.encode(columns), people)


def test_any_order_and_cut_gives_the_same_sums() -> None:
    columns, people = table(5000)
    statistic = SubsetRegressions(SCHEMA, 7, KEY)
    whole = summed(statistic, columns, people)
    order = np.random.default_rng(2).permutation(5000)
    parts = statistic.empty()
    for part in np.split(order, [0, 3, 1700, 4999]):
        parts += summed(statistic, {name: values[part] for name, values in columns.items()}, people[part])
    assert parts == whole
    assert whole.rows == 5000


def test_sums_are_exact_sums_of_rounded_products() -> None:
    columns, people = table(60)
    statistic = SubsetRegressions(SCHEMA, 2, KEY)
    found = summed(statistic, columns, people)
    numbers = subset_numbers(people, KEY, 2)
    encoded = [columns["x"], columns["region"] == 1, columns["region"] == 2, columns["y"]]
    wide = [values.astype(np.float64) for values in encoded]
    pairs = [(None, i) for i in range(4)] + [(i, j) for i in range(4) for j in range(i, 4)]
    for subset in range(2):
        for entry, (i, j) in enumerate(pairs):
            values = wide[j] if i is None else wide[i] * wide[j]
            exact = sum((Fraction(v) for v in values[numbers == subset].tolist()), Fraction(0))
            held = sum(int(word) << (32 * k) for k, word in enumerate(found.words[subset, entry].tolist()))
            assert abs(held * Fraction(2) ** LEAST - exact) < 60 * Fraction(2) ** LEAST


def test_every_value_counts_as_something_finite() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 0.0])
    columns = {"x": odd, "region": np.arange(8) % 3 * 1.0, "y": odd[::-1].copy()}
    people = np.arange(16, dtype=np.uint64).reshape(8, 2)
    statistic = SubsetRegressions(SCHEMA, 1, KEY)
    found = summed(statistic, columns, people)
    capped = np.clip(np.nan_to_num(odd, nan=0.0, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)
    same = summed(statistic, {**columns, "x": capped, "y": capped[::-1].copy()}, people)
    assert found == same
    centred = scatters(found)
    assert np.isfinite(centred.means).all()
    assert np.isfinite(centred.scatters).all()


def test_no_rows_can_be_summed() -> None:
    statistic = SubsetRegressions(SCHEMA, 3, KEY)
    nothing = {name: np.zeros(0) for name in ("x", "region", "y")}
    assert summed(statistic, nothing, np.zeros((0, 2), np.uint64)) == statistic.empty()
    assert not scatters(statistic.empty()).scatters.any()


def test_means_a_million_times_the_spread_leave_five_digits_of_a_slope() -> None:
    generator = np.random.default_rng(3)
    x = generator.normal(size=4000)
    rows = np.stack([x + 1e6, 2 * x + 1e6], axis=1)
    found = dealt(rows, np.zeros(4000, np.int64), 1)
    slope = found.scatters[0, 0, 1] / found.scatters[0, 0, 0]
    assert abs(slope - np.polyfit(rows[:, 0] - 1e6, rows[:, 1] - 1e6, 1)[0]) < 1e-5


def test_a_person_has_one_subset_and_subsets_are_even() -> None:
    people = np.random.default_rng(4).integers(0, 2**63, (20_000, 2)).astype(np.uint64)
    numbers = subset_numbers(people, KEY, 10)
    assert np.array_equal(numbers, subset_numbers(people.copy(), KEY, 10))
    assert stats.chisquare(np.bincount(numbers, minlength=10)).pvalue > 1e-6
    other = subset_numbers(people, np.array([1, 3], dtype=np.uint64), 10)
    assert abs((numbers == other).mean() - 0.1) < 0.02


def test_subsets_are_those_of_a_plain_siphash() -> None:
    people = np.random.default_rng(5).integers(0, 2**63, (50, 2)).astype(np.uint64)
    hashes = [int.from_bytes(siphash(KEY.tobytes(), person.tobytes(), 8), "little") for person in people]
    assert subset_numbers(people, KEY, 1000).tolist() == [((each >> 32) * 1000) >> 32 for each in hashes]


def test_every_statistic_has_a_key_of_its_own() -> None:
    keys = {SubsetRegressions(SCHEMA, 2).key.tobytes() for _ in range(20)}
    assert len(keys) == 20


def test_where_every_row_is_a_person_rows_are_dealt_out_at_random() -> None:
    columns, _ = table(4000)
    statistic = SubsetRegressions(SCHEMA, 4, KEY)
    first, second = (statistic.sum(statistic.encode(columns), None) for _ in range(2))
    assert first.rows == second.rows == 4000
    assert first != second


def test_sums_survive_as_plain_arrays_and_leave_no_other_way() -> None:
    columns, people = table(100)
    statistic = SubsetRegressions(SCHEMA, 2, KEY)
    found = summed(statistic, columns, people)
    assert SubsetMoments.from_arrays(found.to_arrays()) == found
    for secret in (found, statistic, scatters(found), statistic.encode(columns)):
        assert "withheld" in repr(secret)
        with pytest.raises(TypeError, match="confidential"):
            pickle.dumps(secret)
