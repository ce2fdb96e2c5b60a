"""Coordinates of a part relative to a reference part: C = C_0 W, with W's entries free and the logs of its diagonal.

The law of several parts of one population stays the same when all of them are transformed alike, so a priori W does
not depend on C_0: nothing has to move together, and nothing narrows as another part's factor becomes singular.
"""

from math import exp, log

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.compiled import compiled
from dpbayes_core.samplers.flat import BAR, COLUMNS, FACTOR, LOW, RELATIVE, Part

Floats = NDArray[np.float64]


@compiled
def place_relative(position: Floats, part: Part, reference: Floats, work: Floats) -> float:
    """Fill W and C from the coordinates and the reference's C; returns the log Jacobian."""
    low, columns = int(part.numbers[LOW]), int(part.numbers[COLUMNS])
    value, offset = 0.0, 0
    work[FACTOR, 0, 0] = 1.0
    for i in range(1, work.shape[1]):
        free = min(i, columns - 1)
        work[RELATIVE, i, 0] = 0.0 if low else position[offset]
        offset += 1 - low
        work[RELATIVE, i, 1:] = 0.0
        work[RELATIVE, i, 1 : 1 + free] = position[offset : offset + free]
        offset += free
        if i < columns:
            work[RELATIVE, i, i] = exp(position[offset - 1])
            value += position[offset - 1]
        value += (1 - low + free) * log(reference[FACTOR, i, i])
        work[FACTOR, i, :] = 0.0
        work[FACTOR, i, 0] = reference[FACTOR, i, 0]
        for j in range(1, i + 1):
            for k in range(min(j, columns - 1) + 1):
                work[FACTOR, i, k] += reference[FACTOR, i, j] * work[RELATIVE, j, k]
    return value


@compiled
def pull_relative(position: Floats, part: Part, reference: Floats, work: Floats, gradient: Floats) -> None:
    """Reverse of `place_relative`: derivatives in the coordinates, and those in the reference's C added to its BAR."""
    low, columns = int(part.numbers[LOW]), int(part.numbers[COLUMNS])
    size, offset = work.shape[1], 0
    for i in range(1, size):
        free = min(i, columns - 1)
        reference[BAR, i, i] += (1 - low + free) / reference[FACTOR, i, i]
        reference[BAR, i, 0] += work[BAR, i, 0]
        for j in range(1, i + 1):
            total = 0.0
            for k in range(min(j, columns - 1) + 1):
                total += work[BAR, i, k] * work[RELATIVE, j, k]
            reference[BAR, i, j] += total
        for k in range(low, free + 1):
            total = 0.0
            for row in range(i, size):
                total += reference[FACTOR, row, i] * work[BAR, row, k]
            gradient[offset + k - low] = total
        offset += 1 - low + free
        if i < columns:
            gradient[offset - 1] = 1.0 + gradient[offset - 1] * work[RELATIVE, i, i]


def relative_numbers(root: Floats, reference: Floats, columns: int, *, low: bool) -> list[Floats]:
    """Coordinates of a part's C, given the reference's: both with their means in the first column."""
    relative, parts = root.copy(), list[Floats]()
    for i in range(len(root)):  # no LAPACK, whose bits depend on its threads
        relative[i] -= np.sum(reference[i, :i, None] * relative[:i], axis=0)
        relative[i] /= reference[i, i]
    for i in range(1, len(root)):
        row = relative[i, int(low) : min(i + 1, columns)].copy()
        if i < columns:
            row[-1] = np.log(row[-1])
        parts.append(row)
    return parts
