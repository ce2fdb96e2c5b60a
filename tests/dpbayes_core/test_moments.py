import copy
import itertools
import pickle

import numpy as np
import pytest

from dpbayes_core.arrays import Columns
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import (
    BLOCK_ROWS,
    PRODUCT_BITS,
    ExactStatistics,
    grid_for,
    on_grid,
    regression_statistics,
)
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from tests.support.reference_encoding import block_products, encode

SCHEMA = RegressionSchema(
    Continuous("wage", Bounds(0, 5)),
    (
        Continuous("age", Bounds(16, 80)),
        Factor("female", ("no", "yes")),
        Factor("region", ("north", "south", "east")),
    ),
)


def columns_of(rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "wage": generator.normal(2.5, 2, rows),  # some beyond the bounds
        "age": generator.uniform(10, 90, rows),
        "female": generator.integers(0, 2, rows),
        "region": generator.integers(0, 3, rows),
    }


def taken(columns: Columns, places: np.ndarray | slice) -> dict[str, np.ndarray]:
    return {name: values[places] for name, values in columns.items()}


def reference_sums(columns: Columns) -> tuple[int, ...]:
    rows = [[UNIT, *map(int, row)] for row in encode(SCHEMA, columns).matrix.tolist()]
    return tuple(sum(row[i] * row[j] for row in rows) for i, j in SCHEMA.entries)


def test_sums_equal_python_integers_entry_by_entry() -> None:
    columns = columns_of(3000)
    found = regression_statistics(SCHEMA, columns)
    assert found.rows == 3000
    assert found.sums == reference_sums(columns)
    assert all(type(total) is int for total in found.sums)


def test_sums_are_exact_where_every_row_is_at_its_bounds() -> None:
    rows = 2 * BLOCK_ROWS + 1
    columns = {"wage": np.full(rows, 5.0), "age": np.full(rows, 80.0)}
    columns |= {"female": np.ones(rows, int), "region": np.full(rows, 2)}
    south = 3  # never taken here
    expected = tuple(0 if south in place else rows * UNIT**2 for place in SCHEMA.entries)
    assert regression_statistics(SCHEMA, columns).sums == expected


def test_sums_are_exact_one_step_inside_the_bounds() -> None:
    rows, near = 2 * BLOCK_ROWS + 1, UNIT - 1  # odd: the least round products there are
    columns = {"wage": np.full(rows, 5 - 5 / 2**20), "age": np.full(rows, 16 + 64 / 2**20)}
    columns |= {"female": np.zeros(rows, int), "region": np.zeros(rows, int)}
    row = (UNIT, -near, -UNIT, 0, 0, near)
    assert regression_statistics(SCHEMA, columns).sums == tuple(rows * row[i] * row[j] for i, j in SCHEMA.entries)


def test_order_and_split_do_not_change_a_digit() -> None:
    rows = BLOCK_ROWS + 7000
    columns = columns_of(rows)
    whole = regression_statistics(SCHEMA, columns)
    generator = np.random.default_rng(2)
    assert regression_statistics(SCHEMA, taken(columns, generator.permutation(rows))) == whole
    assert block_products(encode(SCHEMA, columns)) == whole
    for _ in range(3):
        cuts = [0, *sorted(generator.integers(0, rows, 5).tolist()), rows]
        parts = [taken(columns, slice(a, b)) for a, b in itertools.pairwise(cuts)]
        total = ExactStatistics.empty(SCHEMA)
        for part in generator.permutation(len(parts)):
            total += regression_statistics(SCHEMA, parts[part])
        assert total == whole


def test_sums_beyond_sixty_four_bits_stay_exact() -> None:
    huge = ExactStatistics(2**40, (2**78,) * len(SCHEMA.entries))
    assert (huge + huge).sums[0] == 2**79


def test_an_empty_table_is_the_zero_statistic() -> None:
    assert regression_statistics(SCHEMA, columns_of(0)) == ExactStatistics.empty(SCHEMA)


def test_any_value_gives_a_statistic() -> None:
    columns = columns_of(4)
    columns["wage"] = np.array([np.inf, -np.inf, np.nan, 1e308])
    columns["region"] = np.array([-5, 99, 2, 1])
    assert regression_statistics(SCHEMA, columns).rows == 4


def test_statistics_of_different_schemas_do_not_add() -> None:
    with pytest.raises(ValueError, match="zip"):
        ExactStatistics.empty(SCHEMA) + ExactStatistics(0, (0,))


def test_exact_statistics_are_neither_shown_nor_sent() -> None:
    exact = regression_statistics(SCHEMA, columns_of(17))
    assert repr(exact) == str(exact) == f"{exact}" == "ExactStatistics(values=withheld)"
    for leave in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="confidential"):
            leave(exact)


@pytest.mark.parametrize(
    ("rows", "grid"), [(1, 30), (50_000, 30), (65_536, 30), (65_537, 29), (10**8, 19), (2**50, -4)]
)
def test_the_grid_leaves_room_for_sixty_four_times_the_declared_rows(rows: int, grid: int) -> None:
    assert grid_for(rows) == grid
    assert grid == 30 or 64 * rows <= 2 ** (52 - grid) < 4 * 64 * rows


def test_a_grid_needs_declared_rows() -> None:
    with pytest.raises(ValueError, match="declared number of rows"):
        grid_for(0)


def test_grid_values_are_the_nearest_multiples() -> None:
    one = 2**PRODUCT_BITS
    exact = ExactStatistics(9, (one, -one, 3 * one // 8, one // 16, -one // 16, one // 16 - 1, -one // 16 - 1))
    assert on_grid(exact, 3).tolist() == [1, -1, 0.375, 0.125, 0, 0, -0.125]


def test_grid_values_are_clamped_to_exact_doubles() -> None:
    one = 2**PRODUCT_BITS
    exact = ExactStatistics(1, (2**30 * one, -(2**30) * one, 2**22 * one, 2**22 * one - one // 2**30))
    assert on_grid(exact, 30).tolist() == [2.0**22, -(2.0**22), 2.0**22, 2.0**22 - 2.0**-30]


def test_a_grid_finer_than_the_sums_is_refused() -> None:
    with pytest.raises(ValueError, match="coarser"):
        on_grid(ExactStatistics.empty(SCHEMA), PRODUCT_BITS)
