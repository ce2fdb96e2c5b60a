"""What the parts of a pool have in common, and where it stands in arrays."""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import (
    COLUMNS,
    LOW,
    Part,
    Target,
)
from dpbayes_core.samplers.collapsed.coordinates import first_continuous

FEW = 1.0  # precision that the coordinates of L add, about a typical one
# matrices of a part beyond z and its scales: where its rows of C are likely to be, and how precisely noise knows them;
# what the part says of B and L, and its squared error without tau and t
HAT, KNOWN, SAYS, LOOSE = 2, 3, 4, 5
# places in Shared.numbers: nu' = 1 / (2 t^2), nu, log sigma
DEGREES, HEAVY, LOGGED = range(3)


class Shared(NamedTuple):
    """The common parameters, or derivatives in them."""

    centre: Floats  # B: (numbers, columns of (1, factors))
    spread: Floats  # tau of each of its entries
    root: Floats  # L
    scatter: Floats  # Psi, lower triangle
    theta: Floats  # by column of C
    numbers: Floats  # (3,)


@compiled
def part_at(target: Target, index: int) -> Part:
    """One release's arrays."""
    return Part(target.parts[index], target.matrices[index], target.weights[index], target.blocks)


@compiled
def row_start(r: int, part: Part, width: int, first: int) -> int:
    """Where the coordinates of number r start among a part's: no columns are beyond its rows."""
    at, columns = r * width, int(part.numbers[COLUMNS]) - first
    for i in range(r):
        at += max(0, min(i + 1, columns))
    return at


@compiled
def new_shared(target: Target) -> Shared:
    """Zeros."""
    part = part_at(target, 0)
    first, size = first_continuous(part), target.response.shape[0]
    count, width = size - 1 - first, first - int(part.numbers[LOW])
    square = np.zeros((count, count))
    return Shared(
        np.zeros((count, width)), np.zeros((count, width)), square, square.copy(), np.zeros(size - 1), np.zeros(3)
    )


@compiled
def group_of(column: int, part: Part) -> int:
    """0 of the constant, then one for each factor."""
    block, end = 0, 1
    while column >= end:
        end += int(part.blocks[block, 1])
        block += 1
    return block


@compiled
def groups_of(part: Part) -> int:
    """How many taus a number has."""
    return 0 if part.numbers[LOW] > 0.0 else 1 + part.blocks.shape[0]
