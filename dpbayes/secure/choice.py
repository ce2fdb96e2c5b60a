"""Which rows of a person count: those of the smallest scores, compiled."""

from typing import Any, Final

import numpy as np
from numba import njit  # pyright: ignore[reportUnknownVariableType]
from numpy.typing import NDArray

from dpbayes_core.arrays import Words

_njit: Final[Any] = njit(cache=True, nogil=True)  # untyped in numba; nogil lets the threads run side by side


@_njit
def least_of_each(units: Words, scores: Words, rows: NDArray[np.int32], most: int) -> NDArray[np.int64]:
    """Places of at most so many rows of every distinct unit: its smallest scores, then its smallest integers."""
    owners, count = _owners(units)
    sizes = np.zeros(count, np.int64)
    for i in range(len(owners)):
        sizes[owners[i]] += 1
    starts = np.zeros(count + 1, np.int64)
    for owner in range(count):
        starts[owner + 1] = starts[owner] + min(sizes[owner], most)
    kept, filled = np.empty(starts[count], np.int64), starts[:count].copy()
    for i in range(len(owners)):
        owner = owners[i]
        place = filled[owner]
        if sizes[owner] <= most:
            kept[place] = i
            filled[owner] += 1
            continue
        if place == starts[owner + 1]:  # full: one must go
            place -= 1
            if not _before(i, kept[place], scores, rows):
                continue
        else:
            filled[owner] += 1
        while place > starts[owner] and _before(i, kept[place - 1], scores, rows):
            kept[place] = kept[place - 1]
            place -= 1
        kept[place] = i
    return kept


@_njit
def _owners(units: Words) -> tuple[NDArray[np.int64], int]:
    """A number for each distinct unit, in the order of their first rows."""
    room = 16
    while room < 2 * len(units):
        room *= 2
    mask = room - 1
    slots = np.full(room, -1, np.int64)  # open addressing; a slot names a unit by its first row
    owners = np.empty(len(units), np.int64)
    count = 0
    for i in range(len(units)):
        slot = np.int64(units[i, 1] & np.uint64(mask))
        while slots[slot] >= 0:
            held = slots[slot]
            if units[held, 0] == units[i, 0] and units[held, 1] == units[i, 1]:
                break
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = i
            owners[i] = count
            count += 1
        else:
            owners[i] = owners[slots[slot]]
    return owners, count


@_njit
def _before(i: int, j: int, scores: Words, rows: NDArray[np.int32]) -> bool:
    if scores[i] != scores[j]:
        return scores[i] < scores[j]
    for k in range(rows.shape[1]):
        if rows[i, k] != rows[j, k]:
            return rows[i, k] < rows[j, k]
    return False
