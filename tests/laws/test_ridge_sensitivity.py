"""What one person can move of a ridge release: never more than stated, and each part attained."""

from fractions import Fraction

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.ridge.release import (
    RidgeSquares,
    is_positive_definite,
    least_eigenvalue_steps,
    ridge_entries,
    ridge_sensitivity,
)
from tests.support.regressions import SEX, schema_of
from tests.support.regressions import UNIT as BOX


def parts_of_rows(x: Floats, y: Floats) -> tuple[Floats, Floats, float]:
    """Unique moments of (1, x), X'y, least eigenvalue."""
    rows = np.column_stack([np.ones(len(x)), x])
    moments = rows.T @ rows
    first, second = np.triu_indices(len(moments))
    return moments[first[1:], second[1:]], rows.T @ y, float(np.linalg.eigvalsh(moments)[0])


def moved(before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> Floats:
    """Squared L2 moves of the three parts."""
    pairs = zip(parts_of_rows(*before), parts_of_rows(*after), strict=True)
    return np.array([np.sum(np.square(np.asarray(a) - np.asarray(b))) for a, b in pairs])


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_replacing_a_row_never_moves_a_part_by_more_than_stated(d: int) -> None:
    generator, squares = np.random.default_rng(d), RidgeSquares.of(d)
    limits = np.array([squares.moments, squares.cross, squares.eigenvalue])
    for trial in range(1500):
        rows = int(generator.integers(1, 12))
        x, y = generator.uniform(-1, 1, (rows, d)), generator.uniform(-1, 1, rows)
        if trial % 2:
            x, y = np.sign(x), np.sign(y)
        other_x, other_y = x.copy(), y.copy()
        other_x[0], other_y[0] = np.sign(generator.uniform(-1, 1, d)), generator.choice([-1.0, 1.0])
        found = moved((x, y), (other_x, other_y))
        assert np.all(found <= limits + 1e-9)
        assert found.sum() <= ridge_sensitivity(schema_of(*[f"x{i}" for i in range(d)])).l2 ** 2 + 1e-9


@pytest.mark.parametrize("d", [1, 3, 5])
def test_each_part_is_attained(d: int) -> None:
    squares, up = RidgeSquares.of(d), np.ones((1, d))
    flat = up.copy()
    flat[0, : (d + 1) // 2] = -1.0  # as many of (1, x) up as down
    assert moved((up, np.ones(1)), (flat, np.ones(1)))[0] == squares.moments
    assert moved((up, np.ones(1)), (up, -np.ones(1)))[1] == squares.cross
    # rows whose (1, x) is orthogonal to (1, .., 1), many of each: the least eigenvector is (1, .., 1)
    generator = np.random.default_rng(d)
    signs = np.array([generator.permutation([1.0] * ((d + 1) // 2) + [-1.0] * ((d + 1) // 2)) for _ in range(400)])
    x = (signs * signs[:, :1])[:, 1:]
    after = x.copy()
    after[0] = 1.0
    y = np.zeros(len(x))
    assert moved((x, y), (after, y))[2] == pytest.approx(squares.eigenvalue, rel=1e-9)


def test_the_attained_check_can_fail() -> None:
    squares = RidgeSquares.of(3)
    x = np.random.default_rng(1).uniform(-1, 1, (50, 3))
    after = x.copy()
    after[0] = 1.0
    assert moved((x, np.zeros(50)), (after, np.zeros(50)))[2] < 0.5 * squares.eigenvalue


def test_the_price_is_the_sum_of_the_parts() -> None:
    for d in (1, 4, 12):
        squares, schema = RidgeSquares.of(d), schema_of(*[f"x{i}" for i in range(d)])
        found = ridge_sensitivity(schema)
        assert Fraction(found.l2) ** 2 >= squares.moments + squares.cross + squares.eigenvalue
        assert found.l2 == pytest.approx((squares.moments + squares.cross + squares.eigenvalue) ** 0.5, rel=1e-15)
        assert len(found.weights) == len(ridge_entries(schema)) + 1 == d * (d + 3) // 2 + d + 1 + 1


def test_what_has_no_proof_is_refused() -> None:
    for schema in (
        schema_of("x", SEX),
        RegressionSchema(Continuous("y", BOX), (Continuous("x", BOX),), intercept=False),
    ):
        with pytest.raises(ValueError, match="continuous columns and an intercept"):
            ridge_sensitivity(schema)


def test_the_exact_eigenvalue_is_that_of_floating_point_rounded_down_one_step() -> None:
    generator = np.random.default_rng(2)
    for rows, size, step in ((5, 3, 2**10), (40, 4, 2**20), (3, 5, 2**8), (1000, 13, 2**8)):
        table = np.column_stack([np.full(rows, UNIT), generator.integers(-UNIT, UNIT + 1, (rows, size - 1))]).astype(
            object
        )
        exact = (table.T @ table).tolist()
        found = least_eigenvalue_steps(exact, step)
        least = float(np.linalg.eigvalsh(np.array(exact, dtype=np.float64) / UNIT**2)[0])
        assert abs(found * step / UNIT**2 - least) <= step / UNIT**2 + 1e-13 * rows * size
        assert is_positive_definite(exact, found * step)
        assert not is_positive_definite(exact, (found + 1) * step)


def test_neighbours_rounded_eigenvalues_differ_by_one_step_more_at_most() -> None:
    generator, step = np.random.default_rng(3), 2**30
    for _ in range(100):
        rows = np.column_stack([np.full(6, UNIT), generator.integers(-UNIT, UNIT + 1, (6, 2))]).astype(object)
        other = rows.copy()
        other[0, 1:] = [int(UNIT * s) for s in generator.choice([-1, 1], 2)]
        steps = [least_eigenvalue_steps((table.T @ table).tolist(), step) for table in (rows, other)]
        assert abs(steps[0] - steps[1]) * step <= 3 * UNIT**2 + step


def test_no_rows_have_an_eigenvalue_below_zero_by_one_step() -> None:
    assert least_eigenvalue_steps([[0, 0], [0, 0]], 2**8) == -1
