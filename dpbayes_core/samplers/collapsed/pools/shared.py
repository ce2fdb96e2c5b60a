"""The arrays of parameters that a pool's parts share; the standard coordinate of a number with a release and a prior.

Where noise around `hat` has precision `known`, and the prior is normal around `centre` with sd `spread`, the number
is normal given both, and its coordinate u is that normal, standardised: by the noise where that is small, by the prior
where the noise is large, so that no coordinate narrows with `spread`. The density is exact for any hat and precision,
which only shift and scale u.
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.samplers.collapsed.arrays import (
    COLUMNS,
    LOW,
    Part,
    Target,
)
from dpbayes_core.samplers.collapsed.coordinates import first_continuous

FEW = 1.0  # precision of a normal law around typical values that, with the parts' estimates, standardises L
# matrices of a part after z and its scales: likely values of its rows of C, and the precision of their noise; its
# estimates of B and L, and their squared errors without tau and t
HAT, KNOWN, ESTIMATE, ERROR = 2, 3, 4, 5
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
    """The arrays of one release."""
    return Part(target.parts[index], target.matrices[index], target.weights[index], target.blocks)


@compiled
def row_start(r: int, part: Part, width: int, first: int) -> int:
    """The index of number r's first coordinate among a part's; empty columns have no coordinates."""
    at, columns = r * width, int(part.numbers[COLUMNS]) - first
    for i in range(r):
        at += max(0, min(i + 1, columns))
    return at


@compiled
def new_shared(target: Target) -> Shared:
    """Shared parameters, or derivatives, of 0."""
    part = part_at(target, 0)
    first, size = first_continuous(part), target.response.shape[0]
    count, width = size - 1 - first, first - int(part.numbers[LOW])
    square = np.zeros((count, count))
    return Shared(
        np.zeros((count, width)), np.zeros((count, width)), square, square.copy(), np.zeros(size - 1), np.zeros(3)
    )


@compiled
def group_of(column: int, part: Part) -> int:
    """0 for the constant, then a number for each factor."""
    block, end = 0, 1
    while column >= end:
        end += int(part.blocks[block, 1])
        block += 1
    return block


@compiled
def groups_of(part: Part) -> int:
    """The number of taus of each number."""
    return 0 if part.numbers[LOW] > 0.0 else 1 + part.blocks.shape[0]


class Standard(NamedTuple):
    """The noisy value, its precision and the normal prior that standardise a number."""

    hat: float
    known: float  # precision of the noise around it
    centre: float
    spread: float


@inlined
def from_standard(on: Standard, u: float) -> tuple[float, float]:
    """The number whose standard coordinate is u, and the log Jacobian."""
    weight = 1.0 / (on.spread * on.spread)
    square = 1.0 / (on.known + weight)
    return square * (on.known * on.hat + weight * on.centre) + sqrt(square) * u, 0.5 * log(square)


@inlined
def standard_slopes(on: Standard, u: float, bar: float) -> tuple[float, float, float]:
    """Derivatives in u, the centre and the log spread, given that in the number; the log Jacobian is included."""
    weight = 1.0 / (on.spread * on.spread)
    square = 1.0 / (on.known + weight)
    share, root = weight * square, sqrt(square)
    shift = square * on.known * (on.hat - on.centre)
    return bar * root, bar * share, bar * share * (2.0 * shift + root * u) + share
