"""Columns of regressions without intercept are scaled about zero, and rows of a norm are brought into its ball."""

from fractions import Fraction

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.ball import Ball
from dpbayes_core.regression.fixed_point import BITS, UNIT
from dpbayes_core.regression.moments import SecondMoments
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.standardisation import Standardisation
from tests.support.reference_encoding import block_products, encode

BOXES = (Bounds(-1, 1), Bounds(5, 6), Bounds(-80, -16), Bounds(-3e5, 10), Bounds(0, 1e-3), Bounds(-1, 3))


def schema_of(*boxes: Bounds, intercept: bool = False, ball: Ball | None = None) -> RegressionSchema:
    covariates = tuple(Continuous(f"x{i}", box) for i, box in enumerate(boxes[:-1]))
    return RegressionSchema(Continuous("y", boxes[-1]), covariates, intercept, ball)


def table_of(schema: RegressionSchema, rows: int, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    columns = {}
    for column in (*schema.covariates, schema.response):
        assert isinstance(column, Continuous)
        low, high = column.bounds.low, column.bounds.high
        values = generator.uniform(low - (high - low) / 4, high + (high - low) / 4, rows)
        odd = generator.choice([np.nan, np.inf, -np.inf, 1e308, 5e-324, low, high], rows)
        columns[column.name] = np.where(generator.random(rows) < 0.2, odd, values)
    return columns


@pytest.mark.parametrize("box", BOXES)
def test_scaling_keeps_zero_and_reaches_one_of_the_ends(box: Bounds) -> None:
    standard = Standardisation.scaled(box)
    low, high = standard.steps(BITS)
    assert standard.shift == 0
    assert max(-low, high) == UNIT
    assert low / UNIT == pytest.approx(box.low * standard.slope, abs=1 / UNIT)
    assert high / UNIT == pytest.approx(box.high * standard.slope, abs=1 / UNIT)


def test_without_intercept_no_sum_of_a_single_variable_is_released() -> None:
    schema = schema_of(*BOXES[:3])
    assert schema.coefficients == ("x0", "x1")
    assert schema.entries == ((1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3))
    whole = schema.complete(np.arange(6.0), 9)
    assert whole.tolist() == [[0, 1, 2], [1, 3, 4], [2, 4, 5]]


def test_a_model_without_intercept_is_one_in_the_users_units_too() -> None:
    schema = schema_of(Bounds(5, 6), Bounds(-3, 1), Bounds(-10, 20))
    theta, sigma = schema.to_user_units(np.array([0.5, -0.25]), np.array(0.1))
    numbers = np.array([[5.5, -2.0], [0.0, 0.0], [6.0, 1.0]])
    standardised = numbers / np.array([6.0, 3.0])
    assert np.allclose(numbers @ theta, 20 * (standardised @ [0.5, -0.25]))
    assert sigma == pytest.approx(2.0)


@pytest.mark.parametrize("ball", [None, Ball(0.7, 0.5), Ball(1.4, 1.0)])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_pass_sums_what_a_plain_encoding_does(intercept: bool, ball: Ball | None) -> None:
    schema = schema_of(*BOXES, intercept=intercept, ball=ball)
    columns = table_of(schema, 3000, seed=1)
    statistic = SecondMoments(schema)
    assert statistic.sum(statistic.encode(columns)) == block_products(encode(schema, columns))
    assert len(statistic.empty().sums) == len(schema.entries)


def test_no_value_is_encoded_beyond_its_bounds() -> None:
    schema = schema_of(*BOXES)
    integers = SecondMoments(schema).encode(table_of(schema, 3000, seed=2)).integers
    for values, box in zip(integers.T, BOXES, strict=True):
        low, high = Standardisation.scaled(box).steps(BITS)
        assert (values.min(), values.max()) == (low, high)


@pytest.mark.parametrize("radius", [0.001, 0.3, 1.0, 1 + 2.0**-52, 2.2])
def test_rows_are_inside_their_ball_as_whole_numbers_and_the_long_ones_at_its_edge(radius: float) -> None:
    schema = schema_of(*BOXES[:1] * 6, ball=Ball(radius, 0.3))
    columns = table_of(schema, 4000, seed=3)
    before = SecondMoments(schema_of(*BOXES[:1] * 6)).encode(columns).integers[:, :-1].astype(object)
    encoded = SecondMoments(schema).encode(columns).integers.astype(object)
    lengths = (encoded[:, :-1] ** 2).sum(axis=1)
    limit = (Fraction(radius) * UNIT) ** 2
    assert max(lengths) <= limit
    assert max(abs(encoded[:, -1])) == int(Fraction(0.3) * UNIT)
    long = (before**2).sum(axis=1) > limit
    assert (encoded[~long, :-1] == before[~long]).all()
    assert min(lengths[long]) >= (radius * UNIT - 3) ** 2
    turned = (
        encoded[long, :-1].astype(float)
        - before[long].astype(float)
        * (np.sqrt(lengths[long].astype(float) / (before[long] ** 2).sum(axis=1).astype(float))[:, None])
    )
    assert np.abs(turned).max() < 3


def test_records_of_before_are_read_and_written_as_they_were() -> None:
    usual = schema_of(*BOXES[:3], intercept=True)
    assert set(usual.to_record()) == {"covariates", "response"}
    for schema in (usual, schema_of(*BOXES[:3]), schema_of(*BOXES[:3], ball=Ball(1, 0.5))):
        assert RegressionSchema.from_record(schema.to_record()) == schema


def test_what_makes_no_sense_is_refused() -> None:
    y, levels = Continuous("y", Bounds(-1, 1)), Factor("t", ("no", "yes"))
    x = tuple(Continuous(name, Bounds(-1, 1)) for name in "ab")
    with pytest.raises(ValueError, match="named levels"):
        RegressionSchema(y, (levels,), intercept=False)
    with pytest.raises(ValueError, match="too close"):
        RegressionSchema(y, (Continuous("x", Bounds(1e9, 1e9 + 1)),), intercept=False)
    with pytest.raises(ValueError, match="named levels"):
        RegressionSchema(y, (*x, levels), ball=Ball(1, 1))
    with pytest.raises(ValueError, match="already do"):
        RegressionSchema(y, x[:1], ball=Ball(0.5, 1))
    with pytest.raises(ValueError, match="already do"):
        RegressionSchema(y, x, ball=Ball(1.5, 1))
    for covariates, response in ((0, 1), (1, 0), (1, 1.1), (float("nan"), 1), (float("inf"), 1)):
        with pytest.raises(ValueError, match="cannot bound rows"):
            Ball(covariates, response)
