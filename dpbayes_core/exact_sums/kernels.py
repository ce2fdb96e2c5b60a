"""Compiled loops of a pass: clip and count, quantise, add up by code. Import inside functions: numba loads slowly."""

from typing import Any, Final

import numpy as np
from numba import njit  # pyright: ignore[reportUnknownVariableType]
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats, ShortIntegers

UNKNOWN_CODE: Final = -1
NULL_CODE: Final = -2
MISSING: Final = -1  # the code of a missing level
_njit: Final[Any] = njit(cache=True, nogil=True)  # untyped in numba; nogil lets threads run at the same time


@_njit
def clip_and_count(values: Floats, low: float, high: float, instead: float, out: Floats) -> tuple[int, int]:
    """Fill `out` with the values clipped to the bounds; returns how many were NaN, and how many were outside."""
    not_a_number, outside = 0, 0
    for i in range(len(values)):
        value = values[i]
        missing, below, above = value != value, value < low, value > high
        not_a_number += missing
        outside += below | above
        out[i] = instead if missing else (low if below else (high if above else value))
    return not_a_number, outside


@_njit
def clip_and_count_known(
    values: Floats, valid: NDArray[np.uint8], start: int, low: float, high: float, instead: float, out: Floats
) -> tuple[int, int]:
    """As `clip_and_count`; value i is null unless bit `start + i` of `valid` is 1."""
    not_a_number, outside = 0, 0
    for i in range(len(values)):
        value, place = values[i], start + i
        known = (valid[place >> 3] >> (place & 7)) & 1 == 1
        missing, below, above = value != value, value < low, value > high
        not_a_number += known & missing
        outside += known & (below | above)
        out[i] = instead if missing | (not known) else (low if below else (high if above else value))
    return not_a_number, outside


@_njit
def quantise_into(values: Any, middle: float, width: float, scale: float, out: Any) -> None:
    """Fill `out` with clipped values in whole steps from the middle, `scale` steps a width; NaN becomes 0."""
    top = scale / 2
    for i in range(len(values)):
        steps = np.rint((values[i] - middle) / width * scale)
        steps = -top if steps < -top else (top if steps > top else steps)
        out[i] = np.int32(0) if steps != steps else np.int32(steps)


@_njit
def add_by_code(codes: Any, values: Floats, totals: Floats) -> None:
    """Add each value to the total of its code."""
    for i in range(len(codes)):
        totals[codes[i]] += values[i]


@_njit
def count_pairs(first: Any, second: Any, counts: NDArray[np.int64]) -> None:
    """Count rows by two codes."""
    for i in range(len(first)):
        counts[first[i], second[i]] += 1


@_njit
def look_up(places: Any, of_places: Any, out: Any) -> None:
    """Fill `out` with `of_places[place]`, its last entry for a place outside; several times as fast as indexing."""
    last = len(of_places) - 1
    for i in range(len(places)):
        place = places[i]
        out[i] = of_places[place if 0 <= place <= last else last]


@_njit
def replace_codes(codes: ShortIntegers, of_null: int, of_unknown: int) -> tuple[int, int]:
    """Replace the codes of null and of unknown levels by these codes; returns how many there were of each."""
    nulls, unknown = 0, 0
    for i in range(len(codes)):
        code = codes[i]
        nulls += code == NULL_CODE
        unknown += code == UNKNOWN_CODE
        codes[i] = of_null if code == NULL_CODE else (of_unknown if code < 0 else code)
    return nulls, unknown
