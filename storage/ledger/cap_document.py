"""A cap's limit, what was spent of it and what remains, computed, rounded and worded in one place.

All screens, documents and refusals use these; each cap is given in the measure in which it is stated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpbayes_core.privacy.accounting import UNITS, cap_rho_units, epsilon_of, from_units, to_units
from storage.ledger.caps import Room, admits, capacity, remaining
from storage.ledger.exposure import Tally, Total
from storage.ledger.periods import overlapped
from storage.ledger.request import AccountSpec, CapSpec, Measure, decimal_text

WORTH_NAMING = to_units(Decimal("1e-15"))  # a smaller remainder is due to rounding
DIGITS = 4  # significant digits in messages and tables
TWELVE_DIGITS_DOWN = Context(prec=12, rounding=ROUND_FLOOR)
TWELVE_DIGITS_UP = Context(prec=12, rounding=ROUND_CEILING)
FIFTEEN_DIGITS = Context(prec=15)
FOUR_DIGITS_DOWN = Context(prec=DIGITS, rounding=ROUND_DOWN)

IN_WORDS: Mapping[Measure, str] = {"epsilon-delta": "epsilon", "pure-epsilon": "pure epsilon", "rho": "rho"}


@dataclass(frozen=True)
class CapState:
    """One cap of an account with what was spent of it; a per-period cap has one for each period charged."""

    cap: CapSpec
    period: str | None
    spent: Total | Tally

    @property
    def epsilon_at_delta(self) -> float | None:
        """The smallest epsilon that the charges so far satisfy at the cap's delta; None if it states none."""
        if self.cap.delta is None:
            return None
        found: list[float] = []
        for total in self.spent.exposures:
            bounds = [epsilon_of(Fraction(total.rho, UNITS), self.cap.delta)]
            if total.epsilon is not None:
                bounds.append(float(from_units(total.epsilon)))
            if admits(self.cap, total):
                bounds.append(float(self.cap.limit))  # the rounded-up conversion may exceed a full cap
            found.append(min(bounds))
        return max(found)


@dataclass(frozen=True)
class AccountState:
    """An account with the states of its caps."""

    spec: AccountSpec
    caps: tuple[CapState, ...]


def _numbers(amount: Room | Total | Tally) -> dict[str, float | None]:
    pairs = (("epsilon", amount.epsilon), ("rho", amount.rho))
    return {name: None if units is None else float(from_units(units)) for name, units in pairs}


@dataclass(frozen=True)
class Remainder:
    """What remains of a cap in each measure; 0 if the cap does not limit it, or only rounding error remains."""

    epsilon: Decimal  # pure
    rho: Decimal
    epsilon_by_rho: Decimal  # at the cap's delta

    @classmethod
    def of(cls, cap: CapSpec, spent: Total | Tally) -> "Remainder":
        """What remains of a cap after what was spent."""
        room = remaining(cap, spent)
        return cls(_decimal(room.epsilon), _decimal(room.rho), _epsilon_by_rho(room, cap.delta))


def remains(cap: CapSpec, spent: Total | Tally) -> Decimal:
    """What can still be charged, in the cap's measure: rho, or the larger of pure epsilon and epsilon at delta."""
    left = Remainder.of(cap, spent)
    return left.rho if cap.measure == "rho" else max(left.epsilon, left.epsilon_by_rho)


@lru_cache(maxsize=1024)  # the page of every posterior of a release repeats what remains of its caps
def _epsilon_by_rho(room: Room, delta: Decimal | None) -> Decimal:
    """The largest epsilon of twelve digits whose rho at delta fits in the room; 0 if none does."""
    if delta is None or room.rho is None or room.rho < WORTH_NAMING:
        return Decimal(0)
    bound = epsilon_of(Fraction(room.rho, UNITS), delta)
    found = Decimal(0) if bound == 0 else TWELVE_DIGITS_DOWN.next_plus(Decimal(repr(bound)))
    while found and cap_rho_units(found, delta) > room.rho:  # one or two steps, as the conversion rounds up
        found = TWELVE_DIGITS_DOWN.next_minus(found)
    return found


def _decimal(units: int | None) -> Decimal:
    return Decimal(0) if units is None or units < WORTH_NAMING else from_units(units)


def account_document(account: AccountState, period: str | None = None) -> dict[str, Any]:
    """An account with its caps as a document; with a period, only the caps that the period counts in."""
    windows = () if period is None else overlapped(period, account.spec.grain)
    caps = [cap for cap in account.caps if period is None or cap.period in (None, *windows)]
    return {
        "account": account.spec.population,
        "caps": [cap_document(cap) for cap in caps],
        "holders": None if account.spec.holders is None else account.spec.holders.to_record(),
        "neighbours": account.spec.neighbours,
        "unit": account.spec.unit,
    }


def cap_document(state: CapState) -> dict[str, Any]:
    """Limit, spent and remaining in the cap's own measure; `totals` gives the sums that the ledger stores."""
    cap = state.cap
    delta = None if cap.delta is None else float(cap.delta)
    return {
        "cap": cap.name,
        "delta": delta,
        "limit": float(cap.limit),
        "measure": cap.measure,
        "period": state.period,
        "remaining": float(remains(state.cap, state.spent)),
        "spent": spent_of(state),
        "totals": {
            "limit": _numbers(capacity(cap)) | {"delta": delta},
            "remaining": _numbers(remaining(cap, state.spent)),
            "spent": _numbers(state.spent) | {"epsilon_at_delta": state.epsilon_at_delta},
        },
        "window": cap.window,
    }


def spent_of(state: CapState) -> float | None:
    """What was spent of a cap, in the cap's own measure."""
    if state.cap.measure == "rho":
        return float(from_units(state.spent.rho))
    if state.cap.measure == "pure-epsilon":
        return None if state.spent.epsilon is None else float(from_units(state.spent.epsilon))
    epsilon = state.epsilon_at_delta
    return None if epsilon is None else float(TWELVE_DIGITS_UP.create_decimal(Decimal(epsilon)))


def rounded_down(value: Decimal | float) -> Decimal:
    """A number rounded down to four digits; a float stands for the decimal that it prints as."""
    exact = FIFTEEN_DIGITS.create_decimal(repr(value) if isinstance(value, float) else value)
    return FOUR_DIGITS_DOWN.create_decimal(exact)


def measure_words(measure: Measure, limit: str = "", delta: str = "") -> str:
    """What a cap limits, such as "epsilon 8 at delta 1e-6"; the formatted numbers may be left out."""
    return " ".join(filter(None, (IN_WORDS[measure], limit, delta and f"at delta {delta}")))


def limit_text(cap: CapSpec) -> str:
    """The cap's limit in its own measure, with all digits."""
    return measure_words(cap.measure, decimal_text(cap.limit), "" if cap.delta is None else short_text(cap.delta))


def short_text(value: Decimal) -> str:
    """A decimal in full, or with an exponent if it is below 0.001."""
    return f"{value.normalize():e}" if 0 < value < Decimal("1e-3") else decimal_text(value)
