"""Splits delimited text into fields, byte by byte; whatever a row contains, it is one row and is not refused.

A row ends at a line feed or a carriage return that no quotes enclose; empty lines are skipped. A field that begins with
a quote ends at the next single quote, and two quotes mean one; what follows up to the delimiter belongs to the field
unchanged. A quote anywhere else is an ordinary character. Missing fields are null, and so are those with nothing in
them, not even quotes; fields beyond the header's are left out.
"""

from typing import Any, Final

import numpy as np
from numba import njit  # pyright: ignore[reportUnknownVariableType]
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

_QUOTE, _LINE_FEED, _RETURN = 34, 10, 13

_compiled: Final[Any] = njit(cache=True, nogil=True)  # untyped in numba; nogil lets the threads run in parallel


@_compiled
def whole_rows(content: Bytes, delimiter: int) -> tuple[int, bool]:
    """Where the last row that ends within `content` ends, and whether a quote is open at the end of it all."""
    end = 0
    quoted, fresh = False, True  # fresh: a quote here would open the field
    place = 0
    while place < len(content):
        byte = content[place]
        if quoted:
            if byte == _QUOTE:
                if place + 1 < len(content) and content[place + 1] == _QUOTE:
                    place += 1
                else:
                    quoted = False
        elif byte == _QUOTE and fresh:
            quoted, fresh = True, False
        elif byte in (_LINE_FEED, _RETURN):
            end, fresh = place + 1, True
        else:
            fresh = byte == delimiter
        place += 1
    return end, quoted


FRESH, INSIDE, QUOTED, AFTER_QUOTE = range(4)
"""Where reading may be between two bytes: before a field, in one, between quotes, after a quote between quotes."""

STATES = 4


@_compiled
def _after(byte: int, delimiter: int, state: int) -> int:
    """The state after one more byte; `FRESH` after a byte that ends a row, too."""
    if state == AFTER_QUOTE:
        if byte == _QUOTE:  # two quotes mean one
            return QUOTED
        state = INSIDE
    if state == QUOTED:
        return AFTER_QUOTE if byte == _QUOTE else QUOTED
    if byte == _QUOTE:
        return QUOTED if state == FRESH else INSIDE
    return FRESH if byte in (delimiter, _LINE_FEED, _RETURN) else INSIDE


@_compiled
def scan_rows(content: Bytes, delimiter: int, state: int) -> tuple[int, int]:
    """Where the last row that ends within `content` ends (-1: none does), and the state after it, from any state."""
    end = -1
    for place in range(len(content)):
        byte = content[place]
        state = _after(byte, delimiter, state)
        if state == FRESH and byte != delimiter:
            end = place + 1
    return end, state


@_compiled
def scan_from_each_state(content: Bytes, delimiter: int) -> NDArray[np.int64]:
    """The results of `scan_rows` from all states, (4, 2): two of them soon become one of the others."""
    found = np.empty((STATES, 2), np.int64)
    for state in (FRESH, QUOTED):
        found[state, 0], found[state, 1] = scan_rows(content, delimiter, state)
    for start in (INSIDE, AFTER_QUOTE):
        fresh, quoted, state = FRESH, QUOTED, start
        end = -1
        place = 0
        while place < len(content) and state not in (fresh, quoted):
            byte = content[place]
            fresh, quoted = _after(byte, delimiter, fresh), _after(byte, delimiter, quoted)
            state = _after(byte, delimiter, state)
            place += 1
            if state == FRESH and byte != delimiter:
                end = place
        if state in (fresh, quoted):  # from here on the two are one
            same = FRESH if state == fresh else QUOTED
            state = found[same, 1]
            if found[same, 0] > place:
                end = found[same, 0]
        found[start, 0], found[start, 1] = end, state
    return found


@_compiled
def first_row(content: Bytes, delimiter: int) -> tuple[int, int]:
    """Where the first row begins and ends; the end is -1 where `content` ends before it."""
    place = 0
    while place < len(content) and content[place] in (_LINE_FEED, _RETURN):
        place += 1
    begin = place
    while True:
        place = _field_end(content, delimiter, place)
        if place >= len(content):
            return begin, -1
        if content[place] != delimiter:
            return begin, place
        place += 1


@_compiled
def fields_of(content: Bytes, delimiter: int, slots: Places, most: int) -> tuple[int, Places]:
    """The number of rows, and where fields begin and end, as an array (columns, most, 2); -1 if a field is missing.

    `slots` has the column of each field of a row, or -1 if the field is not read.
    """
    columns = 0
    for slot in slots:
        columns = max(columns, slot + 1)
    found = np.empty((columns, most, 2), np.int64)
    rows = place = 0
    while place < len(content):
        if content[place] in (_LINE_FEED, _RETURN):
            place += 1
            continue
        for column in range(columns):
            found[column, rows, 0] = found[column, rows, 1] = -1
        field = 0
        while True:
            begin = place
            place = _field_end(content, delimiter, place)
            if field < len(slots) and slots[field] >= 0:
                found[slots[field], rows, 0], found[slots[field], rows, 1] = begin, place
            field += 1
            if place >= len(content) or content[place] != delimiter:
                break
            place += 1
        rows += 1
        place += 1
    return rows, found


@_compiled
def _field_end(content: Bytes, delimiter: int, place: int) -> int:
    if place < len(content) and content[place] == _QUOTE:
        place += 1
        while place < len(content):
            if content[place] == _QUOTE:
                if place + 1 < len(content) and content[place + 1] == _QUOTE:
                    place += 1
                else:
                    break
            place += 1
        place += 1
    while place < len(content):
        byte = content[place]
        if byte in (delimiter, _LINE_FEED, _RETURN):
            break
        place += 1
    return min(place, len(content))


@_compiled
def gathered(content: Bytes, ends: Places) -> tuple[Bytes, Places, NDArray[np.bool_]]:
    """One column's text without its quotes: bytes, offsets, and which rows are null; `ends` is (rows, 2)."""
    capacity = 0
    for row in range(len(ends)):
        capacity += ends[row, 1] - ends[row, 0]
    text = np.empty(capacity, np.uint8)
    offsets = np.zeros(len(ends) + 1, np.int64)
    null = np.zeros(len(ends), np.bool_)
    filled = 0
    for row in range(len(ends)):
        place, end = ends[row, 0], ends[row, 1]
        null[row] = place == end
        quoted = place < end and content[place] == _QUOTE
        place += 1 if quoted else 0
        while place < end:
            if quoted and content[place] == _QUOTE:
                place += 1
                if place >= end or content[place] != _QUOTE:
                    quoted = False
                    continue
            text[filled] = content[place]
            filled += 1
            place += 1
        offsets[row + 1] = filled
    return text[:filled], offsets, null
