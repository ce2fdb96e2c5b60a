"""No pair of rows at all moves the sums of other forms of regression 1% further than declared: a proof by intervals.

Products are bounded on boxes of both rows by an arithmetic of its own; boxes are halved until no bound is too large.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.ball import Ball
from dpbayes_core.regression.fourth import FourthMoments
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity, understated_sensitivity
from dpbayes_core.regression.sensitivity.fourth import WEIGHT_UNIT, fourth_sensitivity, fourth_weights

SLACK = 1.01
S, P, N, U = Bounds(-2, 2), Bounds(0, 9), Bounds(-6, -3), Bounds(-1, 2)
Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Sums:
    """What is released of a row: products of variables, 0 for the constant, with weights; and where rows lie."""

    entries: Sequence[tuple[int, ...]]
    weights: np.ndarray
    low: np.ndarray
    high: np.ndarray
    ball: Ball | None = None

    def furthest(self, low: np.ndarray, high: np.ndarray, norm: str) -> np.ndarray:
        """More than any two rows in each box, (boxes, 2, variables), can move the sums."""
        total = np.zeros(len(low))
        for entry, weight in zip(self.entries, self.weights, strict=True):
            ends = [self._product(entry, low[:, row], high[:, row]) for row in (0, 1)]
            reach = np.maximum(ends[0][1] - ends[1][0], ends[1][1] - ends[0][0])
            total += reach if norm == "l1" else (weight * reach) ** 2
        return total if norm == "l1" else np.sqrt(total)

    def _product(self, entry: tuple[int, ...], low: np.ndarray, high: np.ndarray) -> Ends:
        found: Ends = (np.ones(len(low)), np.ones(len(low)))
        for variable in sorted(set(entry) - {0}):
            a, b, times = low[:, variable - 1], high[:, variable - 1], entry.count(variable)
            ends = np.stack([a**times, b**times])
            least = np.where((a < 0) & (b > 0) & (times % 2 == 0), 0.0, ends.min(axis=0))
            corners = np.stack([x * y for x, y in itertools.product(found, (least, ends.max(axis=0)))])
            found = corners.min(axis=0), corners.max(axis=0)
        return found

    def outside(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Boxes in which no row of covariates is in the ball."""
        if self.ball is None:
            return np.zeros(len(low), bool)
        nearest = np.maximum(np.maximum(low, -high), 0)[..., :-1]
        return (np.linalg.norm(nearest, axis=2) > self.ball.covariates).any(axis=1)

    def proved(self, limit: float, norm: str, most: int = 3_000_000) -> bool:
        """Whether no pair moves the sums beyond the limit; false where that takes too many boxes."""
        low, high = (np.stack([end, end])[None] for end in (self.low, self.high))
        seen = 0
        while len(low):
            seen += len(low)
            if seen > most:
                return False
            left = (self.furthest(low, high, norm) > limit) & ~self.outside(low, high)
            low, high = low[left], high[left]
            if not len(low):
                break
            widths = (high - low).reshape(len(low), -1)
            row, column = np.divmod(widths.argmax(axis=1), low.shape[2])
            at = np.arange(len(low)), row, column
            middle = (low[at] + high[at]) / 2
            below, above = high.copy(), low.copy()
            below[at], above[at] = middle, middle
            low, high = np.concatenate([low, above]), np.concatenate([below, high])
        return True


def schema_of(*boxes: Bounds, intercept: bool = False, ball: Ball | None = None) -> RegressionSchema:
    covariates = tuple(Continuous(f"x{i}", box) for i, box in enumerate(boxes[:-1]))
    return RegressionSchema(Continuous("y", boxes[-1]), covariates, intercept, ball)


def second(schema: RegressionSchema) -> Sums:
    """By the document: columns over the larger size of their bounds, or mapped to [-1, 1]."""
    boxes = [column.bounds for column in (*schema.covariates, schema.response)]  # type: ignore[union-attr]
    sizes = np.array([max(abs(box.low), abs(box.high)) for box in boxes])
    low, high = (np.array([getattr(box, end) for box in boxes]) / sizes for end in ("low", "high"))
    if schema.intercept:
        low, high = -np.ones(len(boxes)), np.ones(len(boxes))
    if schema.ball is not None:
        reach = schema.ball.covariates  # a box without 0 is left by rows that are shrunk: its end next to 0 moves
        for end, near in ((low[:-1], low[:-1] > 0), (high[:-1], high[:-1] < 0)):
            end[near] *= np.minimum(1, reach / np.sqrt(end[near] ** 2 + len(boxes) - 2))
        low[:-1], high[:-1] = (
            np.maximum(low[:-1], -schema.ball.covariates),
            np.minimum(high[:-1], schema.ball.covariates),
        )
        low[-1], high[-1] = max(low[-1], -schema.ball.response), min(high[-1], schema.ball.response)
    weights = np.array(regression_sensitivity(schema).weights)
    places = itertools.combinations_with_replacement(range(len(boxes) + 1), 2)
    entries = [place for place in places if place != (0, 0) and (schema.intercept or place[0] > 0)]
    assert sorted(entries) == sorted(schema.entries)
    return Sums(schema.entries, weights, low, high, schema.ball)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("boxes", [(S, S), (S, P), (P, N), (U, U), (S, U), (N, S, P), (P, P, N), (S, S, S)])
def test_without_intercept(boxes: tuple[Bounds, ...], norm: str) -> None:
    schema = schema_of(*boxes)
    limit = getattr(regression_sensitivity(schema), norm)
    assert second(schema).proved(SLACK * limit, norm)


@pytest.mark.parametrize("ball", [Ball(1, 0.5), Ball(0.5, 1)])
def test_in_a_ball(ball: Ball) -> None:
    schema = schema_of(S, S, S, ball=ball)
    assert second(schema).proved(SLACK * regression_sensitivity(schema).l2, "l2")


@pytest.mark.parametrize("square", [2.1, 2.5])
def test_in_a_ball_whose_rows_leave_a_box_without_0(square: float) -> None:
    schema = schema_of(*[Bounds(99, 100)] * 2, Bounds(0, 1), Bounds(99, 100), ball=Ball(square**0.5, 1))
    sums, of_the_box = second(schema), understated_sensitivity(schema)
    for norm in ("l1", "l2"):
        assert sums.proved(SLACK * getattr(regression_sensitivity(schema), norm), norm)
    assert of_the_box is not None
    assert not sums.proved(of_the_box.l1, "l1", most=100_000)


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("ball", [Ball(1, 1), Ball(0.7, 0.2), Ball(0.3, 0.9), Ball(1.3, 0.5)])
def test_in_a_ball_with_and_without_intercept(ball: Ball, intercept: bool) -> None:
    schema = schema_of(S, S, S, intercept=intercept, ball=ball)
    assert second(schema).proved(SLACK * regression_sensitivity(schema).l2, "l2", most=30_000_000)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("count", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_third_and_fourth_moments(count: int, norm: str) -> None:
    schema = schema_of(*[S] * (count + 1), intercept=True)
    weights = np.array(fourth_weights(schema, norm.upper())) / WEIGHT_UNIT
    sums = Sums(FourthMoments(schema).entries, weights, -np.ones(count), np.ones(count))
    assert sums.proved(SLACK * getattr(fourth_sensitivity(schema), norm), norm, most=30_000_000)


def test_a_figure_that_is_too_small_is_not_proved() -> None:
    schema = schema_of(S, P)
    assert not second(schema).proved(0.98 * regression_sensitivity(schema).l2, "l2", most=100_000)
