"""Compiled loops of the pass: the subset of each row, and exact sums of its products.

A sum has LIMBS words of 32 bits, each in a 64-bit integer; the first word's unit is 2^LEAST. Adding a double shifts its
53 bits and changes two words. Products are rounded towards zero to multiples of 2^LEAST, row by row.
"""

from typing import Any, Final

import numpy as np
from numba import njit  # pyright: ignore[reportUnknownVariableType]
from numpy.typing import NDArray

from dpbayes_core.arrays import Words
from dpbayes_core.siphash import hash_rows

LEAST = -160  # exponent of the lowest stored bit of a product
LIMBS = 11  # values up to 2^64, products up to 2^128: 288 bits, then room for any number of rows and the sign
CARRY_ROWS = 512  # rows of a subset that are added between carries: 2^9 2^52 fits in a word

_compiled: Final[Any] = njit(cache=True, nogil=True)
_inlined: Final[Any] = njit(cache=True, nogil=True, inline="always")


def subset_numbers(people: Words, key: Words, subsets: int) -> NDArray[np.int64]:
    """The subset of each person: SipHash-2-4 under the key of their two words, scaled to 0 .. subsets - 1."""
    hashes = hash_rows(people, np.empty((len(people), 0), np.int32), key)
    return (((hashes >> np.uint64(32)) * np.uint64(subsets)) >> np.uint64(32)).astype(np.int64)


@_inlined
def _bits(value: Any) -> Any:
    return np.float64(value).view(np.uint64)


@_inlined
def _add(sums: Any, place: Any, bits: Any) -> None:
    exponent = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF))
    least = exponent - 1075 - LEAST  # position of the lowest of the 53 bits
    mantissa = (bits & np.uint64(0xFFFFFFFFFFFFF)) | np.uint64(0x10000000000000)
    if least < 0:
        if least <= -53:  # rounds to zero
            return
        mantissa >>= np.uint64(-least)
        least = np.int64(0)
    word = np.uint64(place + (least >> 5))  # unsigned: numba tests signed indices for a negative sign
    shift = np.uint64(least & 31)
    low = np.int64((mantissa << shift) & np.uint64(0xFFFFFFFF))
    high = np.int64(mantissa >> (np.uint64(32) - shift))  # below 2^52
    sign = np.int64(bits) >> 63  # -1 for a negative number, else 0
    sums[word] += (low ^ sign) - sign
    sums[word + np.uint64(1)] += (high ^ sign) - sign


@_compiled
def put_numbers(values: NDArray[np.float64], largest: float, out: NDArray[np.float64]) -> None:
    """Each number, clipped to +-largest; NaN and negative zero become 0."""
    for i in range(len(values)):
        value = values[i]
        if value != value:
            value = 0.0
        out[i] = min(max(value, -largest), largest) + 0.0


@_compiled
def carry(sums: NDArray[np.int64], start: int, stop: int) -> None:
    """Carry, so that all words but a sum's last are in 0 .. 2^32 - 1 and equal sums have equal words."""
    for first in range(start, stop, LIMBS):
        for k in range(LIMBS - 1):
            above = sums[first + k] >> 32
            sums[first + k] -= above << 32
            sums[first + k + 1] += above


@_compiled
def add_rows(rows: NDArray[np.float64], numbers: NDArray[np.int64], counts: NDArray[np.int64], sums: Any) -> None:
    """Add each row's values and products to its subset, then carry; `sums` is flat (subsets, entries, words)."""
    width = rows.shape[1]
    stride = (width + width * (width + 1) // 2) * LIMBS
    waiting = np.zeros(len(counts), np.int64)
    for r in range(len(rows)):
        subset = numbers[r]
        counts[subset] += 1
        place = subset * stride
        for i in range(width):
            _add(sums, place, _bits(rows[r, i]))
            place += LIMBS
        for i in range(width):
            value = rows[r, i]
            for j in range(i, width):
                _add(sums, place, _bits(value * rows[r, j]))
                place += LIMBS
        waiting[subset] += 1
        if waiting[subset] == CARRY_ROWS:
            carry(sums, subset * stride, (subset + 1) * stride)
            waiting[subset] = 0
    carry(sums, 0, len(sums))
