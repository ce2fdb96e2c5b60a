"""Fourth moments: sums of Python integers whatever the values and the cut, and a sensitivity that no pair exceeds."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.fourth_moments import FOURTH_BITS, FOURTH_UNIT, FourthMoments, fourth_sensitivity
from dpbayes_core.schema import Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.statistics import ExactStatistics, on_grid

BOX = Bounds(-1, 1)
Shape = tuple[int, int, int]  # covariates: continuous, of two levels, of three
SHAPES: list[Shape] = [
    (1, 0, 0),
    (2, 0, 0),
    (3, 0, 0),
    (5, 0, 0),
    (1, 1, 0),
    (0, 3, 0),
    (2, 1, 1),
    (1, 0, 2),
    (3, 2, 1),
]


def schema_of(shape: Shape) -> RegressionSchema:
    covariates: list[Covariate] = [Continuous(f"x{i}", BOX) for i in range(shape[0])]
    covariates += [Factor(f"t{i}", ("no", "yes")) for i in range(shape[1])]
    covariates += [Factor(f"g{i}", ("a", "b", "c")) for i in range(shape[2])]
    return RegressionSchema(Continuous("y", BOX), tuple(covariates))


def columns_of(shape: Shape, rows: int, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    odd = [np.nan, np.inf, -np.inf, 1e308, 5e-324, 1.0, -1.0, 1 - 2.0**-16]
    columns: dict[str, np.ndarray] = {}
    for i in range(shape[0]):
        columns[f"x{i}"] = np.where(
            generator.random(rows) < 0.3, generator.choice(odd, rows), generator.uniform(-1.2, 1.2, rows)
        )
    columns |= {f"t{i}": generator.integers(0, 2, rows) for i in range(shape[1])}
    return columns | {f"g{i}": generator.integers(0, 3, rows) for i in range(shape[2])}


def reference(shape: Shape, columns: dict[str, np.ndarray]) -> tuple[int, ...]:
    """Row by row in Python integers; numbers rounded half to even."""
    total = Counter[tuple[int, ...]]()
    entries = FourthMoments(schema_of(shape)).entries
    for place in range(len(next(iter(columns.values())))):
        row = [FOURTH_UNIT]
        for name, values in columns.items():
            value = values[place]
            if name[0] == "x":
                value = 0.0 if math.isnan(value) else min(max(float(value), -1.0), 1.0)
                row.append(round(value / 2 * 2**FOURTH_BITS))
            elif name[0] == "t":
                row.append(FOURTH_UNIT if value == 1 else -FOURTH_UNIT)
            else:
                row += [FOURTH_UNIT * int(value == code) for code in (1, 2)]
        total.update({entry: math.prod(row[i] for i in entry) for entry in entries})
    return tuple(total[entry] for entry in entries)


def summed(shape: Shape, columns: dict[str, np.ndarray]) -> ExactStatistics:
    statistic = FourthMoments(schema_of(shape))
    return statistic.sum(statistic.encode(columns))


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_equal_python_integers(shape: Shape) -> None:
    columns = columns_of(shape, 300, seed=3)
    assert summed(shape, columns) == ExactStatistics(300, reference(shape, columns))


def test_order_and_split_do_not_change_a_digit() -> None:
    shape, rows = (3, 1, 1), 5000
    columns = columns_of(shape, rows, seed=4)
    whole = summed(shape, columns)
    order = np.random.default_rng(5).permutation(rows)
    parts = [summed(shape, {n: v[order][a:b] for n, v in columns.items()}) for a, b in ((0, 2049), (2049, rows))]
    assert parts[0] + parts[1] == whole
    assert ExactStatistics.from_arrays(whole.to_arrays()) == whole


def test_sums_at_the_bounds_stay_exact_beyond_sixty_four_bits() -> None:
    rows = 70_000
    total = summed((2, 0, 0), {"x0": np.ones(rows), "x1": np.full(rows, -1.0)})
    signs = [(-1) ** sum(i == 2 for i in entry) for entry in FourthMoments(schema_of((2, 0, 0))).entries]
    assert total.sums == tuple(rows * sign * FOURTH_UNIT**4 for sign in signs)
    assert max(total.sums) > 2**64
    assert on_grid(total, 20, bits=4 * (FOURTH_BITS - 1)).tolist() == [float(rows * sign) for sign in signs]


def test_entries_are_what_no_second_moment_tells() -> None:
    assert FourthMoments(schema_of((1, 1, 1))).entries == (
        (0, 1, 1, 1), (0, 1, 1, 2), (0, 1, 1, 3), (0, 1, 1, 4), (0, 1, 2, 3), (0, 1, 2, 4),
        (1, 1, 1, 1), (1, 1, 1, 2), (1, 1, 1, 3), (1, 1, 1, 4), (1, 1, 2, 3), (1, 1, 2, 4),
    )  # fmt: skip


def standardised(shape: Shape, numbers: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Entries of each row alone; levels are codes, two-level columns first."""
    parts = [np.ones((len(numbers), 1)), numbers, 2.0 * levels[:, : shape[1]] - 1]
    parts += [levels[:, place, None] == np.array([1, 2]) for place in range(shape[1], shape[1] + shape[2])]
    whole = np.concatenate(parts, axis=1)
    return np.prod(whole[:, np.array(FourthMoments(schema_of(shape)).entries)], axis=2)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_pair_exceeds_the_declared_sensitivity_and_the_best_is_not_far(
    shape: Shape, capsys: pytest.CaptureFixture[str]
) -> None:
    declared, generator = fourth_sensitivity(schema_of(shape)), np.random.default_rng(6)
    weights, best = np.array(declared.weights), {"l1": 0.0, "l2": 0.0}
    for _ in range(12):
        rows = 400
        numbers = generator.choice([-1.0, 1.0, -0.75, 0.0, *generator.uniform(-1, 1, 2)], (rows, shape[0]))
        codes = [generator.integers(0, 2 + (i >= shape[1]), rows) for i in range(shape[1] + shape[2])]
        levels = np.array(codes).reshape(-1, rows).T
        values = standardised(shape, numbers, levels)
        changes = values[:, None] - values[None]
        best["l1"] = max(best["l1"], float(np.abs(changes).sum(axis=2).max()))
        best["l2"] = max(best["l2"], float(np.linalg.norm(changes * weights, axis=2).max()))
    shares = {"l1": best["l1"] / declared.l1, "l2": best["l2"] / declared.l2}
    with capsys.disabled():
        print(f" {shape}: reached {shares['l1']:.2f} of L1, {shares['l2']:.2f} of L2", end="")
    assert 0.4 <= shares["l1"] <= 1 + 1e-12
    assert 0.5 <= shares["l2"] <= 1 + 1e-12


@pytest.mark.parametrize("continuous", [3, 5, 7])
def test_corners_attain_the_l2_bound_but_for_the_rounded_weights(continuous: int) -> None:
    shape = (continuous, 0, 0)
    numbers = np.ones((2, continuous))
    numbers[1, : (continuous + 3) // 2] = -1  # the product of the two rows is -3
    one, other = standardised(shape, numbers, np.zeros((2, 0), int))
    entries = FourthMoments(schema_of(shape)).entries
    quadruples = [len(set(itertools.permutations(entry))) for entry in entries]
    reached = math.sqrt(sum(count * change**2 for count, change in zip(quadruples, one - other, strict=True)))
    declared = fourth_sensitivity(schema_of(shape))
    proved = math.sqrt(2 * (continuous**4 + 4 * continuous**3) + 54)
    assert reached == pytest.approx(proved, rel=1e-12)
    assert declared.l2 <= proved * (1 + 1e-15)
    assert continuous < 7 or declared.l2 == pytest.approx(proved, rel=1e-15)
    assert all(w**2 <= count < 4 * w**2 for w, count in zip(declared.weights, quadruples, strict=True))
