"""Counting records by configuration, compiled; apart, so that describing a network loads no compiler."""

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.compiled import compiled

Integers = NDArray[np.int64]

BLOCK = 4096  # records whose places stay in the processor's cache


@compiled
def count_families(
    codes: NDArray[np.int32],
    members: Integers,
    strides: Integers,
    start: Integers,
    first: Integers,
    counts: Integers,
) -> None:
    """Adds every record to one cell of each family.

    `codes` is (nodes, rows); family f has members[start[f]:start[f+1]], and its cells begin at first[f].
    """
    rows = codes.shape[1]
    place = np.empty(BLOCK, dtype=np.int64)
    for begin in range(0, rows, BLOCK):
        size = min(BLOCK, rows - begin)
        for family in range(len(start) - 1):
            for row in range(size):
                place[row] = first[family]
            for member in range(start[family], start[family + 1]):
                node, stride = members[member], strides[member]
                for row in range(size):
                    place[row] += codes[node, begin + row] * stride
            for row in range(size):
                counts[place[row]] += 1
