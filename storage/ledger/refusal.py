"""The wording of a refused charge: what was asked, what remains and what would fit, from public facts only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal

from dpbayes_core.errors import BudgetExceeded, DpbayesError
from dpbayes_core.privacy.accounting import Cost, chargeable, from_units
from dpbayes_core.privacy.mechanisms import Mechanism
from storage.ledger.cap_document import DIGITS, Remainder, limit_text, rounded_down, short_text
from storage.ledger.caps import Debit, admits
from storage.ledger.request import CapSpec, Request, decimal_text

SMALLEST_EXPONENT = -6  # the smallest epsilon worth asking for is 1e-6
DECADE = 9 * 10 ** (DIGITS - 1)  # how many numbers of so many digits a decade has
STEPS = DECADE * 12 + 1  # twelve decades, up to 1e6, the largest epsilon of a study
USUAL_DELTA = Decimal("1e-6")  # if neither the mechanism nor any cap states one


class PeriodClosed(DpbayesError):
    """The period takes no further charges."""

    kind = "period-closed"
    exit_code = 3


@dataclass(frozen=True)
class Quote:
    """What a charge that has not been made would do to one cap."""

    debit: Debit
    cap: CapSpec
    largest_epsilon: Decimal  # of the same mechanism, rounded down to four digits; 0 where nothing fits


def quotes(found: Sequence[Debit], mechanism: Mechanism) -> tuple[Quote, ...]:
    """What the charge would do to every cap, and the largest epsilon that would fit."""
    delta = delta_of(mechanism, [debit.cap for debit in found if debit.cap])
    answers: list[Quote] = []
    for debit in found:
        if debit.cap is not None:
            answers.append(Quote(debit, debit.cap, _largest_epsilon(debit, debit.cap, mechanism, delta)))
    return tuple(answers)


def refusal(request: Request, mechanism: Mechanism, found: Sequence[Debit]) -> BudgetExceeded | None:
    """The refusal of a charge, naming the exceeded cap that leaves least; None if every cap admits it."""
    if all(debit.fits for debit in found):
        return None
    offers = quotes(found, mechanism)
    binding = min((quote for quote in offers if not quote.debit.fits), key=lambda quote: quote.largest_epsilon)
    delta = delta_of(mechanism, [quote.cap for quote in offers])
    return BudgetExceeded(
        ", ".join((request.name, *found[0].also)),
        _cap_text(binding),
        _asked_text(binding.cap, mechanism, delta),
        _remaining_text(binding, mechanism),
        min(quote.largest_epsilon for quote in offers),
    )


def delta_of(mechanism: Mechanism, caps: Sequence[CapSpec]) -> Decimal:
    """The delta at which to state a mechanism's epsilon: its own, else that of a cap, else the usual one."""
    own: float | None = getattr(mechanism, "delta", None)
    if own is not None:
        return Decimal(repr(own))
    return next((cap.delta for cap in caps if cap.delta is not None), USUAL_DELTA)


def largest_fitting(fits: Callable[[Decimal], bool]) -> Decimal:
    """The largest epsilon of four digits that fits, by bisection (anything below a fitting one fits); 0 if none."""
    low, high = -1, STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(_step(middle)) else (low, middle)
    return Decimal(decimal_text(_step(low))) if low >= 0 else Decimal(0)


def _step(index: int) -> Decimal:
    return Decimal(DECADE // 9 + index % DECADE).scaleb(SMALLEST_EXPONENT + 1 - DIGITS + index // DECADE)


def largest_charge(mechanism: Mechanism, delta: Decimal, fits: Callable[[Cost], bool]) -> Decimal:
    """The largest epsilon of four digits that the mechanism can have and whose cost fits; 0 if none does."""
    pure = mechanism.cost().epsilon is not None

    def admitted(epsilon: Decimal) -> bool:
        return (not pure or chargeable(float(epsilon))) and fits(mechanism.at(epsilon, delta))

    found = largest_fitting(admitted)
    return found if found > 0 and mechanism.at(found, delta).rho > 0 else Decimal(0)


def _largest_epsilon(debit: Debit, cap: CapSpec, mechanism: Mechanism, delta: Decimal) -> Decimal:
    return largest_charge(mechanism, delta, lambda cost: admits(cap, debit.after_of(cost)))


def up(units: int) -> str:
    """Units of 2^-64 as a decimal of four digits, rounded up, for amounts asked or spent."""
    return short_text(Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(from_units(units)))


def _cap_text(quote: Quote) -> str:
    scope, limit = quote.debit.scope, limit_text(quote.cap)
    if scope.window == "programme":
        return f"the cap of programme {scope.programme} ({limit})"
    return f"the {scope.window} cap of {scope.account} ({limit})"


def _asked_text(cap: CapSpec, mechanism: Mechanism, delta: Decimal) -> str:
    cost = mechanism.cost()
    if cap.measure == "rho":
        return f"rho {up(cost.rho)}"
    if cost.epsilon is not None:
        return f"epsilon {up(cost.epsilon)}" + (f" (rho {up(cost.rho)})" if cap.delta is not None else "")
    if cap.delta is None:
        return f"rho {up(cost.rho)} without any pure epsilon"
    return f"rho {up(cost.rho)}{_stated_epsilon(mechanism, delta)}"


def _stated_epsilon(mechanism: Mechanism, delta: Decimal) -> str:
    own: float | None = getattr(mechanism, "epsilon", None)
    return "" if own is None else f" (epsilon {own} at delta {short_text(delta)})"


def _remaining_text(quote: Quote, mechanism: Mechanism) -> str:
    left, at = Remainder.of(quote.cap, quote.debit.seen), quote.cap.delta
    if not max(left.epsilon, left.rho):
        return "nothing"
    pure = f"epsilon {_down(left.epsilon)}" if left.epsilon else None
    if not left.rho:
        return str(pure)
    rho = f"rho {_down(left.rho)}"
    by_delta = "" if at is None else f"epsilon {_down(left.epsilon_by_rho)} at delta {short_text(at)}"
    if pure is not None and mechanism.cost().epsilon is not None:
        more = f", {by_delta}" if rounded_down(left.epsilon_by_rho) > rounded_down(left.epsilon) else ""
        return f"{pure} (or {rho}{more})"
    return f"{rho} ({by_delta})" if by_delta else rho


def _down(value: Decimal) -> str:
    return short_text(rounded_down(value))
