"""The declared sensitivities against an attacker who encodes rows from the document alone.

Nothing of the product's encoding is used but at the end, to see that it is the attacker's. A random search looks for
neighbours that move further than declared; interval arithmetic then proves, box by box, that none is left to find.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import gaussian_for, laplace_for
from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.moments import EXACT_BITS, PRODUCT_BITS, ExactStatistics, on_grid, regression_statistics
from dpbayes_core.regression.schema import Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity

LEVELS = 3
NEAR = 1e-3
NORMS = ("l1", "l2")
Shape = tuple[int, int, int]  # continuous columns (the response included), two-level columns, factors of three levels
SEARCHED: list[Shape] = [
    (1, 0, 0), (3, 0, 0), (5, 0, 0), (3, 1, 0), (1, 0, 2), (2, 1, 1), (1, 3, 1), (5, 1, 0), (4, 2, 1), (1, 0, 3),
]  # fmt: skip
PROVED: list[Shape] = [
    (1, 0, 0), (1, 1, 0), (1, 2, 0), (1, 0, 1), (1, 1, 1), (1, 0, 2), (2, 0, 0), (2, 1, 0), (2, 0, 1), (2, 1, 1),
    (2, 2, 0), (2, 0, 2), (3, 0, 0),
]  # fmt: skip
PROVED_SLOWLY: list[Shape] = [(3, 1, 0), (3, 0, 1), (3, 2, 0), (3, 1, 1), (4, 0, 0)]


def schema_of(shape: Shape) -> RegressionSchema:
    """The columns in the order of `Pairs`, but for the response, which the product keeps last."""
    continuous, two_level, factors = shape
    covariates: list[Covariate] = [Continuous(f"number{i}", Bounds(-1, 1)) for i in range(continuous - 1)]
    covariates += [Factor(f"choice{i}", ("no", "yes")) for i in range(two_level)]
    covariates += [Factor(f"factor{i}", ("a", "b", "c")) for i in range(factors)]
    return RegressionSchema(Continuous("response", Bounds(-1, 1)), tuple(covariates))


@dataclass
class Pairs:
    """Many pairs of rows at once: axis 0 is the pair, axis 1 the row."""

    numbers: np.ndarray  # (pairs, 2, p) in [-1, 1]
    choices: np.ndarray  # (pairs, 2, q), -1 or 1
    levels: np.ndarray  # (pairs, 2, C), 0 is the reference

    def moves(self) -> tuple[np.ndarray, np.ndarray]:
        """How far each released sum moves, and which are squares of numbers."""
        ones = np.ones((*self.numbers.shape[:2], 1))
        plain = np.concatenate([ones, self.numbers, self.choices], axis=2)
        squared = range(1, 1 + self.numbers.shape[2])
        products, squares = list[np.ndarray](), list[bool]()
        for i, j in itertools.combinations_with_replacement(range(plain.shape[2]), 2):
            if i != j or i in squared:  # other squares are public
                products.append(plain[..., i] * plain[..., j])
                squares.append(i == j)
        on = [(c, self.levels[..., c] == level) for c in range(self.levels.shape[2]) for level in range(1, LEVELS)]
        products += [indicator * plain[..., i] for _, indicator in on for i in range(plain.shape[2])]
        products += [a * b for (c, a), (d, b) in itertools.combinations(on, 2) if c != d]
        stacked = np.stack(products, axis=2)
        return stacked[:, 0] - stacked[:, 1], np.array(squares + [False] * (len(products) - len(squares)))

    def distances(self, norm: str, weight: float) -> np.ndarray:
        moved, squares = self.moves()
        return (
            np.abs(moved).sum(axis=1) if norm == "l1" else np.linalg.norm(moved * np.where(squares, weight, 1), axis=1)
        )

    def keep(self, better: np.ndarray, other: "Pairs") -> None:
        for mine, theirs in ((self.numbers, other.numbers), (self.choices, other.choices), (self.levels, other.levels)):
            mine[better] = theirs[better]

    def at(self, place: int) -> "Pairs":
        return Pairs(*(part[place : place + 1] for part in (self.numbers, self.choices, self.levels)))


def declared_in(declared: Sensitivity, norm: str) -> tuple[float, float]:
    return (declared.l1 if norm == "l1" else declared.l2), max(declared.weights)


def search(shape: Shape, norm: str, weight: float, seed: int) -> tuple[float, Pairs]:
    """Hundreds of pairs, each nudged at random and kept where that moves the sums further."""
    generator, pairs, rounds = np.random.default_rng(seed), 200, 600
    p, q, factors = ((pairs, 2, count) for count in shape)
    best = Pairs(generator.uniform(-1, 1, p), generator.choice([-1.0, 1.0], q), generator.integers(0, LEVELS, factors))
    reached = best.distances(norm, weight)
    for number in range(rounds):
        step = 10 ** (-3.5 * number / rounds)
        nudged = best.numbers + generator.normal(size=p) * step * (generator.random(p) < max(0.2, 0.75 / shape[0]))
        nudged = np.where(generator.random(p) < 0.05, generator.choice([-1.0, 0.0, 1.0], p), nudged)
        flipped = np.where(generator.random(q) < 0.08, -best.choices, best.choices)
        moved = np.where(generator.random(factors) < 0.08, generator.integers(0, LEVELS, factors), best.levels)
        tried = Pairs(np.clip(nudged, -1, 1), flipped, moved)
        distances = tried.distances(norm, weight)
        best.keep(distances > reached, tried)
        reached = np.maximum(reached, distances)
    winner = int(reached.argmax())
    return float(reached[winner]), best.at(winner)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", SEARCHED)
def test_a_random_search_reaches_the_declared_sensitivity_and_nothing_beyond(shape: Shape, norm: str) -> None:
    limit, weight = declared_in(regression_sensitivity(schema_of(shape)), norm)
    found, _ = search(shape, norm, weight, seed=1)
    assert limit * (1 - NEAR) <= found <= limit * (1 + 1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(2, 1, 1), (3, 1, 0), (1, 0, 3)])
def test_the_real_code_moves_as_far_as_the_attacker_says(shape: Shape, norm: str) -> None:
    schema = schema_of(shape)
    found, pair = search(shape, norm, max(regression_sensitivity(schema).weights), seed=2)
    assert real_distance(schema, real_moves(schema, pair), norm) == pytest.approx(found, rel=1e-4)


def real_moves(schema: RegressionSchema, pair: Pairs) -> list[int]:
    """How far the exact statistics move, in their own integers."""
    sums = [statistics_of(schema, pair, row).sums for row in (0, 1)]
    return [a - b for a, b in zip(*sums, strict=True)]


def statistics_of(schema: RegressionSchema, pair: Pairs, row: int) -> ExactStatistics:
    names = [column.name for column in schema.covariates]
    numbers = dict(zip([n for n in names if "number" in n] + ["response"], pair.numbers[0, row], strict=True))
    choices = dict(zip([n for n in names if "choice" in n], pair.choices[0, row] > 0, strict=True))
    levels = dict(zip([n for n in names if "factor" in n], pair.levels[0, row], strict=True))
    columns = {name: np.array([float(value)]) for name, value in numbers.items()}
    columns |= {name: np.array([int(value)]) for name, value in (choices | levels).items()}
    return regression_statistics(schema, columns)


def real_distance(schema: RegressionSchema, moves: list[int], norm: str) -> float:
    weights = np.array(regression_sensitivity(schema).weights if norm == "l2" else (1.0,) * len(moves))
    return float(np.linalg.norm(np.array(moves) / 2.0**PRODUCT_BITS * weights, 1 if norm == "l1" else 2))


# --- a proof by intervals -------------------------------------------------------------------------------------------


@dataclass
class Boxes:
    """Boxes of numbers of both rows, and one setting of everything else."""

    low: np.ndarray  # (boxes, 2, p)
    high: np.ndarray
    choices: np.ndarray  # (2, q)
    levels: np.ndarray  # (2, C)

    def furthest(self, norm: str, weight: float) -> np.ndarray:
        """More than any pair in each box can move the sums."""
        total = np.zeros(len(self.low))
        for low, high, square in self._moves():
            reach = np.maximum(np.abs(low), np.abs(high))
            total += reach if norm == "l1" else ((weight if square else 1.0) * reach) ** 2
        return total if norm == "l1" else np.sqrt(total)

    def _moves(self) -> Iterator[tuple[np.ndarray, np.ndarray, bool]]:
        p, plain = self.low.shape[2], self._plain()
        for i, j in itertools.combinations_with_replacement(range(len(plain)), 2):
            if i != j or 1 <= i <= p:
                ends = [_product(*(side[:, row] for side in (*plain[i], *plain[j])), same=i == j) for row in (0, 1)]
                yield ends[0][0] - ends[1][1], ends[0][1] - ends[1][0], i == j
        on = [(c, self.levels[:, c] == level) for c in range(self.levels.shape[1]) for level in range(1, LEVELS)]
        for _, indicator in on:
            for low, high in plain:
                yield (
                    low[:, 0] * indicator[0] - high[:, 1] * indicator[1],
                    (high[:, 0] * indicator[0] - low[:, 1] * indicator[1]),
                    False,
                )
        for (c, a), (d, b) in itertools.combinations(on, 2):
            if c != d:
                moved = np.full(len(self.low), float(a[0] & b[0]) - float(a[1] & b[1]))
                yield moved, moved, False

    def _plain(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Lower and upper ends of constant, numbers and two-level columns, (boxes, 2) each."""
        fixed = [np.broadcast_to(column, self.low.shape[:2]) for column in (np.ones(2), *self.choices.T)]
        numbers = [(self.low[..., i], self.high[..., i]) for i in range(self.low.shape[2])]
        return [(fixed[0], fixed[0]), *numbers, *((column, column) for column in fixed[1:])]

    def only(self, kept: np.ndarray) -> "Boxes":
        return Boxes(self.low[kept], self.high[kept], self.choices, self.levels)

    def halved(self, axis: int) -> "Boxes":
        """Each box cut in two along one of its 2 p sides."""
        row, column = divmod(axis, self.low.shape[2])
        middle = (self.low[:, row, column] + self.high[:, row, column]) / 2
        low, high = self.low.copy(), self.high.copy()
        high[:, row, column], low[:, row, column] = middle, middle
        return Boxes(np.concatenate([self.low, low]), np.concatenate([high, self.high]), self.choices, self.levels)

    def corners(self) -> Pairs:
        """One pair of each box."""
        choices, levels = (np.broadcast_to(part, (len(self.low), *part.shape)) for part in (self.choices, self.levels))
        return Pairs(self.low, choices, levels)


def _product(
    a_low: np.ndarray, a_high: np.ndarray, b_low: np.ndarray, b_high: np.ndarray, *, same: bool
) -> tuple[np.ndarray, np.ndarray]:
    ends = np.stack([a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high])
    if not same:
        return ends.min(axis=0), ends.max(axis=0)
    return np.where((a_low <= 0) & (a_high >= 0), 0.0, np.minimum(ends[0], ends[3])), np.maximum(ends[0], ends[3])


def exceeded_somewhere(shape: Shape, norm: str, limit: float, weight: float) -> bool:
    """Whether some pair moves the sums beyond the limit: decided for every pair there is, or not at all."""
    p, q, factors = shape
    for signs in itertools.product((-1.0, 1.0), repeat=2 * q):
        for codes in itertools.product(range(LEVELS), repeat=2 * factors):
            cube = np.ones((1, 2, p))
            boxes = Boxes(-cube, cube, np.array(signs).reshape(2, q), np.array(codes, int).reshape(2, factors))
            for depth in itertools.count():
                boxes = boxes.only(boxes.furthest(norm, weight) > limit)
                if not len(boxes.low):
                    break
                if boxes.corners().distances(norm, weight).max() > limit:
                    return True
                assert len(boxes.low) < 10**6, "undecided: the limit is too close to what is reached"
                boxes = boxes.halved(depth % (2 * p))
    return False


def prove(shape: Shape, norm: str) -> None:
    limit, weight = declared_in(regression_sensitivity(schema_of(shape)), norm)
    assert not exceeded_somewhere(shape, norm, limit * 1.01, weight)
    assert exceeded_somewhere(shape, norm, limit * 0.97, weight)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", PROVED)
def test_no_pair_of_rows_moves_the_sums_one_percent_further_than_declared(shape: Shape, norm: str) -> None:
    prove(shape, norm)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", PROVED_SLOWLY)
def test_nor_does_any_pair_of_larger_rows(shape: Shape, norm: str) -> None:
    prove(shape, norm)


# --- the output grid ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(2, 0, 0), (3, 1, 0), (2, 1, 1)])
@pytest.mark.parametrize("at_the_clamp", [False, True])
def test_what_is_added_for_the_grid_covers_rounding_and_clamping(shape: Shape, norm: str, at_the_clamp: bool) -> None:
    _, paid, moved = moved_on_a_coarse_grid(shape, norm, at_the_clamp=at_the_clamp)
    assert moved <= paid


def test_without_what_is_added_for_the_grid_the_claim_would_be_false() -> None:
    declared, paid, moved = moved_on_a_coarse_grid((2, 0, 0), "l1", at_the_clamp=False)
    assert declared + 0.2 * (paid - declared) < moved


def moved_on_a_coarse_grid(shape: Shape, norm: str, *, at_the_clamp: bool) -> tuple[float, float, float]:
    """What is declared without the grid, what a mechanism pays for, and what the worst rows move once rounded."""
    schema, grid = schema_of(shape), 5
    declared = regression_sensitivity(schema)
    if norm == "l1":
        paid = laplace_for(declared, epsilon=1.0, grid=grid, entries=len(schema.entries)).sensitivity
    else:
        paid = gaussian_for(declared, rho=0.1, grid=grid).sensitivity
    limit, weight = declared_in(declared, norm)
    _, pair = search(shape, norm, weight, seed=4)
    pair.numbers *= np.random.default_rng(3).uniform(0.999, 1, pair.numbers.shape)  # off the grid
    moves = worst_rounded_moves(schema, pair, grid, at_the_clamp=at_the_clamp)
    return limit, paid, real_distance(schema, moves, norm)


def worst_rounded_moves(schema: RegressionSchema, pair: Pairs, grid: int, *, at_the_clamp: bool) -> list[int]:
    """The rest of the table, entry by entry, is the one of a hundred at which rounding adds most."""
    generator, count = np.random.default_rng(5), len(schema.entries)
    clamp = 2 ** (EXACT_BITS - 1 + PRODUCT_BITS - grid)  # the largest sum on the grid
    worst = np.zeros(count)
    for _ in range(100):
        rest = generator.integers(-(2**40), 2**40, count).astype(object)
        if at_the_clamp:
            rest = rest + clamp * generator.choice([-1, 1], count).astype(object)
        one, other = (on_grid(ExactStatistics(9, tuple(rest)) + statistics_of(schema, pair, r), grid) for r in (0, 1))
        worst = np.maximum(worst, np.abs(one - other))  # exact: doubles a few steps apart
    return [int(move * 2.0**PRODUCT_BITS) for move in worst]
