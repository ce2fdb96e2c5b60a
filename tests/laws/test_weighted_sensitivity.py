"""Complete cases: rows with a weight in [0, 1] never move the sums further than declared, and a search gets as far.

Neighbours exchange one row for another, each with a weight of its own: the count is one of the sums. A weight of 0 or 1
is whether a value is missing; that the bound holds in between is what `docs/sensitivity.md` proves. Rows go through the
real code, and the changes that decide are integers.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.ball import Ball
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.fourth import FOURTH_UNIT, FourthMoments
from dpbayes_core.regression.moments import regression_statistics
from dpbayes_core.regression.schema import Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import count_is_public, regression_sensitivity, released_entries
from dpbayes_core.regression.sensitivity.fourth import WEIGHT_UNIT, fourth_sensitivity, fourth_weights
from tests.support.reference_encoding import encode

WEIGHT = 2**19  # weights are whole numbers of steps of 1 / WEIGHT
BOX, UPPER, NARROW = Bounds(-1, 1), Bounds(0, 1), Bounds(0.5, 1)


def schema_of(p: int, q: int = 0, factors: int = 0, **more: object) -> RegressionSchema:
    """Complete cases of p numbers (the response included), q columns of two levels, some of three."""
    covariates: list[Covariate] = [Continuous(f"number{i}", BOX) for i in range(p - 1)]
    covariates += [Factor(f"choice{i}", ("no", "yes")) for i in range(q)]
    covariates += [Factor(f"factor{i}", ("a", "b", "c")) for i in range(factors)]
    return RegressionSchema(Continuous("response", BOX), tuple(covariates), cases="complete", **more)  # type: ignore[arg-type]


def boxes_of(*boxes: Bounds, ball: Ball | None = None) -> RegressionSchema:
    """Complete cases without an intercept; the last box is the response's."""
    *covariates, response = (Continuous(f"number{place}", box) for place, box in enumerate(boxes))
    return RegressionSchema(response, tuple(covariates), intercept=False, ball=ball, cases="complete")


EXACT = {  # where the declared figure is a supremum, not a bound
    "one number": schema_of(1),
    "two numbers": schema_of(2),
    "three numbers": schema_of(3),
    "five numbers": schema_of(5),
    "numbers and two levels": schema_of(2, 1),
    "two levels": schema_of(1, 2),
    "a factor": schema_of(1, 0, 1),
    "numbers and factors": schema_of(2, 0, 2),
    "all kinds": schema_of(3, 2, 1),
    "no intercept": boxes_of(BOX, BOX, BOX),
    "no intercept, two": boxes_of(BOX, BOX),
}
BALLS = {
    "a ball": schema_of(3, ball=Ball(1.0, 1.0)),
    "a small ball": schema_of(3, ball=Ball(0.3, 0.2)),
    "a ball without intercept": boxes_of(BOX, BOX, BOX, ball=Ball(0.9, 0.5)),
}
BOUNDED = {
    "positive boxes": boxes_of(UPPER, UPPER, UPPER),
    "mixed boxes": boxes_of(BOX, UPPER, NARROW),
    "narrow boxes in a ball": boxes_of(NARROW, NARROW, NARROW, ball=Ball(0.6, 1.0)),
}
SCHEMAS = EXACT | BALLS | BOUNDED
IN_L2 = [(name, "l2") for name in BALLS]  # the L1 figure of rows in a ball is that of their box


def columns_of(schema: RegressionSchema) -> tuple[Covariate, ...]:
    return (*schema.covariates, schema.response)


def random_rows(schema: RegressionSchema, count: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    rows: dict[str, np.ndarray] = {}
    for column in columns_of(schema):
        if isinstance(column, Factor):
            rows[column.name] = generator.integers(0, len(column.levels), count)
        else:
            low, high = column.bounds.low, column.bounds.high
            rows[column.name] = generator.choice([low, high, *generator.uniform(low, high, 6)], count)
    return rows


def sums(schema: RegressionSchema, rows: dict[str, np.ndarray]) -> np.ndarray:
    """The released sums of these rows, the count first, as Python integers."""
    return np.array(regression_statistics(schema, rows).with_count().sums, dtype=object)


def moments(schema: RegressionSchema, rows: dict[str, np.ndarray]) -> np.ndarray:
    """The same of each row alone, in doubles: for the search."""
    matrix = encode(schema, rows).matrix / UNIT
    whole = np.column_stack([np.ones(len(matrix)), matrix])
    first, second = np.array(schema.entries_with_count).T
    return whole[:, first] * whole[:, second]


def share(declared: Sensitivity, change: np.ndarray, norm: str, unit: int = UNIT**2 * WEIGHT) -> Fraction:
    """A change over what is declared (squared, for L2), exactly."""
    if norm == "l1":
        return Fraction(sum(abs(int(c)) for c in change), unit) / Fraction(declared.l1)
    squares = sum((int(w) * int(c)) ** 2 for w, c in zip(declared.weights, change, strict=True))
    return Fraction(squares, unit**2) / Fraction(declared.l2) ** 2


def weighed(generator: np.random.Generator) -> int:
    """A weight in steps: often none of the row, or all of it."""
    return int(generator.choice([0, WEIGHT, int(generator.integers(0, WEIGHT + 1))]))


@pytest.mark.parametrize("name", SCHEMAS)
def test_two_rows_of_any_weight_stay_within_the_declared_sensitivity(name: str) -> None:
    schema, generator = SCHEMAS[name], np.random.default_rng(5)
    declared = regression_sensitivity(schema)
    for _ in range(150):
        one, other = (weighed(generator) * sums(schema, random_rows(schema, 1, generator)) for _row in range(2))
        assert share(declared, one - other, "l1") <= 1
        assert share(declared, one - other, "l2") <= 1


Weighted = tuple[int, dict[str, np.ndarray]]


def climbed(schema: RegressionSchema, declared: Sensitivity, norm: str, seed: int) -> tuple[float, list[Weighted]]:
    """Both rows and both weights move, one row at a time, as long as that moves the sums further."""
    generator, scale = np.random.default_rng(seed), np.array(declared.weights)
    pair: list[Weighted] = [(weighed(generator), random_rows(schema, 1, generator)) for _ in range(2)]
    points = [weight / WEIGHT * moments(schema, row)[0] for weight, row in pair]
    best = 0.0
    for turn in range(24):
        for place in (0, 1):
            weight, row = pair[place]
            tried = random_rows(schema, 60, generator)
            for column in columns_of(schema):
                near = np.repeat(row[column.name], 60)
                if isinstance(column, Continuous):
                    near = near + generator.normal(size=60) * 0.7**turn * (generator.random(60) < 0.6)
                    near = np.clip(near, column.bounds.low, column.bounds.high)
                elif turn < 12:
                    near = np.where(generator.random(60) < 0.3, tried[column.name], near)
                tried[column.name] = np.concatenate([row[column.name], tried[column.name], near])
            weights = np.array([weight, *(weighed(generator) for _ in range(60)), *[weight] * 60])
            options = weights[:, None] / WEIGHT * moments(schema, tried)
            change = options - points[1 - place]
            sizes = np.abs(change).sum(axis=1) if norm == "l1" else np.linalg.norm(change * scale, axis=1)
            found = int(sizes.argmax())
            best, points[place] = float(sizes[found]), options[found]
            pair[place] = int(weights[found]), {name: values[found : found + 1] for name, values in tried.items()}
    return best, pair


@pytest.mark.parametrize(("name", "norm"), [*((name, norm) for name in EXACT for norm in ("l1", "l2")), *IN_L2])
def test_a_search_over_rows_and_weights_comes_within_one_percent_and_no_further(name: str, norm: str) -> None:
    schema = SCHEMAS[name]
    declared = regression_sensitivity(schema)
    _, pair = max((climbed(schema, declared, norm, seed) for seed in range(10)), key=lambda found: found[0])
    one, other = (weight * sums(schema, row) for weight, row in pair)
    reached = share(declared, one - other, norm)
    assert (Fraction(99, 100) if norm == "l1" else Fraction(99, 100) ** 2) <= reached <= 1


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_row_that_becomes_incomplete_moves_the_released_sums_by_itself(name: str) -> None:
    schema, generator = SCHEMAS[name], np.random.default_rng(8)
    declared, table = regression_sensitivity(schema), random_rows(schema, 5, generator)
    for column in columns_of(schema):
        gone = {other: values.copy() for other, values in table.items()}
        gone[column.name][2] = -1 if isinstance(column, Factor) else np.nan
        change = sums(schema, table) - sums(schema, gone)
        alone = sums(schema, {other: values[2:3] for other, values in table.items()})
        assert (change == alone).all()
        assert change[0] == UNIT**2  # one row fewer is counted
        assert share(declared, change, "l1", UNIT**2) <= 1


@pytest.mark.parametrize("name", EXACT)
def test_what_is_declared_of_rows_that_all_count_would_be_too_small_in_l1_only(name: str) -> None:
    schema = SCHEMAS[name]
    plain, added = (regression_sensitivity(replace(schema, cases="all"), one) for one in ("replace-one", "add-remove"))
    declared = regression_sensitivity(schema)
    assert declared.l1 == max(plain.l1, added.l1)
    assert declared.l2 == plain.l2  # gaussian noise pays nothing for a count that is hidden
    assert declared.weights == (1.0, *plain.weights)
    if name.endswith(("number", "numbers")):
        assert declared.l1 / plain.l1 == pytest.approx(1 + 1 / (schema.m * (schema.m + 2)))  # laplace noise does
        largest = sums(schema, {column.name: np.ones(1) for column in columns_of(schema)})
        assert share(declared, largest, "l1", UNIT**2) <= 1 < share(plain, largest, "l1", UNIT**2)


def test_in_a_small_ball_the_count_is_what_costs() -> None:
    schema = SCHEMAS["a small ball"]
    plain = regression_sensitivity(replace(schema, cases="all"))
    assert regression_sensitivity(schema).l2 > 1.4 * plain.l2


@pytest.mark.parametrize("name", SCHEMAS)
def test_persons_of_several_rows_and_those_who_come_and_go_cost_what_they_did(name: str) -> None:
    schema = SCHEMAS[name]
    everybody = replace(schema, cases="all")
    for relation, most in (("replace-one", 4), ("add-remove", 1), ("add-remove", 3)):
        assert regression_sensitivity(schema, relation, most) == regression_sensitivity(everybody, relation, most)
    one, four = regression_sensitivity(schema), regression_sensitivity(schema, "replace-one", 4)
    assert (four.l1, four.l2) == (pytest.approx(4 * one.l1, rel=1e-15), pytest.approx(4 * one.l2, rel=1e-15))


def test_the_count_of_complete_cases_is_never_public() -> None:
    schema = schema_of(2, 1, 1)
    assert not count_is_public("replace-one", 1, "complete")
    assert released_entries(schema) == ((0, 0), *schema.entries)
    assert released_entries(replace(schema, cases="all")) == schema.entries


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("covariates", [1, 2, 3])
def test_third_and_fourth_moments_of_weighted_rows_stay_within_theirs_and_reach_them(
    covariates: int, norm: str
) -> None:
    schema = schema_of(covariates + 1)
    statistic, declared = FourthMoments(schema), fourth_sensitivity(schema)
    scale = np.array(fourth_weights(schema, "L1" if norm == "l1" else "L2"), dtype=object)
    unit, generator, furthest = FOURTH_UNIT**4 * WEIGHT_UNIT * WEIGHT, np.random.default_rng(3), Fraction(0)
    ones = {column.name: np.ones(1) for column in columns_of(schema)}
    rows = [random_rows(schema, 1, generator) for _ in range(60)] + [ones]
    rows += [{name: np.full(1, value) for name in ones} for value in (-1.0, -3 / (covariates + 3))]
    rows += [{name: np.array([1.0 - 2 * (place < down)]) for place, name in enumerate(ones)} for down in range(4)]
    points = [np.array(statistic.sum(statistic.encode(row)).sums, dtype=object) * scale for row in rows]
    for one in points:
        for other in (points[60], *points[::7]):
            change = weighed(generator) * one - WEIGHT * other
            furthest = max(
                furthest, share(declared, change, norm, unit), share(declared, WEIGHT * (one - other), norm, unit)
            )
    assert Fraction(97, 100) <= furthest <= 1
