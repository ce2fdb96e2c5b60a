"""Geometric noise in groups: charged in full, priced at the worst pair, told apart from its neighbours."""

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_core.privacy.accounting import UNITS, limit_units
from dpbayes_core.privacy.mechanisms import GeometricMechanism
from dpbayes_core.privacy.noise import OpenDPNoise, SeededNoise


def mechanism_of_geometric(epsilon: float = 1.0, shares: tuple[float, ...] = (1.0, 2.0)) -> GeometricMechanism:
    return GeometricMechanism(epsilon=epsilon, sizes=(4, 8), sensitivities=(2, 2), largest_move=1, shares=shares)


@given(
    st.decimals(min_value="1e-6", max_value=50, places=7),
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 400), st.floats(0.01, 100)), min_size=1, max_size=5),
)
@settings(derandomize=True, max_examples=100, deadline=None)
def test_no_groups_make_the_certified_loss_exceed_the_charge(
    epsilon: Decimal, groups: list[tuple[int, int, float]]
) -> None:
    sizes, moves, shares = (tuple(part) for part in zip(*groups, strict=True))
    mechanism = GeometricMechanism(
        epsilon=float(epsilon), sizes=sizes, sensitivities=moves, largest_move=1, shares=shares
    )
    charged = mechanism.cost().epsilon
    assert charged == limit_units(float(epsilon))
    assert Fraction(mechanism.certified_loss(OpenDPNoise())) * UNITS <= charged
    assert Fraction(mechanism.certified_loss(OpenDPNoise())) * UNITS >= charged * (1 - Fraction(1, 10**9))


def test_a_share_of_epsilon_is_a_scale() -> None:
    mechanism = mechanism_of_geometric(0.3)
    assert mechanism.group_scales == pytest.approx((20.0, 10.0), rel=1e-12)
    assert mechanism.scales.tolist() == [mechanism.group_scales[0]] * 4 + [mechanism.group_scales[1]] * 8


def test_the_rho_of_one_scale_is_that_of_the_ledger() -> None:
    families, epsilon = 17, 1.0
    mechanism = GeometricMechanism(
        epsilon=epsilon, sizes=(4,) * families, sensitivities=(2,) * families, largest_move=1, shares=(1.0,) * families
    )
    assert mechanism.cost().rho / UNITS == pytest.approx(epsilon * math.tanh(epsilon / (4 * families)), rel=1e-12)


def worst_rho(moves: tuple[int, ...], scale: float) -> float:
    """The largest KL divergence, which is the rho of small losses, of noise on entries that move so far."""
    reach = np.arange(-4000, 4001)
    law = np.exp(-np.abs(reach) / scale)
    law /= law.sum()
    return sum(float(np.sum(law * (np.abs(reach - move) - np.abs(reach)) / scale)) for move in moves)


@pytest.mark.parametrize("scale", [0.7, 3.0, 40.0])
def test_the_price_is_no_less_than_any_pair_costs_and_attained(scale: float) -> None:
    mechanism = GeometricMechanism(epsilon=12 / scale, sizes=(9,), sensitivities=(12,), largest_move=2, shares=(1.0,))
    rho = mechanism.cost().rho / UNITS
    for moves in ((2,) * 6, (2, 2, 2, 2, 1, 1, 1, 1), (1,) * 9):
        assert worst_rho(moves, scale) <= rho * (1 + 1e-9)
    assert worst_rho((2,) * 6, scale) == pytest.approx(rho, rel=1e-9)


def test_the_price_at_another_epsilon_is_that_of_the_mechanism_there() -> None:
    mechanism = mechanism_of_geometric(1.0)
    assert mechanism.at(Decimal("0.25"), Decimal("1e-6")) == mechanism_of_geometric(0.25).cost()
    assert mechanism.at(Decimal("1e-19"), Decimal("1e-6")).rho == 0


def test_each_group_has_its_own_noise_and_the_counts_are_left_alone() -> None:
    mechanism = GeometricMechanism(
        epsilon=1.0, sizes=(50_000, 50_000), sensitivities=(2, 2), largest_move=1, shares=(1.0, 4.0)
    )
    counts = np.arange(100_000)
    noise = mechanism.release(SeededNoise(4, i_know_this_is_not_private=True), counts) - counts
    assert np.array_equal(counts, np.arange(100_000))
    for part, scale in zip(np.split(noise, 2), mechanism.group_scales, strict=True):
        expected = 1 / (2 * math.sinh(0.5 / scale) ** 2)  # the variance
        assert abs(part.var() / expected - 1) < 5 * math.sqrt(5.5 / 50_000)


@dataclass(frozen=True)
class Bound:
    """As much of a sensitivity as mechanisms read."""

    l1: float
    l2: float
    weights: tuple[float, ...]


def test_protection_assumes_that_the_least_noisy_group_moves() -> None:
    mechanism = mechanism_of_geometric(1.0)
    least = min(mechanism.group_scales)
    assert mechanism.protects(Bound(1.0, 1.0, (1.0,) * 12))  # pyright: ignore[reportArgumentType]
    assert not mechanism.protects(Bound(2 * least, 1.0, (1.0,) * 12))  # pyright: ignore[reportArgumentType]
    assert not mechanism.protects(Bound(2.0, 2.0, (1.0,) * 12))  # pyright: ignore[reportArgumentType]
    assert not mechanism.protects(Bound(1.0, 1.0, (1.0,) * 11))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": 1.01e6},
        {"epsilon": 1e-19},
        {"sizes": ()},
        {"sizes": (4, 0)},
        {"sensitivities": (2,)},
        {"sensitivities": (2, 1.5)},
        {"largest_move": 0},
        {"shares": (1.0, 0.0)},
        {"shares": (1.0, math.inf)},
        {"shares": (1.0, 1e-30)},
    ],
)
def test_a_geometric_mechanism_of_impossible_parts_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="cannot make geometric noise"):
        replace(mechanism_of_geometric(), **wrong)  # pyright: ignore[reportArgumentType]
