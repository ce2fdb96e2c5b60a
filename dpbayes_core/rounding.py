"""Rounding with a known direction, so that a bound on privacy loss stays a bound."""

import math
from decimal import Context, Decimal
from fractions import Fraction

UNITS = 2**64  # a cost of 1 in the ledger's integers
EXACT = Context(prec=60, Emin=-(10**12), Emax=10**12)  # call its methods: operators would round to 28 digits
SAFETY = Decimal("1e-45")  # far above the error of a dozen such operations, far below one unit
HEADROOM = 1 + Fraction(1, 2**48)  # factor for the few roundings of a noise source that certifies its loss in floats

Number = int | float | Decimal | Fraction


def fraction(value: Number) -> Fraction:
    """The exact value of a finite number; NaN and infinities are refused."""
    if not math.isfinite(value):
        raise ValueError("cannot account for a loss: it is not a finite number. Give a finite one.")
    return Fraction(value)


def decimal(value: Fraction) -> Decimal:
    """The value to 60 digits."""
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def meant(value: Number) -> Fraction:
    """The exact value of a stated parameter: a float is read as the decimal it prints as, so 0.1 is a tenth."""
    return fraction(Decimal(repr(float(value))) if isinstance(value, float) else value)


def float_up(value: Fraction | Decimal) -> float:
    """The smallest float that is not below `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= Fraction(value) else math.nextafter(nearest, math.inf)


def float_down(value: Fraction | Decimal) -> float:
    """The largest float that is not above `value`."""
    return -float_up(-Fraction(value))


def printed_down(value: Number) -> float:
    """The largest float whose printed decimal is not above `meant(value)`."""
    exact = meant(value)
    nearest = float(exact)
    return nearest if meant(nearest) <= exact else math.nextafter(nearest, -math.inf)


def root_up(value: Fraction) -> Fraction:
    """A rational within 1e-18 relative of the square root, and not below it."""
    shift = max(0, 128 - value.numerator.bit_length() + value.denominator.bit_length())
    shift += shift % 2
    scaled = -(-(value.numerator << shift) // value.denominator)
    return Fraction(math.isqrt(scaled - 1) + 1 if scaled > 0 else 0, 1 << (shift // 2))
