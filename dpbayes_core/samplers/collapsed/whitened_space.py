"""The space that chains move in: standard numbers u, with coordinates = centre + S (I + V' (Q - I) V) u.

S has an upper triangular block for each part. Where parts are relative to a reference, S also has the cross blocks -F,
which multiply the numbers of the reference. The orthonormal rows of V are the directions that couple the parts, and
the upper triangular Q scales along them. A single part has its block alone.
"""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.samplers.collapsed.arrays import Target
from dpbayes_core.samplers.collapsed.density import log_density


class Stretch(NamedTuple):
    """The linear map from standard numbers to coordinates."""

    starts: Integers  # where each block starts, and where the last one ends
    blocks: Floats  # S: (blocks, size, size)
    transposed: Floats
    cross: Floats  # F: (blocks, size, size), or none
    reference: int  # the block of the reference, where there is one
    directions: Floats  # V: (rows, coordinates)
    scaling: Floats  # Q - I


class Space(NamedTuple):
    """The target in whitened coordinates, and the metric; `block` is a single part's block, separate for speed."""

    target: Target
    work: Floats
    centre: Floats
    block: Floats
    transposed: Floats
    stretch: Stretch
    metric: Floats  # inverse mass
    coordinates: Floats  # scratch
    slopes: Floats  # scratch


class Point(NamedTuple):
    """A point of a trajectory."""

    position: Floats
    momentum: Floats
    gradient: Floats
    value: Floats  # one number: the log density


def new_point(size: int) -> Point:
    """A point with zeros."""
    return Point(np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(1))


@compiled
def spread(stretch: Stretch, vector: Floats, result: Floats) -> None:
    """result += S vector."""
    starts, transposed, cross = stretch.starts, stretch.transposed, stretch.cross
    for block in range(starts.size - 1):
        start, end = starts[block], starts[block + 1]
        for j in range(end - start):
            for i in range(j + 1):
                result[start + i] += transposed[block, j, i] * vector[start + j]
    for block in range(len(cross)):
        start, first = starts[block], starts[stretch.reference]
        for i in range(starts[block + 1] - start):
            for j in range(starts[stretch.reference + 1] - first):
                result[start + i] -= cross[block, i, j] * vector[first + j]


@compiled
def gather(stretch: Stretch, slopes: Floats, result: Floats) -> None:
    """result = S' slopes."""
    starts, blocks, cross = stretch.starts, stretch.blocks, stretch.cross
    result[:] = 0.0
    for block in range(starts.size - 1):
        start, end = starts[block], starts[block + 1]
        for i in range(end - start):
            for j in range(i, end - start):
                result[start + j] += blocks[block, i, j] * slopes[start + i]
    for block in range(len(cross)):
        start, first = starts[block], starts[stretch.reference]
        for i in range(starts[block + 1] - start):
            for j in range(starts[stretch.reference + 1] - first):
                result[first + j] -= cross[block, i, j] * slopes[start + i]


@compiled
def stretched(stretch: Stretch, vector: Floats, result: Floats) -> None:
    """result += S (I + V' (Q - I) V) vector."""
    directions, turned, (rows, size) = stretch.directions, vector.copy(), stretch.directions.shape
    inner = np.zeros(rows)
    for k in range(rows):
        for i in range(size):
            inner[k] += directions[k, i] * vector[i]
    for k in range(rows):
        total = 0.0
        for j in range(k, rows):
            total += stretch.scaling[k, j] * inner[j]
        for i in range(size):
            turned[i] += directions[k, i] * total
    spread(stretch, turned, result)


@compiled
def stretched_back(stretch: Stretch, slopes: Floats, result: Floats) -> None:
    """result = (I + V' (Q - I)' V) S' slopes."""
    directions, (rows, size) = stretch.directions, stretch.directions.shape
    gather(stretch, slopes, result)
    inner = np.zeros(rows)
    for k in range(rows):
        for i in range(size):
            inner[k] += directions[k, i] * result[i]
    for k in range(rows):
        total = 0.0
        for j in range(k + 1):
            total += stretch.scaling[j, k] * inner[j]
        for i in range(size):
            result[i] += directions[k, i] * total


@compiled
def to_coordinates(space: Space, position: Floats) -> None:
    """space.coordinates = centre + the stretched position."""
    coordinates, transposed = space.coordinates, space.transposed
    coordinates[:] = space.centre
    if len(transposed) == 0:
        stretched(space.stretch, position, coordinates)
    for j in range(len(transposed)):
        weight = position[j]
        for i in range(j + 1):
            coordinates[i] += transposed[j, i] * weight


@inlined
def evaluate(space: Space, point: Point) -> None:
    """Log density and gradient at a point's position."""
    to_coordinates(space, point.position)
    slopes, gradient, block = space.slopes, point.gradient, space.block
    point.value[0] = log_density(space.coordinates, space.target, space.work, slopes)
    if len(block) == 0:
        stretched_back(space.stretch, slopes, gradient)
    else:
        gradient[:] = 0.0
    for i in range(len(block)):
        weight = slopes[i]
        for j in range(i, len(block)):
            gradient[j] += block[i, j] * weight


def space_of(target: Target, work: Floats, centre: Floats, stretch: Stretch, metric: Floats) -> Space:
    """A space with its scratch arrays."""
    alone = len(stretch.blocks) == 1
    block = stretch.blocks[0] if alone else np.zeros((0, 0))
    transposed = stretch.transposed[0] if alone else np.zeros((0, 0))
    return Space(target, work, centre, block, transposed, stretch, metric, *np.zeros((2, centre.size)))
