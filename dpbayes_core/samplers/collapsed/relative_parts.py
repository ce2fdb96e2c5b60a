"""Coordinates of a part relative to a reference part: C = C_0 W, with W's entries free and the logs of its diagonal.

The law of several parts of one population is invariant when numbers are transformed in the same way in all of them,
so that a priori W does not depend on C_0: no coordinates have to move together, and none narrows as the factor of
another part becomes singular. Each part has rows of factors (the head of C) of its own, from which the head of W
follows, regularised. Both C are those before the transformation of laplace_transform.py.
"""

from math import exp, log

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import BAR, COLUMNS, FACTOR, LOW, ORIGINAL, PULLED, RELATIVE, Part
from dpbayes_core.samplers.collapsed.coordinates import first_continuous, place_factors, pull_factors

SOFT = 0.05  # square of a factor's own scatter below which its relation to numbers is regularised


@compiled
def softened(reference: Floats, i: int) -> float:
    """Diagonal of the reference's C, regularised where a level is almost empty."""
    own = reference[ORIGINAL, i, i]
    return own if i == 0 else own + SOFT / own


@compiled
def solve_head(size: int, reference: Floats, work: Floats) -> None:
    """The head of W from those of C_0 and C."""
    for i in range(size):
        for k in range(i + 1):
            total = work[FACTOR, i, k]
            for j in range(k, i):
                total -= reference[ORIGINAL, i, j] * work[RELATIVE, j, k]
            work[RELATIVE, i, k] = total / softened(reference, i)


@compiled
def place_relative(position: Floats, part: Part, reference: Floats, work: Floats) -> float:
    """Fill W and C from coordinates and the reference's C; returns the terms that are no function of C alone."""
    low, columns, first = int(part.numbers[LOW]), int(part.numbers[COLUMNS]), first_continuous(part)
    value, offset = place_factors(position, part, work)
    solve_head(first, reference, work)
    for i in range(first, work.shape[1]):
        free = min(i, columns - 1)
        work[RELATIVE, i, :] = 0.0
        work[RELATIVE, i, low : 1 + free] = position[offset : offset + 1 - low + free]
        offset += 1 - low + free
        if i < columns:
            work[RELATIVE, i, i] = exp(position[offset - 1])
            value += position[offset - 1]
        value += (1 - low + free) * log(reference[ORIGINAL, i, i])
        work[FACTOR, i, :] = 0.0
        for j in range(i + 1):
            for k in range(min(j, columns - 1) + 1):
                work[FACTOR, i, k] += reference[ORIGINAL, i, j] * work[RELATIVE, j, k]
    return value


@compiled
def pull_head(size: int, reference: Floats, work: Floats) -> None:
    """Derivatives in the heads of C and C_0, given those in the head of W."""
    for k in range(size):
        for i in range(size - 1, -1, -1):
            total = 0.0
            for row in range(size, work.shape[1]):
                total += reference[ORIGINAL, row, i] * work[BAR, row, k] if k <= i else 0.0
            for row in range(i + 1, size):
                total -= reference[ORIGINAL, row, i] * work[PULLED, row, k]
            work[PULLED, i, k] = total / softened(reference, i)
    for i in range(size):
        for k in range(i + 1):
            work[BAR, i, k] += work[PULLED, i, k]
            for j in range(k, i):
                reference[BAR, i, j] -= work[PULLED, i, k] * work[RELATIVE, j, k]
            slope = 1.0 if i == 0 else 1.0 - SOFT / reference[ORIGINAL, i, i] ** 2
            reference[BAR, i, i] -= slope * work[PULLED, i, k] * work[RELATIVE, i, k]


@compiled
def pull_relative(position: Floats, part: Part, reference: Floats, work: Floats, gradient: Floats) -> None:
    """Reverse of `place_relative`: derivatives in the coordinates, and those in the reference's C added to its BAR."""
    low, columns, first = int(part.numbers[LOW]), int(part.numbers[COLUMNS]), first_continuous(part)
    pull_head(first, reference, work)
    size, offset = work.shape[1], pull_factors(position, part, work, gradient)
    for i in range(first, size):
        free = min(i, columns - 1)
        reference[BAR, i, i] += (1 - low + free) / reference[ORIGINAL, i, i]
        for j in range(i + 1):
            total = 0.0
            for k in range(min(j, columns - 1) + 1):
                total += work[BAR, i, k] * work[RELATIVE, j, k]
            reference[BAR, i, j] += total
        for k in range(low, free + 1):
            total = 0.0
            for row in range(i, size):
                total += reference[ORIGINAL, row, i] * work[BAR, row, k]
            gradient[offset + k - low] = total
        offset += 1 - low + free
        if i < columns:
            gradient[offset - 1] = 1.0 + gradient[offset - 1] * work[RELATIVE, i, i]


def relative_numbers(root: Floats, reference: Floats, part: Floats, rows: range) -> list[Floats]:
    """Coordinates of a part's continuous rows of C, given the reference's; column 0 of both has the means."""
    relative, parts = root.copy(), list[Floats]()
    for i in range(len(root)):  # no LAPACK, whose bits depend on its threads
        relative[i] -= np.sum(reference[i, :i, None] * relative[:i], axis=0)
        pivot = reference[i, i]
        relative[i] /= pivot + SOFT / pivot if 0 < i < rows.start else pivot
    low, columns = int(part[LOW]), int(part[COLUMNS])
    for i in rows:
        row = relative[i, low : min(i + 1, columns)].copy()
        if i < columns:
            row[-1] = np.log(row[-1])
        parts.append(row)
    return parts
