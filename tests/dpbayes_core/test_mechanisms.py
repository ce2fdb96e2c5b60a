"""Every mechanism in the registry: charged at least what it costs, priced exactly, told apart from its neighbours."""

import json
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.accounting import UNITS, analytic_gaussian_epsilon, cap_rho_units, laplace_cost, limit_units
from dpbayes_core.privacy.mechanisms import MECHANISMS, Mechanism, gaussian_for, laplace_for, mechanism_from_record
from dpbayes_core.privacy.mechanisms.gaussian import GaussianMechanism
from dpbayes_core.privacy.mechanisms.laplace import LaplaceMechanism
from dpbayes_core.privacy.noise import OpenDPNoise, SeededNoise

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


@dataclass(frozen=True)
class Bound:
    """As much of a sensitivity as mechanisms read."""

    l1: float
    l2: float
    weights: tuple[float, ...]


TWO_COLUMNS = Bound(16 / 3, math.sqrt(8), (1.0, 1.0, 1.0, 1.0, 1.0))
WEIGHTED = Bound(20.4167, 6.0, (1.0, 2.0, 1.0, 1.0, 2.0, 1.0))
EXAMPLES: dict[str, list[Mechanism]] = {
    "laplace": [
        laplace_for(TWO_COLUMNS, epsilon=0.5, grid=30, entries=5),
        laplace_for(WEIGHTED, epsilon=Decimal("0.1"), grid=12, entries=6),
    ],
    "gaussian": [
        gaussian_for(TWO_COLUMNS, epsilon=1, delta=1e-6, grid=30),
        gaussian_for(WEIGHTED, epsilon=Decimal("0.1"), delta=Decimal("1e-5"), grid=12),
        gaussian_for(WEIGHTED, rho=0.02, grid=30),
    ],
}
ELSEWHERE = {  # other contracts, same promises
    "geometric": "test_geometric",
    "posterior-draw": "test_posterior_draw",
    "exponential": "test_exponential",
    "centre-scale": "test_centre_scale",
}
ALL = [mechanism for examples in EXAMPLES.values() for mechanism in examples]
IDS = [f"{mechanism.name}-{number}" for number, mechanism in enumerate(ALL)]


def charged(mechanism: Mechanism) -> int:
    """The charge in the mechanism's own measure."""
    cost = mechanism.cost()
    return cost.rho if cost.epsilon is None else cost.epsilon


# contract of every mechanism


def test_every_mechanism_of_the_registry_is_tested_here() -> None:
    assert {name: kind.name for name, kind in MECHANISMS.items()} == {name: name for name in (*EXAMPLES, *ELSEWHERE)}
    for name, module in ELSEWHERE.items():
        assert f"mechanism_of_{name.replace('-', '_')}" in (Path(__file__).parent / f"{module}.py").read_text()


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
def test_a_record_survives_canonical_json(mechanism: Mechanism) -> None:
    text = canonical_json(mechanism.to_record())
    back = mechanism_from_record(json.loads(text))
    assert back == mechanism
    assert canonical_json(back.to_record()) == text


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
def test_a_record_that_contradicts_itself_is_refused(mechanism: Mechanism) -> None:
    record = mechanism.to_record()
    for changed in (
        {"scale": record["scale"] / 2},
        {"norm": "L7"},
        {"sensitivity": record["sensitivity"] * 2},
        {"seed": 1},
    ):
        with pytest.raises(ValueError, match="cannot"):
            mechanism_from_record({**record, **changed})
    with pytest.raises(ValueError, match="not one of laplace, gaussian"):
        mechanism_from_record({**record, "name": "cauchy"})


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
def test_what_the_noise_source_certifies_is_charged_in_full_and_hardly_more(mechanism: Mechanism) -> None:
    certified = Fraction(mechanism.certified_loss(OpenDPNoise())) * UNITS
    assert certified <= charged(mechanism)
    assert certified >= charged(mechanism) * (1 - Fraction(1, 10**13))


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


class Optimist(OpenDPNoise):
    """A source that certifies a little more loss than ideal noise has."""

    def laplace_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        return super().laplace_loss(entries, scale, sensitivity) * (1 + 1e-12)

    def gaussian_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        return super().gaussian_loss(entries, scale, sensitivity) * (1 + 1e-12)


class Clueless(OpenDPNoise):
    """A source that cannot say what it costs."""

    def laplace_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        return math.inf

    def gaussian_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        return math.nan


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
@pytest.mark.parametrize("noise", [Optimist(), Clueless()], ids=["optimist", "clueless"])
def test_a_source_that_certifies_more_than_is_charged_releases_nothing(
    mechanism: Mechanism, noise: OpenDPNoise
) -> None:
    with pytest.raises(ValueError, match="certifies a larger loss"):
        mechanism.release(noise, np.zeros(len(mechanism.scales)))


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
@pytest.mark.parametrize("entries", [0, 1, 4, 7])
def test_statistics_of_another_length_are_refused(mechanism: Mechanism, entries: int) -> None:
    with pytest.raises(ValueError, match="one per declared entry"):
        mechanism.release(OpenDPNoise(), np.full(entries, 98765.4321))


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


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
def test_the_density_is_that_of_the_noise_and_sums_to_one(mechanism: Mechanism) -> None:
    law = stats.laplace if mechanism.name == "laplace" else stats.norm
    residual = np.linspace(-3, 3, len(mechanism.scales)) * mechanism.scales
    assert mechanism.log_density(residual) == pytest.approx(law.logpdf(residual, scale=mechanism.scales), rel=1e-12)

    def of_the_second_entry(position: float) -> float:
        at = np.zeros(len(mechanism.scales))
        at[1] = position
        return math.exp(mechanism.log_density(at)[1])

    reach = 60 * float(mechanism.scales[1])
    assert 2 * quad(of_the_second_entry, 0, reach, limit=200)[0] == pytest.approx(1, rel=1e-6)


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


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
def test_a_release_does_not_touch_the_statistics_it_was_given(mechanism: Mechanism) -> None:
    values = np.arange(len(mechanism.scales), dtype=np.float64)
    noisy = mechanism.release(SeededNoise(2, i_know_this_is_not_private=True), values)
    assert np.array_equal(values, np.arange(len(values)))
    assert noisy.shape == values.shape
    assert not np.array_equal(noisy, values)


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
