"""Counting records by configuration, compiled; apart, so that describing a network loads no compiler."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.compiled import compiled

Integers = NDArray[np.int64]

BLOCK = 4096  # records whose places stay in the processor's cache


class Layout(NamedTuple):
    """Family f has the nodes members[start[f]:start[f+1]] and their strides; its cells begin at first[f]."""

    members: Integers
    strides: Integers
    start: Integers
    first: Integers


@compiled
def count_families(codes: NDArray[np.int32], layout: Layout, counts: Integers) -> None:
    """Adds every record, a column of `codes`, to one cell of each family."""
    rows = codes.shape[1]
    place = np.empty(BLOCK, dtype=np.int64)
    for begin in range(0, rows, BLOCK):
        size = min(BLOCK, rows - begin)
        for family in range(len(layout.start) - 1):
            start, first = layout.start[family], layout.first[family]
            node, stride = layout.members[start], layout.strides[start]
            for row in range(size):
                place[row] = first + codes[node, begin + row] * stride
            for member in range(start + 1, layout.start[family + 1]):
                node, stride = layout.members[member], layout.strides[member]
                for row in range(size):
                    place[row] += codes[node, begin + row] * stride
            for row in range(size):
                counts[place[row]] += 1
