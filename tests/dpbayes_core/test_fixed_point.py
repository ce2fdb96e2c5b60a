from fractions import Fraction

import numpy as np
import pytest

from dpbayes_core.arrays import Floats, ShortIntegers
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.fixed_point import BITS, UNIT, encoded_integers
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from tests.support.reference_encoding import encode

SCHEMA = RegressionSchema(
    Continuous("wage", Bounds(0, 5)),
    (
        Factor("region", ("north", "south", "east")),
        Continuous("age", Bounds(16, 80)),
        Factor("female", ("no", "yes")),
    ),
)


def quantised(values: Floats, bounds: Bounds) -> ShortIntegers:
    """A column's integers as the pass computes them."""
    schema = RegressionSchema(Continuous("y", bounds), (Continuous("x", Bounds(0, 1)),))
    return encoded_integers(schema, ("y",), {"y": values}, BITS)[:, 0]


@pytest.mark.parametrize("ends", [(-1, 1), (5, 6), (16, 80), (-1e308, 7e307), (0, 1e-300), (0.1, 0.3), (1e9, 1e9 + 1)])
def test_bounds_and_middle_become_whole_units(ends: tuple[float, float]) -> None:
    bounds = Bounds(*ends)
    found = quantised(np.array([bounds.low, bounds.middle, bounds.high]), bounds)
    assert found.tolist() == [-UNIT, 0, UNIT]


def test_integers_are_the_nearest_to_the_standardised_value() -> None:
    bounds = Bounds(0.1, 7.3)
    values = np.random.default_rng(1).uniform(0.1, 7.3, 2000)
    middle = Fraction(bounds.low) / 2 + Fraction(bounds.high) / 2
    width = Fraction(bounds.high) - Fraction(bounds.low)
    exact = [(Fraction(value) - middle) * 2**BITS / width for value in values.tolist()]
    found = quantised(values, bounds)
    assert np.array_equal(found, np.rint(found))
    assert max(abs(Fraction(k) - e) for k, e in zip(found.tolist(), exact, strict=True)) < Fraction(1, 2) + Fraction(
        1, 10**6
    )


def test_any_double_is_clipped_without_a_warning() -> None:
    wild = np.array([np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, np.nan])
    for bounds in (Bounds(-1, 1), Bounds(-8e307, 8e307), Bounds(-1e-300, 1e-300)):
        found = quantised(wild, bounds)
        assert np.all(np.abs(found) <= UNIT)
        assert found[[0, 1, 2, 3]].tolist() == [UNIT, -UNIT, UNIT, -UNIT]
        assert found[-1] == 0


def test_values_inside_very_wide_bounds_do_not_overflow() -> None:
    assert quantised(np.array([1e305]), Bounds(-8e307, 8e307))[0] == round(1e305 / 8e307 * UNIT)


def test_levels_become_plus_minus_one_and_indicators() -> None:
    columns = {
        "wage": np.array([0.0, 5.0, 2.5]),
        "age": np.array([80.0, 16.0, 48.0]),
        "female": np.array([1, 0, 1]),
        "region": np.array([0, 1, 2]),
    }
    expected = [[0, 0, 1, 1, -1], [1, 0, -1, -1, 1], [0, 1, 0, 1, 0]]
    assert (encode(SCHEMA, columns).matrix / UNIT).tolist() == expected


def test_codes_of_no_level_count_as_the_reference() -> None:
    columns = {"wage": np.zeros(2), "age": np.zeros(2), "female": np.array([-1, 9]), "region": np.array([-1, 9])}
    found = encode(SCHEMA, columns).matrix / UNIT
    assert found[:, [0, 1, 3]].tolist() == [[0, 0, -1], [0, 0, -1]]


def test_columns_of_different_length_are_refused() -> None:
    columns = {"wage": np.zeros(2), "age": np.zeros(3), "female": np.zeros(2, int), "region": np.zeros(2, int)}
    with pytest.raises(ValueError, match="differ in length"):
        encoded_integers(SCHEMA, ("wage", "age"), columns, BITS)
