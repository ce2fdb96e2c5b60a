"""Costs are upper bounds, attained where they claim to be exact, and rounded against the spender."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from dpbayes_core.privacy.accounting import (
    UNITS,
    analytic_gaussian_epsilon,
    analytic_gaussian_scale,
    cap_rho_units,
    epsilon_of,
    exponential_cost,
    from_units,
    gaussian_cost,
    geometric_cost,
    laplace_cost,
    largest_rho,
    limit_units,
    pure_cost,
    to_units,
)

CAPS = [
    ("1", "1e-6"),
    ("0.5", "1e-6"),
    ("8", "1e-6"),
    ("0.1", "1e-5"),
    ("3", "0.01"),
    ("0.001", "1e-9"),
    ("50", "1e-12"),
]
ORDERS = 1 + np.logspace(-2, 3, 300)  # closer to 1 the sums below lose their digits
ROUNDING = 1 + 1e-6
COLUMN_OF_ORDERS = ORDERS[:, None]


# units


@given(st.decimals(min_value="1e-12", max_value=1000, places=12))
@settings(derandomize=True, deadline=None)
def test_a_stated_limit_is_never_more_than_stated_and_a_cost_never_less(value: Decimal) -> None:
    assert limit_units(value) <= Fraction(value) * UNITS <= to_units(value)
    assert to_units(value) - limit_units(value) <= 1


def test_a_float_limit_is_the_decimal_it_prints_as() -> None:
    for text in ("0.1", "0.3", "0.7", "1e-5", "3.3333333333333335"):
        assert limit_units(float(text)) == limit_units(Decimal(text))


def test_ten_tenths_and_three_thirds_fit_in_one() -> None:
    assert 10 * limit_units(0.1) <= limit_units(1)
    assert 3 * limit_units(1 / 3) <= limit_units(1)
    assert limit_units(0.1) + limit_units(0.2) <= limit_units(0.3)


def test_units_read_back_as_people_wrote_them() -> None:
    assert from_units(limit_units(0.3)) == Decimal("0.3")
    assert from_units(to_units(8)) == 8


@pytest.mark.parametrize("bad", [-1.0, -1, math.nan, math.inf, Decimal("NaN"), Decimal("-Infinity")])
def test_a_negative_or_infinite_loss_is_refused(bad: float | Decimal) -> None:
    with pytest.raises(ValueError, match="cannot account"):
        to_units(bad)
    with pytest.raises(ValueError, match="cannot account"):
        limit_units(bad)


# zCDP and (epsilon, delta)


def log_delta_of(rho: Decimal, epsilon: Decimal) -> Decimal:
    """The logarithm of the least delta of Canonne, Kamath & Steinke 2020 over a fine grid of orders, in 50 digits."""

    def at(order: Decimal) -> Decimal:
        return (order - 1) * (order * rho - epsilon) + order * (1 - 1 / order).ln() - (order - 1).ln()

    coarse = [1 + Decimal(10) ** (Decimal(step) / 8) for step in range(-48, 80)]
    around = min(coarse, key=at) - 1
    return min(at(1 + around * Decimal(10) ** (Decimal(step) / 4000)) for step in range(-500, 501))


@pytest.mark.parametrize(("epsilon", "delta"), CAPS)
def test_the_largest_rho_implies_the_cap_and_hardly_more_does_not(epsilon: str, delta: str) -> None:
    with localcontext() as context:
        context.prec = 50
        rho = Decimal(cap_rho_units(Decimal(epsilon), Decimal(delta))) / UNITS
        slightly_more = rho * (1 + Decimal("1e-5"))
        # the grid of orders misses the best one by a relative 3e-4, which costs its square
        assert log_delta_of(rho * (1 - Decimal("1e-6")), Decimal(epsilon)) <= Decimal(delta).ln()
        assert log_delta_of(slightly_more, Decimal(epsilon)) > Decimal(delta).ln()


def test_the_largest_rho_has_the_published_figures_rounded_down() -> None:
    assert math.floor(largest_rho(1, 1e-6) * 1e8) == 2435597
    assert math.floor(largest_rho(0.5, 1e-6) * 1e8) == 664152
    assert math.floor(largest_rho(8, 1e-6) * 1e8) == 105235800


@given(st.floats(1e-4, 50), st.floats(1e-12, 0.1))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_no_order_gives_a_larger_rho_than_the_one_found(epsilon: float, delta: float) -> None:
    above_one = np.logspace(-6, 12, 2000)
    bounds = (epsilon + (math.log(delta) + np.log1p(above_one)) / above_one + np.log1p(1 / above_one)) / (1 + above_one)
    assert bounds.max() <= largest_rho(epsilon, delta) * (1 + 1e-9)


@given(st.floats(1e-4, 50), st.floats(1e-12, 0.1))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_the_largest_rho_is_below_the_cap_in_every_rounding(epsilon: float, delta: float) -> None:
    rho = largest_rho(epsilon, delta)
    assert limit_units(rho) <= cap_rho_units(epsilon, delta)
    assert math.floor(Fraction(rho) * UNITS) <= cap_rho_units(epsilon, delta)


@given(st.floats(1e-6, 20), st.floats(1e-12, 0.1))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_epsilon_of_rho_is_rounded_up_and_inverts_the_largest_rho(rho: float, delta: float) -> None:
    epsilon = epsilon_of(rho, delta)
    assume(epsilon > 0)  # so little rho can be worth (0, delta)
    assert largest_rho(math.nextafter(epsilon, math.inf), delta) >= rho * (1 - 1e-9)
    assert epsilon_of(largest_rho(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))  # the looser textbook conversion


def test_nothing_spent_is_epsilon_zero() -> None:
    assert epsilon_of(0, 1e-6) == 0


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-6), (-1, 1e-6), (1, 0), (1, 1), (1, math.nan), (math.inf, 1e-6)])
def test_a_cap_that_promises_nothing_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="cannot"):
        largest_rho(epsilon, delta)


# Laplace


def laplace_divergence(moved: np.ndarray) -> np.ndarray:
    """Renyi divergence at every order between Laplace laws shifted by `moved` scales, summed over entries."""
    order = COLUMN_OF_ORDERS
    log_terms = np.logaddexp(
        np.log(order / (2 * order - 1)) + (order - 1) * moved, np.log((order - 1) / (2 * order - 1)) - order * moved
    )
    return (log_terms / (order - 1)).sum(axis=1)


@pytest.mark.parametrize(("order", "moved"), [(1.5, 0.7), (4.0, 2.0), (20.0, 0.3)])
def test_the_divergence_used_here_is_the_integral(order: float, moved: float) -> None:
    def integrand(x: float) -> float:
        return math.exp(order * -abs(x - moved) - (1 - order) * abs(x)) / 2

    total = sum(quad(integrand, low, high)[0] for low, high in [(-60, 0), (0, moved), (moved, 60)])
    position = int(np.argmin(abs(ORDERS - order)))
    expected = math.log(total) / (order - 1)
    assert laplace_divergence(np.array([moved]))[position] == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
def test_laplace_rho_bounds_every_order_and_is_attained_in_one_dimension(epsilon: float) -> None:
    rho = laplace_cost(epsilon, epsilon, 1).rho / UNITS
    ratios = laplace_divergence(np.array([epsilon])) / ORDERS
    assert ratios.max() <= rho * ROUNDING
    assert ratios.max() >= 0.98 * rho


@pytest.mark.parametrize("seed", range(30))
def test_laplace_rho_bounds_every_vector_within_the_sensitivities(seed: int) -> None:
    generator = np.random.default_rng(seed)
    moved = generator.gamma(0.3, size=generator.integers(1, 40)) * 10 ** generator.uniform(-2, 1)
    rho = laplace_cost(moved.sum() * (1 + 1e-12), np.linalg.norm(moved) * (1 + 1e-12), 1).rho / UNITS
    assert (laplace_divergence(moved) / ORDERS).max() <= rho * ROUNDING


def test_laplace_on_a_vector_costs_far_less_than_half_epsilon_squared() -> None:
    for variables, expected in [(2, 0.141), (11, 0.0120)]:
        l1 = variables * (variables + 2) ** 2 / (2 * (variables + 1))
        l2 = 2 * math.sqrt((variables + 1) ** 2 // 4)
        cost = laplace_cost(l1, l2, l1)
        assert cost.epsilon == UNITS
        assert cost.rho / UNITS == pytest.approx(expected, rel=5e-3)


def test_a_small_laplace_loss_keeps_its_digits() -> None:
    t = Fraction(1, 10**6)
    series = t**2 / 2 - t**3 / 6 + t**4 / 24 - t**5 / 120
    assert 0 <= laplace_cost(t, 1, 1).rho - series * UNITS <= 2


# integer noise and the rest


def geometric_divergence(moves: list[int], scale: float) -> np.ndarray:
    support = np.arange(-4000, 4001)
    order = COLUMN_OF_ORDERS
    log_law = -np.abs(support) / scale
    log_law = log_law - np.logaddexp.reduce(log_law)
    total = np.zeros(len(ORDERS))
    for move in moves:
        shifted = -np.abs(support - move) / scale
        shifted = shifted - np.logaddexp.reduce(shifted)
        total += np.logaddexp.reduce(order * log_law + (1 - order) * shifted, axis=1) / (order[:, 0] - 1)
    return total


@pytest.mark.parametrize(
    ("moves", "largest", "scale"),
    [([1], None, 1.0), ([1], None, 0.3), ([3], None, 2.0), ([1] * 6, 1, 6.0), ([2, 2, 1], 2, 5.0), ([7], None, 40.0)],
)
def test_geometric_rho_bounds_every_order_and_is_attained(moves: list[int], largest: int | None, scale: float) -> None:
    cost = geometric_cost(sum(moves), scale, largest_move=largest)
    ratios = geometric_divergence(moves, scale) / ORDERS
    assert ratios.max() <= cost.rho / UNITS * ROUNDING
    assert ratios.max() >= 0.98 * cost.rho / UNITS
    assert cost.epsilon == to_units(sum(moves) / Fraction(scale))


def test_geometric_noise_on_families_of_counts_costs_the_published_tanh() -> None:
    families, epsilon = 7, Fraction(3, 2)
    cost = geometric_cost(2 * families, 2 * families / epsilon, largest_move=1)
    assert cost.rho / UNITS == pytest.approx(1.5 * math.tanh(1.5 / (4 * families)), rel=1e-12)


def test_geometric_noise_of_a_large_scale_costs_what_laplace_does() -> None:
    assert geometric_cost(10**6, 10**6).rho == pytest.approx(laplace_cost(1, 1, 1).rho, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 4.0])
def test_pure_rho_bounds_every_order_of_randomised_response_and_is_attained(epsilon: float) -> None:
    log_yes, log_no = -math.log1p(math.exp(-epsilon)), -math.log1p(math.exp(epsilon))
    order = ORDERS
    divergence = np.logaddexp(order * log_yes + (1 - order) * log_no, order * log_no + (1 - order) * log_yes) / (
        order - 1
    )
    rho = pure_cost(epsilon).rho / UNITS
    assert (divergence / order).max() <= rho * ROUNDING
    assert (divergence / order).max() >= 0.98 * rho


@pytest.mark.parametrize(("epsilon", "attained"), [(0.1, 0.98), (1.0, 0.97), (3.0, 0.88)])
def test_exponential_rho_bounds_every_law_of_bounded_range(epsilon: float, attained: float) -> None:
    up = np.linspace(0.001, 0.999, 999) * epsilon  # the log ratio is `up` or `up - epsilon`
    log_weight = np.log(np.expm1(epsilon - up) / np.expm1(epsilon))  # so that both laws sum to 1
    log_rest = np.log(-np.expm1(log_weight))
    order = COLUMN_OF_ORDERS
    moment = np.logaddexp(log_weight + order * up, log_rest + order * (up - epsilon))
    ratios = moment / (order - 1) / order
    rho = exponential_cost(epsilon).rho / UNITS
    assert ratios.max() <= rho * ROUNDING
    assert ratios.max() >= attained * rho


def test_gaussian_rho_is_exact_and_has_no_pure_epsilon() -> None:
    cost = gaussian_cost(3, 2)
    assert cost.epsilon is None
    assert cost.rho == 9 * UNITS // 8
    assert gaussian_cost(1.0, 3.0).rho - 1 < Fraction(1, 18) * UNITS <= gaussian_cost(1.0, 3.0).rho


@pytest.mark.parametrize("scale", [0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_none_is_not_priced(scale: float) -> None:
    with pytest.raises(ValueError, match="cannot"):
        gaussian_cost(1, scale)
    with pytest.raises(ValueError, match="cannot"):
        laplace_cost(1, 1, scale)


# Gaussian noise alone, exactly


def upper_tail(x: Decimal) -> Decimal:
    """P(Z > x) by the alternating series of the integral, in 200 digits."""
    pi = Decimal(
        "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
    )
    term, total = x, x
    for n in range(1, 2000):
        term *= -x * x / (2 * n)
        total += term / (2 * n + 1)
        if abs(term) < Decimal("1e-120"):
            break
    return Decimal("0.5") - total / (2 * pi).sqrt()


def exact_delta(scale: Decimal, epsilon: Decimal) -> Decimal:
    """Balle & Wang 2018, theorem 8, at sensitivity 1."""
    half, drift = 1 / (2 * scale), epsilon * scale
    return upper_tail(drift - half) - epsilon.exp() * upper_tail(drift + half)


@pytest.mark.parametrize(
    ("epsilon", "delta", "expected"),
    [
        ("1", "1e-6", 4.2247),
        ("1", "1e-5", 3.7307),
        ("0.1", "1e-5", 30.750),
        ("0.01", "1e-4", None),
        ("8", "1e-9", None),
    ],
)
def test_the_analytic_scale_meets_delta_and_hardly_less_does_not(
    epsilon: str, delta: str, expected: float | None
) -> None:
    scale = analytic_gaussian_scale(1, Decimal(epsilon), Decimal(delta))
    with localcontext() as context:
        context.prec = 200
        assert exact_delta(Decimal(scale), Decimal(epsilon)) <= Decimal(delta)
        just_below = Decimal(math.nextafter(scale, 0.0))
        assert exact_delta(just_below, Decimal(epsilon)) > Decimal(delta)
    assert expected is None or expected - 1e-3 < scale <= expected


def test_the_check_of_the_analytic_scale_can_fail() -> None:
    with localcontext() as context:
        context.prec = 200
        assert exact_delta(Decimal("1.487"), Decimal(1)) > 1000 * Decimal("1e-5")  # a square root in the wrong place


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "1e-5"), ("5", "1e-10")])
def test_the_analytic_epsilon_inverts_the_analytic_scale(epsilon: str, delta: str) -> None:
    scale = analytic_gaussian_scale(2.5, Decimal(epsilon), Decimal(delta))
    assert analytic_gaussian_epsilon(2.5, scale, Decimal(delta)) == pytest.approx(float(epsilon), rel=1e-13)


def test_very_wide_and_very_narrow_noise_have_an_analytic_epsilon_too() -> None:
    assert analytic_gaussian_epsilon(1, 1e12, 1e-6) == 0
    assert analytic_gaussian_epsilon(1, 1e-3, 1e-6) == pytest.approx(5e5, rel=0.02)


@pytest.mark.parametrize(
    ("sensitivity", "epsilon", "delta"), [(0, 1, 1e-6), (1, 0, 1e-6), (1, 1, 0), (1, 1, 1), (1, math.nan, 1e-6)]
)
def test_an_analytic_scale_of_nonsense_is_refused(sensitivity: float, epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="cannot"):
        analytic_gaussian_scale(sensitivity, epsilon, delta)
