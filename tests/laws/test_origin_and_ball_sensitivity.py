"""Regressions without intercept, and rows in a ball: no pair of rows exceeds what is declared, and one comes near it.

Pairs are searched for in standardised doubles by random steps, and judged as integers that went through the real code.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.ball import Ball
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import ExactStatistics, regression_statistics
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity, understated_sensitivity
from dpbayes_core.regression.standardisation import Standardisation

S, P, N = Bounds(-2, 2), Bounds(0, 9), Bounds(-6, -5)  # across zero alike, from zero up, far below zero
U = Bounds(-1, 2)
EXACT = [
    (S, S), (S,) * 3, (S,) * 4, (S,) * 7, (P, P), (P, N), (N,) * 5, (Bounds(1, 5), P, N, Bounds(16, 80)), (S, P),
    (S, P, P, N), (U, S, P, N), (S, P, P, P, P, P), (U,) * 7, (U, U, U, N, N, S, P),
]  # fmt: skip
BOUNDED = [(U, U), (U, U, U), (U, U, U, U), (U, P, P, P, N, N)]
BALLS = [
    (2, Ball(1, 1)), (2, Ball(0.5, 0.3)), (2, Ball(0.4, 1)), (3, Ball(0.9, 0.2)), (3, Ball(0.25, 0.9)),
    (5, Ball(1, 0.7)),
]  # fmt: skip


def schema_of(*boxes: Bounds, intercept: bool = False, ball: Ball | None = None) -> RegressionSchema:
    covariates = tuple(Continuous(f"x{i}", box) for i, box in enumerate(boxes[:-1]))
    return RegressionSchema(Continuous("y", boxes[-1]), covariates, intercept, ball)


def in_ball(covariates: int, ball: Ball, *, intercept: bool) -> RegressionSchema:
    return schema_of(*[S] * (covariates + 1), intercept=intercept, ball=ball)


def maps(schema: RegressionSchema) -> list[Standardisation]:
    return [schema.standardised(column) for column in (*schema.covariates, schema.response)]  # type: ignore[arg-type]


def sums(schema: RegressionSchema, row: np.ndarray) -> ExactStatistics:
    """A row of standardised numbers, the response last, through the real code; its count is the first sum."""
    names = [column.name for column in (*schema.covariates, schema.response)]
    numbers = [value / standard.slope + standard.middle for value, standard in zip(row, maps(schema), strict=True)]
    table = {name: np.array([number]) for name, number in zip(names, numbers, strict=True)}
    return regression_statistics(schema, table).with_count()


def share(schema: RegressionSchema, declared: Sensitivity, pair: np.ndarray, norm: str) -> Fraction:
    """Change between two rows over what is declared, squared for L2; a missing row is NaN."""
    empty = ExactStatistics.empty(schema).with_count()
    one, other = (empty if np.isnan(row).any() else sums(schema, row) for row in pair)
    change = [a - b for a, b in zip(one.sums, other.sums, strict=True)]
    if len(declared.weights) < len(change):
        assert change.pop(0) == 0
    if norm == "l1":
        return Fraction(sum(map(abs, change)), UNIT**2) / Fraction(declared.l1)
    squares = sum((int(weight) * moved) ** 2 for weight, moved in zip(declared.weights, change, strict=True))
    return Fraction(squares, UNIT**4) / Fraction(declared.l2) ** 2


def stretched(schema: RegressionSchema, rows: np.ndarray) -> np.ndarray:
    """Rows of [-1, 1] stretched to the columns' boxes."""
    low, high = np.array([standard.steps(20) for standard in maps(schema)]).T / UNIT
    return low + (high - low) * (rows + 1) / 2


def kept(schema: RegressionSchema, rows: np.ndarray) -> np.ndarray:
    """The same, shortened to the ball."""
    rows = stretched(schema, rows)
    if schema.ball is not None:
        length = np.linalg.norm(rows[..., :-1], axis=-1, keepdims=True)
        rows[..., :-1] *= np.minimum(1, schema.ball.covariates / np.maximum(length, 1e-300))
        rows[..., -1] = np.clip(rows[..., -1], -schema.ball.response, schema.ball.response)
    return rows


def worst(schema: RegressionSchema, declared: Sensitivity, norm: str) -> np.ndarray:
    """The best of many pairs, each nudged at random and kept where that moves the sums further."""
    generator, pairs, rounds = np.random.default_rng(3), 150, 900
    first, second = np.array(schema.entries).T
    weights = np.array(declared.weights[-len(schema.entries) :])

    def moved(tried: np.ndarray) -> np.ndarray:
        rows = np.concatenate([np.ones((pairs, 2, 1)), kept(schema, tried)], axis=2)
        products = rows[..., first] * rows[..., second]
        changes = products[:, 0] - products[:, 1]
        return np.abs(changes).sum(axis=1) if norm == "l1" else np.linalg.norm(weights * changes, axis=1)

    shape = (pairs, 2, schema.m)
    best = generator.uniform(-1, 1, shape)
    reached = moved(best)
    for number in range(rounds):
        step = 10 ** (-3.5 * number / rounds)
        tried = best + generator.normal(size=shape) * step * (generator.random(shape) < 0.5)
        tried = np.clip(np.where(generator.random(shape) < 0.05, generator.choice([-1, 0, 1], shape), tried), -1, 1)
        further = moved(tried)
        best[further > reached] = tried[further > reached]
        reached = np.maximum(reached, further)
    return stretched(schema, best[int(reached.argmax())])  # the code itself shortens them


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("boxes", EXACT)
def test_without_intercept_an_adversary_comes_within_one_percent_and_no_further(
    boxes: tuple[Bounds, ...], norm: str
) -> None:
    schema, declared = schema_of(*boxes), regression_sensitivity(schema_of(*boxes))
    reached = share(schema, declared, worst(schema, declared, norm), norm)
    assert (Fraction(99, 100) if norm == "l1" else Fraction(99, 100) ** 2) <= reached <= 1


@pytest.mark.parametrize("boxes", BOUNDED)
def test_boxes_that_reach_across_zero_unevenly_are_exact_in_l1_and_bounded_in_l2(
    boxes: tuple[Bounds, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    schema, declared = schema_of(*boxes), regression_sensitivity(schema_of(*boxes))
    shares = {norm: float(share(schema, declared, worst(schema, declared, norm), norm)) for norm in ("l1", "l2")}
    with capsys.disabled():
        print(f" reached {shares['l1']:.3f} of L1, {shares['l2'] ** 0.5:.3f} of L2", end="")
    assert 0.99 <= shares["l1"] <= 1
    assert 0.85**2 <= shares["l2"] <= 1


@pytest.mark.parametrize("boxes", EXACT + BOUNDED)
def test_no_random_pair_moves_the_sums_without_intercept_further(boxes: tuple[Bounds, ...]) -> None:
    generator = np.random.default_rng(4)
    for relation, most in (("replace-one", 1), ("replace-one", 3), ("add-remove", 1)):
        schema = schema_of(*boxes)
        declared = regression_sensitivity(schema, relation, most)
        for _ in range(60):
            pair = kept(schema, generator.choice([-1, 1, 0, *generator.uniform(-1, 1, 3)], (2, len(boxes))))
            if relation == "add-remove":
                pair[1] = np.nan
            assert all(share(schema, declared, pair, norm) <= 1 for norm in ("l1", "l2"))


@pytest.mark.parametrize("boxes", EXACT + BOUNDED)
def test_a_largest_row_that_comes_or_goes_attains_what_is_declared_with_its_count(boxes: tuple[Bounds, ...]) -> None:
    schema = schema_of(*boxes)
    row = np.array([1.0 if standard.steps(20)[1] == UNIT else -1.0 for standard in maps(schema)])
    pair = np.array([row, np.full(len(row), np.nan)])
    declared = regression_sensitivity(schema, "add-remove")
    assert declared.l1 == 1 + len(boxes) * (len(boxes) + 1) / 2
    assert share(schema, declared, pair, "l1") == 1
    assert 1 - Fraction(1, 10**12) <= share(schema, declared, pair, "l2") <= 1
    several = regression_sensitivity(schema, "replace-one", 3)  # a person of three such rows, or of none
    assert several.l1 == 3 * declared.l1
    one = regression_sensitivity(schema)
    assert several.l2 >= 3 * max(one.l2, declared.l2)


def test_figures_without_intercept_are_the_documented_ones() -> None:
    for m in range(2, 40):
        declared = regression_sensitivity(schema_of(*[S] * m))
        assert declared.l1 == m * (m + 1) / 2
        exception = m % 2 == 1 and max(declared.weights) ** 2 == (m + 1) / 2
        assert declared.l2 == pytest.approx((4 * (m * m // 4) + exception) ** 0.5, rel=1e-15)
        assert max(declared.weights) ** 2 <= (m + 1) / 2 < 4 * max(declared.weights) ** 2


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("covariates", "ball"), BALLS)
def test_rows_in_a_ball_come_within_one_percent_of_what_is_declared_and_no_further(
    covariates: int, ball: Ball, intercept: bool
) -> None:
    schema = in_ball(covariates, ball, intercept=intercept)
    declared = regression_sensitivity(schema)
    assert declared.l2 <= regression_sensitivity(in_ball(covariates, Ball(1, 1), intercept=intercept)).l2
    reached = share(schema, declared, worst(schema, declared, "l2"), "l2")
    assert Fraction(99, 100) ** 2 <= reached <= 1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("covariates", "ball"), BALLS)
def test_one_row_in_a_ball_attains_what_is_declared_for_one_that_comes_or_goes(
    covariates: int, ball: Ball, intercept: bool
) -> None:
    schema = in_ball(covariates, ball, intercept=intercept)
    row = np.array([ball.covariates, *[0.0] * (covariates - 1), ball.response])
    pair = np.array([row, np.full(len(row), np.nan)])
    assert Fraction(999, 1000) <= share(schema, regression_sensitivity(schema, "add-remove"), pair, "l2") <= 1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("covariates", "ball"), [*BALLS, (4, Ball(1.5, 1)), (9, Ball(2, 0.5)), (3, Ball(1.73, 1))])
def test_no_random_pair_in_a_ball_moves_the_sums_further(covariates: int, ball: Ball, intercept: bool) -> None:
    schema, generator = in_ball(covariates, ball, intercept=intercept), np.random.default_rng(5)
    declared, several = regression_sensitivity(schema), regression_sensitivity(schema, "replace-one", 2)
    assert several.l2 >= 2 * declared.l2 * (1 - 1e-12)
    for _ in range(80):
        pair = generator.choice([-1, 1, 0, *generator.uniform(-1, 1, 3)], (2, covariates + 1))
        assert all(share(schema, declared, pair, norm) <= 1 for norm in ("l1", "l2"))
    assert declared.l2 <= regression_sensitivity(schema_of(*[S] * (covariates + 1), intercept=intercept)).l2


@pytest.mark.parametrize("intercept", [True, False])
def test_a_ball_larger_than_it_needs_to_be_leaves_the_columns_sensitivity_and_weights(intercept: bool) -> None:
    boxes = [S] * 8
    free, wide = schema_of(*boxes, intercept=intercept), schema_of(*boxes, intercept=intercept, ball=Ball(2.6, 1))
    assert regression_sensitivity(wide) == regression_sensitivity(free)


NARROW, WIDE = Bounds(99, 100), Bounds(0, 1)
LEFT = [
    ((NARROW, NARROW, WIDE, NARROW), 2.95), ((NARROW, NARROW, WIDE, NARROW), 2.1),
    ((NARROW,) * 4 + (WIDE, NARROW), 4.25),
    ((NARROW,) * 8 + (WIDE, NARROW), 7.65), ((NARROW,) * 6 + (WIDE, WIDE, S), 6.8),
    ((Bounds(-100, -99), NARROW, NARROW, WIDE, NARROW), 3.4), ((Bounds(8, 10), P, N, N), 1.5), ((N,) * 5, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(("boxes", "square"), LEFT)
def test_rows_that_are_shrunk_out_of_a_box_without_0_move_the_sums_no_further_than_declared(
    boxes: tuple[Bounds, ...], square: float, norm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = schema_of(*boxes, ball=Ball(square**0.5, 1))
    declared = regression_sensitivity(schema)
    pair = worst(schema, declared, norm)
    reached = float(share(schema, declared, pair, norm)) ** (1 if norm == "l1" else 0.5)
    with capsys.disabled():
        print(f" reached {reached:.3f}", end="")
    assert reached <= 1
    several, coming = regression_sensitivity(schema, "replace-one", 3), regression_sensitivity(schema, "add-remove")
    for row in pair:
        gone = np.array([row, np.full(len(row), np.nan)])
        assert share(schema, coming, gone, norm) <= 1
        assert share(schema, several, gone, norm) * (3 if norm == "l1" else 9) <= 1  # a person of three such rows


@pytest.mark.parametrize(("boxes", "square"), LEFT[1:6])
def test_an_adversary_exceeds_the_figure_of_the_box_that_shrunk_rows_leave(
    boxes: tuple[Bounds, ...], square: float
) -> None:
    schema = schema_of(*boxes, ball=Ball(square**0.5, 1))
    of_the_box = understated_sensitivity(schema)
    assert of_the_box is not None
    assert of_the_box.l1 == regression_sensitivity(schema_of(*boxes)).l1
    assert share(schema, of_the_box, worst(schema, of_the_box, "l1"), "l1") > 1
    assert understated_sensitivity(schema_of(*boxes)) is None


def test_the_search_would_catch_the_published_figure() -> None:
    covariates, ball = 2, Ball(1, 1)  # sqrt(R^4 + R^2 Y^2) is for rows that come or go
    schema = in_ball(covariates, ball, intercept=False)
    published = Sensitivity(1.0, 2**0.5, (1.0,) * 6, "replace-one")
    assert share(schema, published, worst(schema, published, "l2"), "l2") > 2


@pytest.mark.parametrize("size", [0.05, 0.3, 0.6, 1.0])
def test_the_worst_response_pair_in_a_ball_is_that_of_a_dense_grid(size: float) -> None:
    for radius, intercept in itertools.product((0.05, 0.2, 0.5, 0.7, 1.0), (True, False)):
        y, other = np.meshgrid(*[np.linspace(-size, size, 161)] * 2)
        turn, square = abs(intercept + y * other), radius**2
        gain = np.where(turn <= 2 * square, turn**2 / 2, 2 * square * turn - 2 * square**2)
        moved = 2 * square**2 + square * (y**2 + other**2) + gain + (y**2 - other**2) ** 2
        moved = moved + intercept * (2 * square + (y - other) ** 2)
        declared = regression_sensitivity(in_ball(2, Ball(radius, size), intercept=intercept)).l2
        assert 0.9999 * declared**2 <= moved.max() <= declared**2 * (1 + 1e-12)
