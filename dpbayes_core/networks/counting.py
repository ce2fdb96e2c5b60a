"""Compiled loops that count records by configuration; a separate module, so that only counting loads numba."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Integers
from dpbayes_core.compiled import compiled

BLOCK = 4096  # records whose cell numbers fit in the processor's cache
FEW = 8  # cells: up to here, comparing all cell numbers with each cell is faster than adding one by one


class Layout(NamedTuple):
    """All families: f has nodes members[start[f]:start[f+1]] with their strides, and its cells start at first[f]."""

    members: Integers
    strides: Integers
    start: Integers
    first: Integers


@compiled
def copy_codes(codes: NDArray[np.integer], levels: np.int32, out: NDArray[np.int32]) -> None:
    """Copy codes into `out`; a code outside the levels becomes the first level."""
    for row in range(len(codes)):
        code = codes[row]
        out[row] = np.int32(code) if (code >= 0) & (code < levels) else np.int32(0)


@compiled
def count_families(codes: NDArray[np.int32], layout: Layout, counts: Integers) -> None:
    """Add every record, a column of `codes`, to one cell of each family's table."""
    rows = codes.shape[1]
    place = np.empty(BLOCK, dtype=np.int32)  # a table has fewer than 2^31 cells; 32-bit numbers vectorise better
    for begin in range(0, rows, BLOCK):
        size = min(BLOCK, rows - begin)
        for family in range(len(layout.start) - 1):
            start, first, end = layout.start[family], layout.first[family], layout.first[family + 1]
            node, stride = layout.members[start], np.int32(layout.strides[start])
            for row in range(size):
                place[row] = codes[node, begin + row] * stride
            for member in range(start + 1, layout.start[family + 1]):
                node, stride = layout.members[member], np.int32(layout.strides[member])
                for row in range(size):
                    place[row] += codes[node, begin + row] * stride
            if end - first > FEW:
                for row in range(size):
                    counts[first + place[row]] += 1
                continue
            left = size
            for cell in range(end - first - 1):
                found = np.int32(0)
                for row in range(size):
                    found += np.int32(place[row] == cell)
                counts[first + cell] += found
                left -= found
            counts[end - 1] += left
