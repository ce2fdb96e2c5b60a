"""Medians by the exponential mechanism: exact probabilities, exact price, nothing rounded against the people."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.accounting import UNITS, exponential_cost, limit_units
from dpbayes_core.privacy.mechanisms.exponential import ExponentialMechanism, MedianLottery, uniform_below
from dpbayes_core.privacy.noise import OpenDPNoise, SeededNoise

ALPHA = 1e-6


def mechanism_of_exponential(**changed: object) -> ExponentialMechanism:
    given: dict[str, object] = {"epsilon": 1.0, "values": 5, "points": 9, "shares": (1.0, 3.0)}
    return ExponentialMechanism(**{**given, **changed})  # pyright: ignore[reportArgumentType]


def seeded(seed: int) -> SeededNoise:
    return SeededNoise(seed, i_know_this_is_not_private=True)


def probabilities(lottery: MedianLottery, values: np.ndarray) -> dict[int, Fraction]:
    """The exact law of a draw, point by point."""
    cells = lottery.cells(values)
    weights = lottery.weights(max(cell[2] for cell in cells))
    total = sum(length * weights[distance] for _, length, distance in cells)
    return {first + k: Fraction(weights[d], total) for first, length, d in cells for k in range(length)}


def test_a_record_survives_canonical_json_and_contradictions_are_refused() -> None:
    mechanism = mechanism_of_exponential()
    record = json.loads(canonical_json(mechanism.to_record()))
    assert ExponentialMechanism.from_record(record) == mechanism
    for changed in ({"scale": 1.0}, {"norm": "L1"}, {"sensitivity": 2.0}, {"seed": 1}):
        with pytest.raises(ValueError, match="cannot read"):
            ExponentialMechanism.from_record({**record, **changed})


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 7.3, 50.0])
@pytest.mark.parametrize("shares", [(1.0,), (1.0, 1.0, 1.0), (0.1, 0.9)])
def test_what_the_weights_lose_is_charged_in_full_and_hardly_more(epsilon: float, shares: tuple[float, ...]) -> None:
    mechanism = mechanism_of_exponential(epsilon=epsilon, shares=shares)
    certified = Fraction(mechanism.certified_loss(OpenDPNoise())) * UNITS
    charged = mechanism.cost().epsilon
    assert charged == limit_units(epsilon)
    assert charged * (1 - Fraction(1, 10**13)) <= certified <= charged


def test_the_price_is_that_of_bounded_range() -> None:
    mechanism = mechanism_of_exponential(epsilon=1.0, shares=(1.0,))
    assert mechanism.cost().rho <= exponential_cost(1).rho
    assert mechanism.cost().rho >= exponential_cost(1).rho * (1 - 1e-12)
    assert mechanism.at(Decimal("0.5"), Decimal("1e-6")) == mechanism_of_exponential(epsilon=0.5, shares=(1.0,)).cost()


def test_a_replaced_value_changes_no_probability_by_more_than_epsilon_and_some_by_nearly_as_much() -> None:
    points, epsilon = 5, 1.0
    for count in (1, 2, 3, 4):
        lottery = MedianLottery(Fraction(epsilon), points)
        worst = 0.0
        laws = {
            v: probabilities(lottery, np.array(v)) for v in product(range(points), repeat=count) if list(v) == sorted(v)
        }
        for values, law in laws.items():
            for place, other in product(range(count), range(points)):
                moved = tuple(sorted((*values[:place], other, *values[place + 1 :])))
                worst = max(worst, max(math.log(law[x] / laws[moved][x]) for x in range(points)))
        assert worst <= epsilon
        assert worst > epsilon / 4


def test_the_worst_pair_loses_all_of_epsilon() -> None:
    lottery = MedianLottery(Fraction(1), 2**40)
    low, high = np.zeros(3, dtype=np.int64), np.array([0, 0, 0], dtype=np.int64)
    low[:] = [0, 0, 2**39]
    high[:] = [0, 2**39, 2**39]
    cells = [lottery.cells(values) for values in (low, high)]
    weights = lottery.weights(3)
    totals = [sum(n * weights[d] for _, n, d in found) for found in cells]
    at = [next(weights[d] for first, n, d in found if first <= 2**38 < first + n) for found in cells]
    assert abs(math.log(at[1] / totals[1]) - math.log(at[0] / totals[0])) <= 1
    loss = math.log(Fraction(weights[0], weights[1]))
    assert 0.5 * (1 - 1e-12) <= loss <= 0.5


def test_the_cells_cover_the_grid_once_with_the_distance_of_each_point() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        values = generator.integers(0, 12, generator.integers(1, 8))
        half = len(values) // 2
        covered: dict[int, int] = {}
        for first, length, distance in MedianLottery(Fraction(1), 12).cells(values):
            for point in range(first, first + length):
                assert point not in covered
                covered[point] = distance
        for point in range(12):
            below, above = int((values < point).sum()), int((values > point).sum())
            assert covered[point] == max(0, max(below, above) - half)


def test_draws_have_exactly_the_stated_law() -> None:
    mechanism = mechanism_of_exponential(shares=(1.0,))
    values = np.array([[0, 2, 2, 5, 8]], dtype=np.int64)
    law = probabilities(mechanism.lotteries[0], values[0])
    noise, count = seeded(3), 4000
    drawn = [int(mechanism.release(noise, values)[0]) for _ in range(count)]
    expected = [float(law[x]) * count for x in range(9)]
    assert stats.chisquare(np.bincount(drawn, minlength=9), expected).pvalue > ALPHA
    wrong = np.roll(expected, 1)
    assert stats.chisquare(np.bincount(drawn, minlength=9), wrong).pvalue < ALPHA


def test_whole_numbers_below_a_bound_are_equally_likely() -> None:
    noise = seeded(4)
    drawn = [uniform_below(noise, 7) for _ in range(7000)]
    assert stats.chisquare(np.bincount(drawn, minlength=7)).pvalue > ALPHA
    big = [uniform_below(noise, 3 * 2**200) >> 200 for _ in range(3000)]
    assert stats.chisquare(np.bincount(big, minlength=3)).pvalue > ALPHA


def test_the_operating_systems_entropy_serves_as_well() -> None:
    mechanism = mechanism_of_exponential(values=101, points=2**40, epsilon=20.0, shares=(1.0,))
    middle = np.arange(101, dtype=np.int64)[None] + 2**39
    assert abs(int(mechanism.release(OpenDPNoise(), middle)[0]) - 2**39 - 50) < 50


def test_what_is_off_the_grid_or_of_another_shape_is_refused() -> None:
    mechanism, noise = mechanism_of_exponential(), seeded(1)
    good = np.zeros((2, 5), dtype=np.int64)
    for bad in (good[:1], good - 1, good + 9, good.astype(np.float64)):
        with pytest.raises(ValueError, match="cannot draw medians"):
            mechanism.release(noise, bad)


def test_parameters_that_mean_nothing_are_refused() -> None:
    for changed in (
        {"epsilon": 0.0}, {"epsilon": math.nan}, {"values": 0}, {"points": 1}, {"points": 2**54}, {"shares": ()},
        {"shares": (1.0, -1.0)}, {"shares": (1.0, 1e-30)},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="cannot draw medians"):
            mechanism_of_exponential(**changed)
