"""What one batch adds up to: sums of Python integers, at the bounds and far beyond, however Arrow holds the values."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpbayes.secure.batches import Part, read_part
from dpbayes.secure.columns import BLOCK_ROWS
from dpbayes.secure.profile import ColumnCounts
from dpbayes_core.bounds import Bounds
from dpbayes_core.exact_sums.kernels import quantise_into
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import SecondMoments
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from tests.support.reference_encoding import quantise
from tests.support.small_tables import RULES, STATISTIC, Row, encoded, ordinary_rows, source, sums_of, table

ODD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, 2.2e-308, 0.0, -0.0, 5.0, 16.0, 80.0, None]


@dataclass
class Held:
    """A batch that is a table in memory."""

    rows: Any
    file: str = "t"
    index: int = 0
    size: int = 0

    def read(self, columns: tuple[str, ...]) -> Any:
        return self.rows.select(columns)


@dataclass
class Streamed(Held):
    """The same, read in pieces."""

    def pieces(self, columns: tuple[str, ...], rows: int) -> Iterator[Any]:
        for start in range(0, self.rows.num_rows, 7):
            yield self.rows.select(columns).slice(start, 7)


def part_of(held: Held) -> Part:
    return read_part(held, source_of_all(), STATISTIC, None)


def source_of_all() -> Any:
    from pathlib import Path

    return source(Path("t"), unit=None)


def odd_rows(count: int, seed: int) -> list[Row]:
    generator = np.random.default_rng(seed)
    rows = ordinary_rows(count, people=3, seed=seed)
    return [row | {"wage": ODD[generator.integers(len(ODD))], "age": ODD[generator.integers(len(ODD))]} for row in rows]


@pytest.mark.parametrize("seed", range(5))
def test_odd_values_give_sums_of_python_integers(seed: int) -> None:
    rows = odd_rows(300, seed)
    for held in (Held(table(rows)), Streamed(table(rows))):
        part = part_of(held)
        assert part.statistics.sums == sums_of(rows)
        assert part.statistics.rows == part.profile.rows == 300
        missing = sum(row["age"] is None for row in rows)
        strange = sum(row["age"] is not None and math.isnan(row["age"]) for row in rows)
        beyond = sum(
            row["age"] is not None and not math.isnan(row["age"]) and not 16 <= row["age"] <= 80 for row in rows
        )
        assert part.profile.columns["age"] == ColumnCounts(nulls=missing, not_a_number=strange, out_of_bounds=beyond)


@pytest.mark.parametrize("start", [1, 3, 8, 13])
def test_validity_is_read_at_the_right_bit_of_a_slice(start: int) -> None:
    rows = odd_rows(200, start)
    cut = pa.concat_tables([table(rows).slice(start, 90), table(rows).slice(start + 95)])
    assert part_of(Held(cut)).statistics.sums == sums_of(rows[start : start + 90] + rows[start + 95 :])


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint64(), pa.float32(), pa.float16(), pa.dictionary(pa.int8(), pa.float64()), pa.null(), pa.bool_()],
    ids=str,
)
def test_numbers_of_every_storage_type_are_cast_block_by_block(kind: pa.DataType) -> None:
    ages = [None if kind == pa.null() or n % 5 == 0 else n % 2 if kind == pa.bool_() else 20 + n % 7 for n in range(50)]
    rows = [row | {"age": age} for row, age in zip(ordinary_rows(50, people=3, seed=3), ages, strict=True)]
    column = (
        pa.array(ages, pa.float64()).dictionary_encode()
        if pa.types.is_dictionary(kind)
        else pa.array([bool(age) if kind == pa.bool_() and age is not None else age for age in ages], kind)
    )
    whole = table([row | {"age": None} for row in rows])
    place = whole.schema.get_field_index("age")
    assert part_of(Held(whole.set_column(place, "age", column))).statistics.sums == sums_of(rows)


def test_several_blocks_at_the_bounds_stay_exact() -> None:
    row: Row = {"person": None, "wage": 1e308, "age": -math.inf, "female": "yes", "region": "south"}
    count = 2 * BLOCK_ROWS + 11
    one = table([row])
    whole = pa.table({name: pa.array(one.column(name).to_pylist() * count) for name in one.column_names})
    part = part_of(Held(whole))
    assert part.statistics.sums == tuple(count * total for total in sums_of([row]))
    assert part.profile.columns["wage"].out_of_bounds == count


def test_an_empty_batch_adds_nothing() -> None:
    for held in (Held(table([])), Streamed(table([]))):
        part = part_of(held)
        assert part.statistics == STATISTIC.empty()
        assert part.profile.rows == 0
        assert set(part.profile.columns) == {rule.name for rule in RULES}


def test_compiled_and_plain_rounding_agree_to_the_last_integer() -> None:
    generator = np.random.default_rng(6)
    for low, high in ((0.0, 5.0), (16.0, 80.0), (-3e5, 10.0), (1e-300, 3e-300), (-1e307, 1e307), (0.1, 0.1 + 1e-9)):
        bounds = Bounds(low, high)
        halves = bounds.low + bounds.width * ((generator.integers(0, 2**20, 5000) + 0.5) / 2**20)  # ties
        values = np.concatenate([halves, generator.uniform(low, high, 5000), [low, high, math.nan, math.inf, -1e308]])
        out = np.empty(len(values), np.int32)
        with np.errstate(all="ignore"):
            quantise_into(values, bounds.middle, bounds.width, 2.0**20, out)
        assert np.array_equal(out, quantise(values, bounds))


def test_products_of_several_factors_are_sums_over_rows() -> None:
    schema = RegressionSchema(
        Continuous("y", Bounds(-1, 1)),
        (
            Factor("a", ("0", "1", "2")),
            Continuous("x", Bounds(-1, 1)),
            Factor("b", tuple("wxyz")),
            Factor("c", ("n", "y")),
        ),
    )
    generator = np.random.default_rng(8)
    columns = {"y": generator.uniform(-1, 1, 400), "x": generator.uniform(-1, 1, 400)}
    columns |= {
        "a": generator.integers(0, 3, 400),
        "b": generator.integers(0, 4, 400),
        "c": generator.integers(0, 2, 400),
    }
    statistic = SecondMoments(schema)
    stored = statistic.encode(columns).integers.tolist()
    rows = [
        [UNIT, *(UNIT * (a == k) for k in (1, 2)), x, *(UNIT * (b == k) for k in (1, 2, 3)), c, y]
        for a, x, b, c, y in stored
    ]
    found = statistic.sum(statistic.encode(columns))
    assert found.sums == tuple(sum(row[i] * row[j] for row in rows) for i, j in schema.entries)


def test_the_comparison_can_fail() -> None:
    rows = odd_rows(40, 9)
    assert part_of(Held(table(rows[1:]))).statistics.sums != sums_of(rows)
    assert len(encoded(rows[0])) == STATISTIC.schema.m
