import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.schema import Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity

BOX = Bounds(0, 1)
SHAPES = list(itertools.product((1, 2, 3, 6, 9), (0, 1, 2, 5), (0, 1, 2, 4)))


def schema_of(continuous: int, two_level: int = 0, factors: int = 0, levels: int = 3) -> RegressionSchema:
    covariates: list[Covariate] = [Continuous(f"x{i}", BOX) for i in range(continuous - 1)]
    covariates += [Factor(f"t{i}", ("no", "yes")) for i in range(two_level)]
    covariates += [Factor(f"g{i}", tuple(map(str, range(levels)))) for i in range(factors)]
    return RegressionSchema(Continuous("y", BOX), tuple(covariates))


@pytest.mark.parametrize(
    ("schema", "l1", "l2", "weight"),
    [
        (schema_of(1), 2.25, 2.0, 1),
        (schema_of(2), 5.3333, 2.8284, 1),
        (schema_of(3), 9.375, 4.0, 1),
        (schema_of(4), 14.4, 4.8990, 1),
        (schema_of(5), 20.4167, 6.0, 2),
        (schema_of(11), 77.4583, 12.0, 2),
        (schema_of(2, 1, 1, levels=4), 16.0, 4.8990, 2),
        (schema_of(2, 0, 1, levels=51), 10.3333, 4.0, 1),
        (schema_of(3, 1), 14.0, 5.0, 2),
    ],
)
def test_sensitivities_are_the_documented_figures(
    schema: RegressionSchema, l1: float, l2: float, weight: float
) -> None:
    found = regression_sensitivity(schema)
    assert found.l1 == pytest.approx(l1, abs=5e-5)
    assert found.l2 == pytest.approx(l2, abs=5e-5)
    assert max(found.weights) == weight
    assert found.neighbours == "replace-one"


def test_boxes_follow_their_closed_forms() -> None:
    for m in range(1, 40):
        found = regression_sensitivity(schema_of(m))
        assert found.l1 == pytest.approx(m * (m + 2) ** 2 / (2 * (m + 1)), rel=1e-15)
        assert found.l2 == pytest.approx(2 * math.sqrt((m + 1) ** 2 // 4), rel=1e-15)


@pytest.mark.parametrize(("p", "q", "factors"), SHAPES)
def test_l2_is_the_best_of_all_corners_or_says_what_the_weights_cost(p: int, q: int, factors: int) -> None:
    corners = max(
        4 * a * (p + q + 1 - a) + 4 * a * u + (factors - u) * (2 * (p + q) + 2) + factors * (factors - 1) - u * (u - 1)
        for a in range(p + q + 1)
        for u in range(factors + 1)
    )
    found = regression_sensitivity(schema_of(p, q, factors))
    costly = 2 * max(found.weights) ** 2 == p + 2 * q + 2 * factors + 3 and factors < q and (p + q + factors) % 2 == 0
    assert found.l2 == pytest.approx(math.sqrt(corners + costly), rel=1e-15)


@pytest.mark.parametrize(("p", "q", "factors"), SHAPES)
def test_l1_bounds_a_dense_search_and_is_close_to_it(p: int, q: int, factors: int) -> None:
    alpha, beta = np.meshgrid(np.linspace(0, 1, 61), np.linspace(0, 1, 61))
    n, largest = 1 + p + q, 0.0
    for flipped, a in itertools.product(range(q + 1), range(p + 1)):
        b = p - a
        total = 1 + a * alpha - b * beta + q - 2 * flipped
        squares = a * alpha**2 + b * beta**2
        numbers = (n * (n - 1) - total**2 + 1 + squares + q) / 2 + p - squares
        mixed = factors * (p + a * alpha + b * beta + 2 * q) + 2 * factors + factors * (factors - 1)
        largest = max(largest, float((numbers + mixed).max()))
    found = regression_sensitivity(schema_of(p, q, factors)).l1
    assert largest <= found * (1 + 1e-15)
    assert largest >= 0.999 * found


def test_declared_doubles_are_never_below_the_exact_suprema() -> None:
    for m in range(1, 60):
        found = regression_sensitivity(schema_of(m))
        exact = Fraction(m * (m + 2) ** 2, 2 * (m + 1))
        assert Fraction(found.l1) >= exact > Fraction(math.nextafter(found.l1, 0))
        square = 4 * ((m + 1) ** 2 // 4)
        assert Fraction(found.l2) ** 2 >= square > Fraction(math.nextafter(found.l2, 0)) ** 2


def test_only_squares_of_continuous_columns_weigh_more() -> None:
    schema = schema_of(5, 2, 1)
    weights = dict(zip(schema.entries, regression_sensitivity(schema).weights, strict=True))
    assert {place for place, weight in weights.items() if weight != 1} == {(i, i) for i in (1, 2, 3, 4, 9)}


@pytest.mark.parametrize(("p", "weight"), [(1, 1), (4, 1), (5, 2), (28, 2), (29, 4), (124, 4), (125, 8)])
def test_the_weight_is_the_largest_free_power_of_two(p: int, weight: int) -> None:
    assert max(regression_sensitivity(schema_of(p)).weights) == weight
    assert weight**2 <= (p + 3) / 2 < 4 * weight**2


def test_numbers_of_levels_drop_out() -> None:
    few, many = (regression_sensitivity(schema_of(3, 1, 2, levels)) for levels in (3, 40))
    assert (few.l1, few.l2) == (many.l1, many.l2)
