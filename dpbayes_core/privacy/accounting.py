"""The cost of each mechanism, in integers of 2^-64 rounded against the spender, and the charges that a cap allows.

Pure epsilon and zCDP rho add up, also when later requests depend on earlier answers; no other measure decides here.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from dpbayes_core.privacy.analytic_gaussian import analytic_gaussian_epsilon, analytic_gaussian_scale
from dpbayes_core.privacy.conversion import cap_rho_units, epsilon_of, largest_rho
from dpbayes_core.rounding import EXACT, SAFETY, UNITS, Number, decimal, fraction, meant

__all__ = [
    "UNITS",
    "Cost",
    "analytic_gaussian_epsilon",
    "analytic_gaussian_scale",
    "cap_rho_units",
    "chargeable",
    "covers",
    "epsilon_of",
    "exponential_cost",
    "from_units",
    "gaussian_cost",
    "geometric_cost",
    "laplace_cost",
    "largest_rho",
    "limit_units",
    "pure_cost",
    "to_units",
]

_FOR_PEOPLE = Context(prec=15)


@dataclass(frozen=True)
class Cost:
    """A privacy loss in units of 2^-64."""

    epsilon: int | None  # pure epsilon; None if not finite, so that a pure cap refuses the release
    rho: int  # zCDP


def to_units(loss: Number) -> int:
    """The loss in units, rounded up; a float is read as its exact binary value."""
    exact = fraction(loss)
    if exact < 0:
        raise ValueError("cannot account for a loss: it is negative. Give a loss of zero or more.")
    return math.ceil(exact * UNITS)


def limit_units(limit: Number) -> int:
    """A stated limit or parameter in units, rounded down; a float is read as the decimal it prints as."""
    exact = meant(limit)
    if exact < 0:
        raise ValueError("cannot account for a limit: it is negative. State one of zero or more.")
    return math.floor(exact * UNITS)


def chargeable(loss: float) -> bool:
    """Whether a mechanism may state this loss: at least one unit, at most a million, which protects no person."""
    return math.isfinite(loss) and 0 < loss <= 10**6 and limit_units(loss) > 0


def covers(charged: int, certified: float) -> bool:
    """Whether a charge in units is at least the loss that a noise source certifies; never for NaN and infinity."""
    return math.isfinite(certified) and Fraction(certified) * UNITS <= charged


def from_units(units: int) -> Decimal:
    """The loss of an integer in the ledger, to 15 digits, for messages and pages."""
    return _FOR_PEOPLE.divide(Decimal(units), Decimal(UNITS))


def gaussian_cost(sensitivity_l2: Number, scale: Number) -> Cost:
    """Independent Gaussian noise of one scale: rho = sensitivity^2 / (2 scale^2), no pure epsilon."""
    return Cost(None, to_units(_ratio(sensitivity_l2, scale) ** 2 / 2))


def laplace_cost(sensitivity_l1: Number, sensitivity_l2: Number, scale: Number) -> Cost:
    """Independent Laplace noise of one scale on a vector.

    One entry moved by t scales is (t + exp(-t) - 1)-zCDP, which is convex in t and at most t^2 / 2: so the worst
    neighbour moves one entry by the whole L1 sensitivity, or the L2 sensitivity bounds the sum, whichever is less.
    """
    epsilon, spread = _ratio(sensitivity_l1, scale), _ratio(sensitivity_l2, scale)
    loss = decimal(epsilon)
    one_entry = EXACT.subtract(EXACT.add(loss, EXACT.exp(EXACT.minus(loss))), 1)
    return Cost(to_units(epsilon), min(_units_above(one_entry), to_units(spread**2 / 2)))


def geometric_cost(sensitivity: int, scale: Number, *, largest_move: int | None = None) -> Cost:
    """Independent two-sided geometric noise of one scale on a vector of integers.

    A row changes the vector by `sensitivity` in L1 and no entry by more than `largest_move`. One entry moved by j
    is t - (1 - exp(-t)) / (scale sinh(1 / scale))-zCDP with t = j / scale, convex in j: the worst neighbour moves as
    few entries as it can.
    """
    if sensitivity < 0 or (largest_move is not None and largest_move < 1):
        raise ValueError("cannot price geometric noise: a count's sensitivity is a whole number. Give a positive one.")
    move = max(1, sensitivity) if largest_move is None else largest_move
    full, rest = divmod(sensitivity, move)
    step = decimal(_ratio(1, scale))
    rho = EXACT.multiply(full, _geometric_loss(move, step))
    rho = EXACT.add(rho, _geometric_loss(rest, step))
    return Cost(to_units(_ratio(sensitivity, scale)), _units_above(rho))


def _geometric_loss(move: int, step: Decimal) -> Decimal:
    """step j - (1 - exp(-step j)) step / sinh(step)."""
    total = EXACT.multiply(step, move)
    decay = EXACT.exp(EXACT.minus(step))  # step / sinh(step) = 2 step decay / (1 - decay^2), which cannot overflow
    factor = EXACT.divide(
        EXACT.multiply(EXACT.multiply(2, step), decay), EXACT.subtract(1, EXACT.multiply(decay, decay))
    )
    return EXACT.subtract(total, EXACT.multiply(EXACT.subtract(1, EXACT.exp(EXACT.minus(total))), factor))


def pure_cost(epsilon: Number) -> Cost:
    """Any epsilon-DP mechanism: epsilon tanh(epsilon / 2)-zCDP."""
    loss = decimal(fraction(epsilon))
    decay = EXACT.exp(EXACT.minus(loss))
    rho = EXACT.divide(EXACT.multiply(loss, EXACT.subtract(1, decay)), EXACT.add(1, decay))
    return Cost(to_units(epsilon), _units_above(rho))


def exponential_cost(epsilon: Number) -> Cost:
    """The exponential mechanism and draws from tempered posteriors: epsilon^2 / 8-zCDP."""
    return Cost(to_units(epsilon), to_units(fraction(epsilon) ** 2 / 8))


def _ratio(sensitivity: Number, scale: Number) -> Fraction:
    moved, spread = fraction(sensitivity), fraction(scale)
    if spread <= 0 or moved < 0:
        raise ValueError("cannot price noise: sensitivity or scale is not positive. Give positive ones.")
    return moved / spread


def _units_above(rho: Decimal) -> int:
    """Units, rounded up beyond the error of 60 digits."""
    return to_units(max(EXACT.add(rho, SAFETY), Decimal(0)))
