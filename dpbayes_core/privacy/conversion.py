"""From zCDP to (epsilon, delta) and back, each way rounded against the spender.

Canonne, Kamath & Steinke 2020: every order alpha > 1 gives a valid bound, so the search for the best one may be in
floating point and only the bound itself is evaluated with care.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from dpbayes_core.rounding import (
    EXACT,
    SAFETY,
    UNITS,
    Number,
    decimal,
    float_down,
    float_up,
    fraction,
    meant,
    printed_down,
)


def largest_rho(epsilon: Number, delta: Number) -> float:
    """The largest rho whose zCDP guarantee implies (epsilon, delta), rounded down."""
    exact = _largest_rho(epsilon, delta)
    return min(printed_down(exact), float_down(exact))


def cap_rho_units(epsilon: Number, delta: Number) -> int:
    """A cap of (epsilon, delta) in units of rho, rounded down."""
    return math.floor(_largest_rho(epsilon, delta) * UNITS)


@lru_cache(maxsize=1024, typed=True)
def epsilon_of(rho: Number, delta: Number) -> float:
    """The smallest epsilon that a zCDP guarantee of rho implies at delta, rounded up."""
    exact_rho, log_delta = fraction(rho), _log_delta(delta)
    if exact_rho < 0:
        raise ValueError("cannot convert a loss: rho is negative. Give a rho of zero or more.")
    if exact_rho == 0:
        return 0.0
    rough, rough_log_delta = float(exact_rho), float(log_delta)
    order = _best_order(lambda a: rough * (1 + a) - _gain(a, rough_log_delta))
    slope = EXACT.multiply(decimal(exact_rho), EXACT.add(1, order))
    bound = EXACT.add(EXACT.subtract(slope, _exact_gain(order, log_delta)), _margin(Fraction(slope)))
    return float_up(max(bound, Decimal(0)))


@lru_cache(maxsize=1024, typed=True)  # called for every cap; a float is read as the decimal it prints as
def _largest_rho(epsilon: Number, delta: Number) -> Fraction:
    exact_epsilon, log_delta = meant(epsilon), _log_delta(delta)
    if exact_epsilon <= 0:
        raise ValueError("cannot convert a cap: epsilon is not positive. State a positive epsilon.")
    rough, rough_log_delta = float(exact_epsilon), float(log_delta)
    order = _best_order(lambda a: -(rough + _gain(a, rough_log_delta)) / (1 + a))
    total = EXACT.add(decimal(exact_epsilon), _exact_gain(order, log_delta))
    bound = EXACT.subtract(EXACT.divide(total, EXACT.add(1, order)), _margin(exact_epsilon))
    return max(Fraction(bound), Fraction(0))


def _margin(size: Fraction) -> Decimal:
    """An upper bound on the rounding error of a sum of terms of this size at 60 digits."""
    return EXACT.multiply(SAFETY, decimal(1 + size))


def _log_delta(delta: Number) -> Decimal:
    exact = meant(delta)
    if not 0 < exact < 1:
        raise ValueError("cannot convert a loss: delta is not between 0 and 1. State one far below 1 / rows.")
    return EXACT.ln(decimal(exact))


def _gain(above_one: float, log_delta: float) -> float:
    """(ln delta + ln alpha) / (alpha - 1) + ln(alpha / (alpha - 1)), as a function of alpha - 1."""
    return (log_delta + math.log1p(above_one)) / above_one + math.log1p(1 / above_one)


def _exact_gain(above_one: Decimal, log_delta: Decimal) -> Decimal:
    alpha = EXACT.add(1, above_one)
    first = EXACT.divide(EXACT.add(log_delta, EXACT.ln(alpha)), above_one)
    return EXACT.add(first, EXACT.ln(EXACT.divide(alpha, above_one)))


def _best_order(objective: Callable[[float], float]) -> Decimal:
    """alpha - 1 at the minimum, by a grid over its logarithm and golden sections around the best point."""
    grid = [step / 2 for step in range(-90, 181)]
    best = min(grid, key=lambda log_order: objective(math.exp(log_order)))
    low, high, ratio = best - 0.5, best + 0.5, (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if objective(math.exp(left)) < objective(math.exp(right)):
            high = right
        else:
            low = left
    return Decimal(math.exp((low + high) / 2))
