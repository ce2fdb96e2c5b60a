"""Converts text to numbers and days: null stays null, and unreadable text becomes NaN.

A number is decimal digits with an optional sign, point and exponent, infinity, nan, true (1) or false (0); it becomes
the nearest double. A date is YYYY-MM-DD and counts as days since 1970-01-01. Surrounding spaces are ignored, and
text of spaces alone is null.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpbayes.secure.sources.batch import Arrow

_NUMBER = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)$"
_TRUE, _FALSE = r"(?i)^true$", r"(?i)^false$"
_DATE = r"^(?P<year>[0-9]{4,7})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})(?P<era>(?: BC)?)$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"

_function: Any = pc  # its functions are made when pyarrow loads


def numbers(text: Arrow) -> Arrow:
    """The numbers that an array of text spells, as doubles."""
    try:
        return pc.cast(text, pa.float64())  # nearly always enough; accepts less than the code below
    except pa.ArrowInvalid:
        pass  # its message quotes a value
    trimmed = _trimmed(text)
    spelled = _function.if_else(_matches(trimmed, _TRUE), b"1", trimmed)
    spelled = _function.if_else(_matches(trimmed, _FALSE), b"0", spelled)
    return pc.cast(_as_text(_function.if_else(_matches(spelled, _NUMBER), spelled, b"nan")), pa.float64())


def days(text: Arrow) -> Arrow:
    """The days since 1970-01-01 that an array of text spells."""
    trimmed = _trimmed(text)
    infinite = _matches(trimmed, _INFINITE)
    parts = _function.extract_regex(trimmed, pattern=_DATE)
    year, month, day = (_integers(_function.struct_field(parts, [place])) for place in range(3))
    before_christ = _function.equal(_function.struct_field(parts, [3]), b" BC")
    year = np.where(pc.fill_null(before_christ, False).to_numpy(zero_copy_only=False), 1 - year, year)
    counted = _days(year, month, day)
    infinities = numbers(_as_text(_function.if_else(infinite, trimmed, b"nan"))).to_numpy(zero_copy_only=False)
    counted = np.where(pc.fill_null(infinite, False).to_numpy(zero_copy_only=False), infinities, counted)
    return pa.array(counted, mask=trimmed.is_null().to_numpy(zero_copy_only=False), from_pandas=False)


def _days(year: NDArray[np.int64], month: NDArray[np.int64], day: NDArray[np.int64]) -> NDArray[np.float64]:
    """Days in the proleptic Gregorian calendar; NaN for dates that do not exist."""
    valid = (month >= 1) & (month <= 12) & (day >= 1)
    months = (year - 1970) * 12 + np.where(valid, month, 1) - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]")
    found = first + (day - 1).astype("timedelta64[D]")
    valid &= found.astype("datetime64[M]").astype(np.int64) == months
    return np.where(valid, found.astype(np.int64), np.nan)


def _trimmed(text: Arrow) -> Arrow:
    """As bytes, since the text may not be UTF-8; empty text becomes null."""
    trimmed = _as_bytes(_function.ascii_trim(text, characters=" \t"))
    return _function.if_else(_function.equal(_function.binary_length(trimmed), 0), None, trimmed)


def _matches(array: Arrow, pattern: str) -> Arrow:
    return _function.match_substring_regex(array, pattern=pattern)


def _integers(array: Arrow) -> NDArray[np.int64]:
    """The integers of at most seven digits; 0 where there are none."""
    return pc.cast(_as_text(pc.fill_null(array, b"0")), pa.int64()).to_numpy()


def _as_text(array: Arrow) -> Arrow:
    return array.view(pa.large_string())


def _as_bytes(array: Arrow) -> Arrow:
    return array.view(pa.large_binary())
