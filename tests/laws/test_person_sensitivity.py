"""Persons of several rows: what a person may move is never exceeded, and a search over persons of any size attains it.

Persons have from no row to `most` rows; neighbours exchange one person for another, or have one person more. Rows go
through the real code, and the changes that decide are integers.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import regression_statistics
from dpbayes_core.regression.schema import Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import count_is_public, regression_sensitivity, released_entries
from tests.support.reference_encoding import encode

Shape = tuple[int, int, int]  # continuous columns (the response included), two-level columns, factors of three levels
SHAPES: list[Shape] = [
    (1, 0, 0), (2, 0, 0), (3, 0, 0), (5, 0, 0), (2, 1, 0), (1, 2, 0), (1, 0, 1), (2, 0, 2), (2, 1, 1), (3, 2, 1),
]  # fmt: skip
CASES = [(shape, relation, most) for shape in SHAPES for relation in ("replace-one", "add-remove") for most in (1, 4)]
NOISED = [case for case in CASES if not count_is_public(case[1], case[2])]
RELATIONS = ("replace-one", "add-remove")
Table = np.ndarray  # (rows, columns): numbers in [-1, 1] first, then codes


def schema_of(shape: Shape) -> RegressionSchema:
    p, q, factors = shape
    covariates: list[Covariate] = [Continuous(f"number{i}", Bounds(-1, 1)) for i in range(p - 1)]
    covariates += [Factor(f"choice{i}", ("no", "yes")) for i in range(q)]
    covariates += [Factor(f"factor{i}", ("a", "b", "c")) for i in range(factors)]
    return RegressionSchema(Continuous("response", Bounds(-1, 1)), tuple(covariates))


def names_of(shape: Shape) -> list[str]:
    p, q, factors = shape
    numbers = [*(f"number{i}" for i in range(p - 1)), "response"]
    return [*numbers, *(f"choice{i}" for i in range(q)), *(f"factor{i}" for i in range(factors))]


def levels_of(shape: Shape) -> list[int]:
    p, q, factors = shape
    return [0] * p + [2] * q + [3] * factors


def sums(shape: Shape, rows: Table) -> np.ndarray:
    """The released sums of these rows, the count first, as Python integers."""
    return np.array(regression_statistics(schema_of(shape), columns_of(shape, rows)).with_count().sums, dtype=object)


def columns_of(shape: Shape, rows: Table) -> dict[str, np.ndarray]:
    columns = {name: rows[:, place] for place, name in enumerate(names_of(shape))}
    return columns | {name: values.astype(int) for name, values in columns.items() if name[0] in "cf"}


def moments(shape: Shape, rows: Table) -> np.ndarray:
    """The same for each row alone, in standardised doubles: for the search."""
    schema = schema_of(shape)
    whole = np.column_stack([np.ones(len(rows)), encode(schema, columns_of(shape, rows)).matrix / UNIT])
    first, second = np.array(schema.entries_with_count).T
    return whole[:, first] * whole[:, second]


def random_rows(shape: Shape, count: int, generator: np.random.Generator) -> Table:
    columns = [
        generator.choice([-1.0, 1.0, 0.0, *generator.uniform(-1, 1, 4)], count)
        if levels == 0
        else generator.integers(0, levels, count)
        for levels in levels_of(shape)
    ]
    return np.column_stack(columns)


def share(declared: Sensitivity, change: np.ndarray, norm: str) -> Fraction:
    """A change over what is declared (squared, for L2), exactly."""
    if norm == "l1":
        return Fraction(sum(abs(int(c)) for c in change), UNIT**2) / Fraction(declared.l1)
    squares = sum((int(w) * int(c)) ** 2 for w, c in zip(declared.weights, change, strict=True))
    return Fraction(squares, UNIT**4) / Fraction(declared.l2) ** 2


@pytest.mark.parametrize(("shape", "relation", "most"), NOISED)
def test_one_person_stays_within_the_declared_sensitivity(shape: Shape, relation: str, most: int) -> None:
    declared = regression_sensitivity(schema_of(shape), relation, most)
    generator = np.random.default_rng(5)
    for _ in range(60):
        one = random_rows(shape, int(generator.integers(0, most + 1)), generator)
        other = random_rows(shape, int(generator.integers(0, most + 1)) * (relation == "replace-one"), generator)
        change = sums(shape, one) - sums(shape, other)
        assert share(declared, change, "l1") <= 1
        assert share(declared, change, "l2") <= 1


def climbed(shape: Shape, declared: Sensitivity, norm: str, seed: int) -> tuple[float, tuple[Table, Table]]:
    """Rows enter, leave and move, one at a time, as long as that moves the sums further."""
    generator, most = np.random.default_rng(seed), declared.max_rows_per_unit
    weights = np.array(declared.weights)
    people = [random_rows(shape, int(generator.integers(0, most + 1)), generator) for _ in range(2)]
    if declared.neighbours == "add-remove":
        people[1] = people[1][:0]
    totals = [moments(shape, rows).sum(axis=0) for rows in people]

    def size(change: np.ndarray) -> np.ndarray:
        return np.abs(change).sum(axis=-1) if norm == "l1" else np.linalg.norm(change * weights, axis=-1)

    for turn in range(12):
        for person in range(2 if declared.neighbours == "replace-one" else 1):
            for place in range(most):
                rows = people[person]
                held = rows[place : place + 1]
                near = np.repeat(held, 20, axis=0) if len(held) else random_rows(shape, 20, generator)
                numbers = np.array(levels_of(shape)) == 0
                nudge = generator.normal(size=near.shape) * 0.5 ** (turn + 1) * numbers
                tried = np.concatenate([held, random_rows(shape, 20, generator), np.clip(near + nudge, -1, 2)])
                tried[:, numbers] = np.clip(tried[:, numbers], -1, 1)
                rest = totals[person] - moments(shape, held).sum(axis=0)
                options = np.concatenate([rest[None], rest + moments(shape, tried)])
                best = int(size(options - totals[1 - person]).argmax())
                kept = np.delete(rows, place, axis=0) if len(held) else rows
                people[person] = kept if best == 0 else np.insert(kept, min(place, len(kept)), tried[best - 1], axis=0)
                totals[person] = options[best]
    return float(size(totals[0] - totals[1])), (people[0], people[1])


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(("shape", "relation"), list(itertools.product(SHAPES[:3] + SHAPES[6:7], RELATIONS)))
def test_a_search_over_persons_of_any_size_comes_within_one_percent(shape: Shape, relation: str, norm: str) -> None:
    declared = regression_sensitivity(schema_of(shape), relation, 3)
    _, people = max((climbed(shape, declared, norm, seed) for seed in range(24)), key=lambda found: found[0])
    reached = share(declared, sums(shape, people[0]) - sums(shape, people[1]), norm)
    assert (Fraction(99, 100) if norm == "l1" else Fraction(99, 100) ** 2) <= reached <= 1


def largest_row(shape: Shape) -> Table:
    """Every variable at its largest: no product of two is larger."""
    return np.array([[1.0 if levels < 3 else 1 for levels in levels_of(shape)]])


@pytest.mark.parametrize(("shape", "most"), list(itertools.product(SHAPES, (1, 7))))
def test_adding_copies_of_the_largest_row_attains_what_is_declared(shape: Shape, most: int) -> None:
    declared = regression_sensitivity(schema_of(shape), "add-remove", most)
    change = sums(shape, np.repeat(largest_row(shape), most, axis=0))
    assert share(declared, change, "l1") == 1
    assert 1 - Fraction(1, 10**12) <= share(declared, change, "l2") <= 1


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("most", [2, 5])
def test_all_persons_on_a_lattice_move_no_further_and_one_pair_as_far(most: int, norm: str) -> None:
    shape: Shape = (1, 0, 0)
    lattice = moments(shape, np.linspace(-1, 1, 9)[:, None])
    people = np.array(
        [
            sum((lattice[i] for i in chosen), np.zeros(lattice.shape[1]))
            for rows in range(most + 1)
            for chosen in itertools.combinations_with_replacement(range(9), rows)
        ]
    )
    declared = regression_sensitivity(schema_of(shape), "replace-one", most)
    furthest = 0.0
    for one in people:
        change = np.abs(people - one) * (1 if norm == "l1" else np.array(declared.weights))
        furthest = max(furthest, float((change.sum(axis=1) if norm == "l1" else np.linalg.norm(change, axis=1)).max()))
    limit = declared.l1 if norm == "l1" else declared.l2
    assert 0.99 * limit <= furthest <= limit * (1 + 1e-12)


def test_a_person_of_fewer_rows_can_be_the_worst_so_pairs_of_equal_size_understate() -> None:
    shape: Shape = (1, 0, 0)
    equal = 4 * regression_sensitivity(schema_of(shape)).l1
    declared = regression_sensitivity(schema_of(shape), "replace-one", 4).l1
    assert declared == 4 * regression_sensitivity(schema_of(shape), "add-remove").l1 == 12
    assert equal == 9


@pytest.mark.parametrize("shape", [*SHAPES, (29, 0, 0), (4, 0, 3), (3, 5, 1), (1, 0, 6), (13, 1, 0)])
def test_the_free_weights_stay_free_beside_persons_who_come_or_go(shape: Shape) -> None:
    p, q, factors = shape
    schema = schema_of(shape)
    one, several = regression_sensitivity(schema), regression_sensitivity(schema, "replace-one", 6)
    assert several.weights == (1.0, *one.weights)
    added = regression_sensitivity(schema, "add-remove").l1 + p * (max(one.weights) ** 2 - 1)
    assert added <= one.l2**2 * (1 + 1e-12)
    assert several.l2 == pytest.approx(6 * one.l2, rel=1e-15)
    assert (p + q + 1 + factors) * (p + q + factors + 2) / 2 - q - factors == regression_sensitivity(
        schema, "add-remove"
    ).l1


def test_the_count_is_an_entry_where_neighbours_differ_in_it() -> None:
    schema = schema_of((2, 1, 1))
    assert released_entries(schema) == schema.entries
    for relation, most in (("replace-one", 2), ("add-remove", 1)):
        assert released_entries(schema, relation, most) == ((0, 0), *schema.entries)
        assert len(regression_sensitivity(schema, relation, most).weights) == len(schema.entries) + 1


@pytest.mark.parametrize(("relation", "most", "message"), [("nobody", 1, "relation"), ("add-remove", 0, "positive")])
def test_what_is_no_relation_or_no_row_is_refused(relation: str, most: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regression_sensitivity(schema_of((1, 0, 0)), relation, most)
