"""The exact (epsilon, delta) of Gaussian noise (Balle & Wang 2018), to 60 digits and rounded against the spender.

It is printed with the charge for comparison; it is never charged, because it does not add up over releases.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

from dpbayes_core.rounding import EXACT, Number, decimal, float_up, fraction, meant

_NARROW = Decimal("1e-24")  # relative width at which a bisection stops
_MARGIN = Decimal("1e-30")  # relative: above the error of `_delta`, below the precision of a float


def analytic_gaussian_scale(sensitivity: Number, epsilon: Number, delta: Number) -> float:
    """The least standard deviation that makes Gaussian noise (epsilon, delta)-DP, rounded up."""
    moved, loss, small = _positive(sensitivity), _positive(meant(epsilon)), _probability(delta)
    scale = _least(lambda s: _delta(s, loss), small)
    return float_up(EXACT.multiply(scale, moved))


@lru_cache(maxsize=256, typed=True)  # called whenever a release is read; a float is read as the decimal it prints as
def analytic_gaussian_epsilon(sensitivity: Number, scale: Number, delta: Number) -> float:
    """The least epsilon that Gaussian noise of this standard deviation satisfies at delta, rounded up."""
    ratio, small = EXACT.divide(_positive(scale), _positive(sensitivity)), _probability(delta)
    if _delta(ratio, Decimal(0)) <= small:
        return 0.0
    return float_up(_least(lambda loss: _delta(ratio, loss), small))


def _delta(scale: Decimal, epsilon: Decimal) -> Decimal:
    """Phi(1/(2s) - epsilon s) - exp(epsilon) Phi(-1/(2s) - epsilon s), s the scale at sensitivity 1."""
    half, drift = EXACT.divide(1, EXACT.multiply(2, scale)), EXACT.multiply(epsilon, scale)
    likely, unlikely = _upper_tail(EXACT.subtract(drift, half)), _upper_tail(EXACT.add(drift, half))
    return EXACT.subtract(likely, EXACT.multiply(EXACT.exp(epsilon), unlikely))


def _upper_tail(x: Decimal) -> Decimal:
    """P(Z > x): Laplace's continued fraction far out (error below 1e-70), a series of positive terms near 0."""
    if x < 0:
        return EXACT.subtract(1, _upper_tail(EXACT.minus(x)))
    density = EXACT.divide(EXACT.exp(EXACT.divide(EXACT.multiply(x, x), -2)), _ROOT_TWO_PI)
    if x >= 3:
        fraction_below = x
        for depth in range(400, 0, -1):
            fraction_below = EXACT.add(x, EXACT.divide(depth, fraction_below))
        return EXACT.divide(density, fraction_below)
    term, total, square, odd = x, x, EXACT.multiply(x, x), 1
    while term > Decimal("1e-62"):
        odd += 2
        term = EXACT.divide(EXACT.multiply(term, square), odd)
        total = EXACT.add(total, term)
    return EXACT.subtract(Decimal("0.5"), EXACT.multiply(density, total))


def _least(delta_at: Callable[[Decimal], Decimal], delta: Decimal) -> Decimal:
    """An upper bound, by bisection, on the least positive argument at which a falling function is at most delta."""
    target = EXACT.multiply(delta, EXACT.subtract(1, _MARGIN))
    high = Decimal(1)
    while delta_at(high) > target:
        high = EXACT.multiply(high, 2)
    low = EXACT.divide(high, 2)
    while delta_at(low) <= target:
        low, high = EXACT.divide(low, 2), low
    while EXACT.subtract(high, low) > EXACT.multiply(high, _NARROW):
        middle = EXACT.divide(EXACT.add(low, high), 2)
        low, high = (middle, high) if delta_at(middle) > target else (low, middle)
    return high


def _positive(value: Number) -> Decimal:
    exact = fraction(value)
    if exact <= 0:
        raise ValueError("cannot calibrate Gaussian noise: a parameter is not positive. State a positive one.")
    return decimal(exact)


def _probability(delta: Number) -> Decimal:
    exact = meant(delta)
    if not 0 < exact < 1:
        raise ValueError("cannot calibrate Gaussian noise: delta is not between 0 and 1. State one far below 1 / rows.")
    return decimal(exact)


def _arctangent_of_inverse(n: int) -> Decimal:
    power, total, sign = EXACT.divide(1, n), Decimal(0), 1
    for odd in range(1, 200, 2):
        total = EXACT.add(total, EXACT.divide(power, sign * odd))
        power, sign = EXACT.divide(power, n * n), -sign
    return total


# Machin's formula for pi
_PI = EXACT.subtract(EXACT.multiply(16, _arctangent_of_inverse(5)), EXACT.multiply(4, _arctangent_of_inverse(239)))
_ROOT_TWO_PI = EXACT.sqrt(EXACT.multiply(2, _PI))
