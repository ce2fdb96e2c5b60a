"""What remains in a cap, in its own measure: the one computation, and the one rounding, behind every screen."""

from decimal import ROUND_DOWN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dpbayes_core.privacy.accounting import UNITS, cap_rho_units, epsilon_of, from_units, to_units
from storage.ledger.caps import Room, Tally, Total, remaining
from storage.ledger.request import CapSpec

WORTH_NAMING = to_units(Decimal("1e-15"))  # below it, what remains is rounding
DIGITS = 4  # that people read
TWELVE_DIGITS_DOWN = Context(prec=12, rounding=ROUND_FLOOR)
FIFTEEN_DIGITS = Context(prec=15)
FOUR_DIGITS_DOWN = Context(prec=DIGITS, rounding=ROUND_DOWN)


def remains(cap: CapSpec, spent: Total | Tally) -> Decimal:
    """What can still be charged: rho, pure epsilon, or the largest epsilon at delta by the route that admits more."""
    room = remaining(cap, spent)
    if cap.measure == "rho":
        return _loss(room.rho)
    return max(_loss(room.epsilon), epsilon_by_rho(room, cap.delta))


def epsilon_by_rho(room: Room, delta: Decimal | None) -> Decimal:
    """The largest epsilon of twelve digits whose rho at delta fits in the room; 0 where none does."""
    if delta is None or room.rho is None or room.rho < WORTH_NAMING:
        return Decimal(0)
    bound = epsilon_of(Fraction(room.rho, UNITS), delta)
    found = Decimal(0) if bound == 0 else TWELVE_DIGITS_DOWN.next_plus(Decimal(repr(bound)))
    while found and cap_rho_units(found, delta) > room.rho:  # the conversion rounds up, so this is a step or two
        found = TWELVE_DIGITS_DOWN.next_minus(found)
    return found


def rounded_down(value: Decimal | float) -> Decimal:
    """Four digits that promise no more than there is; a float means the decimal that it prints as."""
    exact = FIFTEEN_DIGITS.create_decimal(repr(value) if isinstance(value, float) else value)
    return FOUR_DIGITS_DOWN.create_decimal(exact)


def _loss(units: int | None) -> Decimal:
    return Decimal(0) if units is None or units < WORTH_NAMING else from_units(units)
