"""Laplace and Gaussian noise: charged at least what it costs, priced exactly, distinguished from its neighbours."""

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpbayes_core.privacy.accounting import UNITS, analytic_gaussian_epsilon, cap_rho_units, laplace_cost, limit_units
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.privacy.mechanisms.gaussian import GaussianMechanism
from dpbayes_core.privacy.mechanisms.laplace import LaplaceMechanism
from dpbayes_core.privacy.noise import OpenDPNoise
from tests.support.mechanism_examples import TWO_COLUMNS, WEIGHTED, Bound

ALPHA = 1e-6
CAPS = [
    ("0.1", "1e-5"),
    ("0.3", "1e-6"),
    ("0.5", "1e-6"),
    ("1", "1e-6"),
    ("0.7", "0.00001"),
    ("8", "1e-9"),
    ("1e-3", "1e-5"),
]


def charged(mechanism: Mechanism) -> int:
    """The charge in the mechanism's own measure."""
    cost = mechanism.cost()
    return cost.rho if cost.epsilon is None else cost.epsilon


@given(
    st.decimals(min_value="1e-6", max_value=50, places=7),
    st.floats(0.1, 1e4),
    st.integers(1, 200),
    st.integers(10, 30),
    st.sampled_from(["1e-4", "1e-6", "1e-9"]),
)
@settings(derandomize=True, max_examples=100, deadline=None)
def test_no_parameters_make_the_certified_loss_exceed_the_charge(
    epsilon: Decimal, size: float, entries: int, grid: int, delta: str
) -> None:
    bound = Bound(size, size / 2, (1.0,) * entries)
    for mechanism in (
        laplace_for(bound, epsilon=epsilon, grid=grid, entries=entries),
        gaussian_for(bound, epsilon=epsilon, delta=Decimal(delta), grid=grid),
        gaussian_for(bound, rho=epsilon, grid=grid),
    ):
        assert Fraction(mechanism.certified_loss(OpenDPNoise())) * UNITS <= charged(mechanism)


@pytest.mark.parametrize("bound", [TWO_COLUMNS, WEIGHTED], ids=["plain", "weighted"])
@pytest.mark.parametrize("grid", [6, 30])
def test_a_mechanism_protects_what_it_was_made_for_and_nothing_larger(bound: Bound, grid: int) -> None:
    entries = len(bound.weights)
    further = [replace(bound, l1=bound.l1 * (1 + 1e-12), l2=bound.l2 * (1 + 1e-12))]
    further += [replace(bound, weights=(*bound.weights, 1.0)), replace(bound, weights=bound.weights[1:])]
    for mechanism in (
        laplace_for(bound, epsilon=0.5, grid=grid, entries=entries),
        gaussian_for(bound, epsilon=1, delta=1e-6, grid=grid),
        gaussian_for(bound, rho=0.02, grid=grid),
    ):
        assert mechanism.protects(bound)
        assert mechanism.protects(replace(bound, l1=bound.l1 / 2, l2=bound.l2 / 2))
        assert not any(mechanism.protects(larger) for larger in further)
        assert not replace(mechanism, sensitivity=math.nextafter(mechanism.sensitivity, 0)).protects(bound)
        assert not replace(mechanism, grid=grid - 1).protects(bound)


def test_heavier_entries_than_proved_are_not_protected_and_lighter_ones_are() -> None:
    mechanism = gaussian_for(WEIGHTED, rho=0.02, grid=30)
    assert not replace(mechanism, weights=(1.0, 2.0, 1.0, 1.0, 4.0, 1.0)).protects(WEIGHTED)
    assert replace(mechanism, weights=(1.0,) * 6).protects(WEIGHTED)


# prices and caps


@pytest.mark.parametrize(("epsilon", "delta"), CAPS)
@pytest.mark.parametrize("read", [float, Decimal])
def test_a_cap_of_epsilon_admits_exactly_one_gaussian_release_of_epsilon(epsilon: str, delta: str, read: type) -> None:
    mechanism = gaussian_for(TWO_COLUMNS, epsilon=read(epsilon), delta=read(delta), grid=30)
    room = cap_rho_units(Decimal(epsilon), Decimal(delta))
    assert mechanism.cost().rho <= room < 2 * mechanism.cost().rho
    assert room - mechanism.cost().rho <= room >> 50 | 1  # and leaves nothing worth having
    assert mechanism.cost().epsilon is None
    assert (mechanism.epsilon, mechanism.delta) == (float(epsilon), float(delta))


@pytest.mark.parametrize(
    "epsilon", ["0.1", "0.3", "0.7", "1", "2.5", "1e-9", "0.333333333333333314829616256247", str(1 / 3)]
)
@pytest.mark.parametrize("read", [float, Decimal])
def test_a_pure_cap_of_epsilon_admits_exactly_one_laplace_release_of_epsilon(epsilon: str, read: type) -> None:
    mechanism = laplace_for(TWO_COLUMNS, epsilon=read(epsilon), grid=30, entries=5)
    pure = mechanism.cost().epsilon
    assert pure is not None
    assert Fraction(pure, UNITS) <= Fraction(epsilon)
    assert pure <= limit_units(Decimal(epsilon)) < 2 * pure


def test_ten_laplace_releases_of_a_tenth_fill_a_cap_of_one() -> None:
    pure = laplace_for(TWO_COLUMNS, epsilon=0.1, grid=30, entries=5).cost().epsilon
    assert pure is not None
    assert 10 * pure <= limit_units(1) < 10 * pure + 10


def test_the_gaussian_scale_is_the_published_one() -> None:
    mechanism = gaussian_for(TWO_COLUMNS, epsilon=1, delta=1e-6, grid=30)
    assert mechanism.scale == pytest.approx(4.5309 * math.sqrt(8), rel=1e-5)
    assert mechanism.scale >= mechanism.sensitivity / math.sqrt(2 * mechanism.rho)


def test_the_tighter_epsilon_stands_beside_the_charge() -> None:
    mechanism = gaussian_for(TWO_COLUMNS, epsilon=1, delta=1e-6, grid=30)
    assert mechanism.exact_epsilon == mechanism.to_record()["exact_epsilon"]
    assert mechanism.exact_epsilon == pytest.approx(analytic_gaussian_epsilon(1, 4.5309, 1e-6), rel=1e-4)
    assert mechanism.exact_epsilon is not None
    assert 0.9 < mechanism.exact_epsilon < 1
    assert gaussian_for(TWO_COLUMNS, rho=0.02, grid=30).exact_epsilon is None


def test_the_laplace_rho_is_the_tight_one() -> None:
    mechanism = laplace_for(TWO_COLUMNS, epsilon=1.0, grid=30, entries=5)
    assert mechanism.cost().rho / UNITS == pytest.approx(0.141, rel=5e-3)
    assert mechanism.cost().rho >= laplace_cost(TWO_COLUMNS.l1, TWO_COLUMNS.l2, mechanism.scale).rho


def test_rounding_to_the_output_grid_is_paid_for() -> None:
    coarse = laplace_for(WEIGHTED, epsilon=1.0, grid=4, entries=6)
    assert coarse.sensitivity >= Fraction(WEIGHTED.l1) + Fraction(6, 16)
    assert coarse.sensitivity_l2**2 >= (WEIGHTED.l2 + math.sqrt(6) / 16) ** 2 * (1 - 1e-15)
    weighted = gaussian_for(WEIGHTED, rho=0.1, grid=4)
    assert weighted.sensitivity == pytest.approx(WEIGHTED.l2 + math.sqrt(4 + 2 * 4) / 16, rel=1e-15)
    assert weighted.sensitivity >= WEIGHTED.l2 + math.sqrt(12) / 16


def test_two_rounded_neighbours_are_within_the_sensitivity_that_pays_for_rounding() -> None:
    generator, grid = np.random.default_rng(7), 3
    weights = np.array(WEIGHTED.weights)
    mechanism = gaussian_for(WEIGHTED, rho=0.1, grid=grid)
    for _ in range(2000):
        move = generator.normal(size=6)
        move *= WEIGHTED.l2 / np.linalg.norm(move * weights)
        exact = generator.normal(size=6) * 10
        moved = (np.rint((exact + move) * 2**grid) - np.rint(exact * 2**grid)) / 2**grid
        assert np.linalg.norm(moved * weights) <= mechanism.sensitivity


# nonsense


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, Decimal(0), Decimal("NaN")])
def test_an_epsilon_that_is_none_makes_no_mechanism(epsilon: float | Decimal) -> None:
    with pytest.raises(ValueError, match="cannot"):
        laplace_for(TWO_COLUMNS, epsilon=epsilon, grid=30, entries=5)
    with pytest.raises(ValueError, match="cannot"):
        gaussian_for(TWO_COLUMNS, epsilon=epsilon, delta=1e-6, grid=30)
    with pytest.raises(ValueError, match="cannot"):
        gaussian_for(TWO_COLUMNS, rho=epsilon, grid=30)


def test_a_loss_that_protects_nobody_makes_no_mechanism() -> None:
    with pytest.raises(ValueError, match="above a million"):
        laplace_for(TWO_COLUMNS, epsilon=1.01e6, grid=30, entries=5)
    with pytest.raises(ValueError, match="above a million"):
        gaussian_for(TWO_COLUMNS, epsilon=1e13, delta=1e-6, grid=30)


def test_a_loss_too_small_to_charge_makes_no_mechanism() -> None:
    with pytest.raises(ValueError, match="cannot"):
        laplace_for(TWO_COLUMNS, epsilon=1e-20, grid=30, entries=5)
    with pytest.raises(ValueError, match="cannot"):
        gaussian_for(TWO_COLUMNS, rho=1e-20, grid=30)


def test_a_gaussian_release_states_its_loss_in_one_way() -> None:
    for stated in ({}, {"epsilon": 1.0}, {"delta": 1e-6}, {"rho": 0.1, "epsilon": 1.0, "delta": 1e-6}):
        with pytest.raises(ValueError, match="State either rho or epsilon with delta"):
            gaussian_for(TWO_COLUMNS, grid=30, **stated)


def test_a_gaussian_mechanism_cannot_state_less_than_it_costs() -> None:
    honest = gaussian_for(TWO_COLUMNS, epsilon=1.0, delta=1e-6, grid=30)
    for lie in ({"rho": 0.0244}, {"epsilon": 0.999}, {"delta": 9e-7}):
        with pytest.raises(ValueError, match="rho exceeds the stated"):
            replace(honest, **lie)
    with pytest.raises(ValueError, match="go together"):
        replace(honest, delta=None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": ()},
        {"weights": (1.0, 3.0)},
        {"weights": (1.0, 0.0)},
        {"weights": (1.0, -2.0)},
        {"grid": 41},
        {"sensitivity": 0.0},
    ],
)
def test_a_gaussian_mechanism_of_impossible_parts_is_refused(wrong: dict[str, object]) -> None:
    parts = {"rho": 0.1, "sensitivity": 1.0, "weights": (1.0, 2.0), "grid": 30}
    with pytest.raises(ValueError, match="cannot make Gaussian noise"):
        GaussianMechanism(**{**parts, **wrong})  # pyright: ignore


@pytest.mark.parametrize("wrong", [{"entries": 0}, {"grid": 41}, {"sensitivity": -1.0}, {"sensitivity_l2": math.nan}])
def test_a_laplace_mechanism_of_impossible_parts_is_refused(wrong: dict[str, object]) -> None:
    parts = {"epsilon": 0.1, "sensitivity": 1.0, "sensitivity_l2": 1.0, "entries": 2, "grid": 30}
    with pytest.raises(ValueError, match="cannot make Laplace noise"):
        LaplaceMechanism(**{**parts, **wrong})  # pyright: ignore


# what comes out


def test_each_entry_of_a_gaussian_release_has_its_own_scale() -> None:
    weights = (1.0, 2.0, 8.0) * 20_000
    mechanism = gaussian_for(Bound(1.0, 1.0, weights), rho=0.1, grid=30)
    values = np.arange(60_000.0)
    noise = mechanism.release(OpenDPNoise(), values) - values
    for position, weight in enumerate((1.0, 2.0, 8.0)):
        own = noise[position::3] / (mechanism.scale / weight)
        assert stats.kstest(own, stats.norm.cdf).pvalue > ALPHA
        assert stats.kstest(own * 2, stats.norm.cdf).pvalue < ALPHA
    assert mechanism.scales[:3] == pytest.approx(mechanism.scale / np.array([1, 2, 8]))


def test_a_laplace_release_has_the_stated_scale() -> None:
    mechanism = laplace_for(Bound(1.0, 1.0, (1.0,)), epsilon=0.5, grid=30, entries=50_000)
    values = np.arange(50_000.0)
    noise = (mechanism.release(OpenDPNoise(), values) - values) / mechanism.scale
    assert stats.kstest(noise, stats.laplace.cdf).pvalue > ALPHA
    assert stats.kstest(noise * 2, stats.laplace.cdf).pvalue < ALPHA


# an attacker who knows everything but one row


def least_epsilon(scale: float, sensitivity: float) -> float:
    """A lower confidence bound on epsilon from the best attack on two neighbours, 1e5 releases of each."""
    runs, source = 100_000, OpenDPNoise()
    with_row = source.laplace(np.full(runs, sensitivity), scale) >= sensitivity
    without = source.laplace(np.zeros(runs), scale) >= sensitivity
    at_least = stats.beta.ppf(ALPHA, with_row.sum(), runs - with_row.sum() + 1)
    at_most = stats.beta.ppf(1 - ALPHA, without.sum() + 1, runs - without.sum())
    return math.log(at_least / at_most)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_an_attacker_learns_nearly_epsilon_and_never_more(epsilon: float) -> None:
    mechanism = laplace_for(Bound(2.0, 2.0, (1.0,)), epsilon=epsilon, grid=30, entries=1)
    assert 0.85 * epsilon <= least_epsilon(mechanism.scale, mechanism.sensitivity) <= epsilon


def test_the_attacker_catches_a_halved_scale() -> None:
    mechanism = laplace_for(Bound(2.0, 2.0, (1.0,)), epsilon=1.0, grid=30, entries=1)
    assert least_epsilon(mechanism.scale / 2, mechanism.sensitivity) > 1.0
