"""Formats numbers with as many digits as their uncertainty justifies."""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

MINUS = "\N{MINUS SIGN}"
_MOST_DECIMALS = 9
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def decimals_for(uncertainty: float) -> int:
    """The decimals that show two significant digits of `uncertainty`."""
    if not math.isfinite(uncertainty) or uncertainty <= 0:
        return 4
    return min(max(0, 1 - math.floor(math.log10(uncertainty))), _MOST_DECIMALS)


def fixed(value: float | None, decimals: int) -> str:
    """`value` with this many decimals and a true minus sign; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:,.{decimals}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text.replace("-", MINUS)


def short(value: float | Decimal | Fraction | None, digits: int = 4) -> str:
    """At most `digits` significant digits, without an exponent unless the number needs one."""
    if value is None:
        return "–"
    number = float(value)
    if number == 0:
        return "0"
    if not 1e-4 <= abs(number) < 1e7:
        mantissa, exponent = f"{number:.{digits - 1}e}".split("e")
        power = f"10{str(int(exponent)).translate(RAISED)}"
        mantissa = mantissa.rstrip("0").rstrip(".").replace("-", MINUS)
        return power if mantissa == "1" else f"{mantissa} × {power}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:,.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", MINUS)


def percent(share: float) -> str:
    """A share in percent with two digits, or as "N times" from ten on."""
    return f"{short(100 * share, 2)}%" if share < 10 else f"{short(share, 2)} times"


def listed(words: Sequence[str]) -> str:
    """The words as a list: a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def ticks(low: float, high: float, most: int = 5) -> tuple[float, ...]:
    """At most `most` round values inside [low, high]."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return (low,)
    step = 10 ** math.floor(math.log10(span))
    for finer in (0.1, 0.2, 0.25, 0.5, 1, 2, 2.5, 5, 10):
        size = step * finer
        first, last = math.ceil(low / size), math.floor(high / size)
        if last - first + 1 <= most:
            return tuple(k * size for k in range(first, last + 1))
    return (low, high)


def tick_labels(values: Sequence[float]) -> tuple[str, ...]:
    """The ticks with just enough decimals to distinguish them."""
    if len(values) < 2:
        return tuple(short(v) for v in values)
    gap = min(b - a for a, b in pairwise(values))
    decimals = min(max(0, -math.floor(math.log10(gap) + 1e-9)), _MOST_DECIMALS)
    if abs(round(gap, decimals) - gap) > 1e-6 * gap:  # a step of 0.25 needs one digit more than 0.1
        decimals += 1
    return tuple("0" if abs(v) < gap / 1e6 else fixed(v, decimals) for v in values)
