"""The mode of a density of many parts, and its curvature: of each part, and of the sum that couples them.

With T the moments of the whole, B the curvature at constant slopes of the whole in T (a block for each part, and one
between it and the reference that it is relative to), A the slopes of T in the coordinates and H the curvature of the
whole in T, that of all is B + A' H A. With B = L L', S = L^-T and A S = R'V, the rows of V orthonormal, it is
S^-T (I + V'(K - I) V) S^-1, K = I + R H R'.
"""

from collections.abc import Callable

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import invert_lower
from dpbayes_core.samplers.collapsed.arrays import REFERENCE
from dpbayes_core.samplers.collapsed.curvature import Curvature, Search, curvature_at, whole_curvature
from dpbayes_core.samplers.collapsed.density import log_density
from dpbayes_core.samplers.collapsed.newton import FLOOR, ridged_cholesky
from dpbayes_core.samplers.collapsed.whitened_space import Stretch, gather, stretched, stretched_back

COLLINEAR = 1e-7  # remaining share of a direction below which it is a combination of the others
NEAR = 0.01  # least expected gain of a step, for each coordinate: chains are hardly ever nearer to the mode
WEAKEST = 1e-3  # floor of the curvature along the directions that couple the parts, as a share of the parts' own


@compiled
def orthonormal(rows: Floats) -> tuple[Floats, Floats]:
    """V and R with rows = R'V, by Gram-Schmidt twice, without rows that are combinations of earlier ones."""
    rank, directions, weights = 0, np.zeros_like(rows), np.zeros((rows.shape[0], rows.shape[0]))
    for entry in range(rows.shape[0]):
        vector, before = rows[entry].copy(), 0.0
        for i in range(vector.size):
            before += vector[i] * vector[i]
        for _ in range(2):
            for k in range(rank):
                inner = 0.0
                for i in range(vector.size):
                    inner += directions[k, i] * vector[i]
                weights[k, entry] += inner
                for i in range(vector.size):
                    vector[i] -= inner * directions[k, i]
        left = 0.0
        for i in range(vector.size):
            left += vector[i] * vector[i]
        if left > COLLINEAR * COLLINEAR * before:
            weights[rank, entry] = np.sqrt(left)
            for i in range(vector.size):
                directions[rank, i] = vector[i] / weights[rank, entry]
            rank += 1
    return directions[:rank].copy(), weights[:rank].copy()


@compiled
def coupled(weights: Floats, hessian: Floats) -> Floats:
    """Q - I with Q Q' = K^-1."""
    rows, entries = weights.shape
    turned, curvature = np.zeros((rows, entries)), np.zeros((rows, rows))
    for k in range(rows):
        for j in range(entries):
            for i in range(entries):
                turned[k, i] += weights[k, j] * hessian[j, i]
    for k in range(rows):
        for j in range(k + 1):
            for i in range(entries):
                curvature[k, j] += turned[k, i] * weights[j, i]
        curvature[k, k] += 1.0
    factor, inverse = np.zeros((rows, rows)), np.zeros((rows, rows))
    ridged_cholesky(curvature, WEAKEST, factor)
    invert_lower(factor, inverse, rows)
    result = inverse.T.copy()
    for k in range(rows):
        result[k, k] -= 1.0
    return result


@compiled
def invert_root(matrix: Floats, size: int, result: Floats) -> None:
    """The inverse of the Cholesky factor of a ridged matrix, transposed, into the upper triangle of `result`."""
    factor, inverse = np.zeros((size, size)), np.zeros((size, size))
    ridged_cholesky(matrix[:size, :size].copy(), FLOOR, factor)
    invert_lower(factor, inverse, size)
    for i in range(size):
        for j in range(i, size):
            result[i, j] = inverse[j, i]


@compiled
def cross_block(upper: Floats, between: Floats, block: Floats) -> Floats:
    """S_j E with E = S_j' between; subtracts E'E from `block`, the remaining curvature of the reference."""
    size, others = between.shape
    turned, result = np.zeros((size, others)), np.zeros((size, others))
    for i in range(size):
        for k in range(i + 1):
            for j in range(others):
                turned[i, j] += upper[k, i] * between[k, j]
    for i in range(size):
        for j in range(others):
            for k in range(j + 1):
                block[j, k] -= turned[i, j] * turned[i, k]
        for k in range(i, size):
            for j in range(others):
                result[i, j] += upper[i, k] * turned[k, j]
    return result


@compiled
def root_blocks(search: Search, curvature: Curvature) -> tuple[Floats, Floats]:
    """S and F: a block for each part, the reference's last, from the curvature that remains given the others."""
    starts, reference = search.starts, int(search.target.numbers[REFERENCE])
    blocks, cross = np.zeros_like(curvature.blocks), np.zeros_like(curvature.between)
    for index in range(len(blocks)):
        if index != reference:
            size = starts[index + 1] - starts[index]
            invert_root(curvature.blocks[index], size, blocks[index])
            if reference >= 0:
                left = curvature.blocks[reference]
                cross[index, :size] = cross_block(blocks[index], curvature.between[index, :size], left)
    if reference >= 0:
        width = starts[reference + 1] - starts[reference]
        invert_root(curvature.blocks[reference], width, blocks[reference])
        upper = blocks[reference]
        for index in range(len(blocks)):
            for i in range(cross.shape[1]):
                for j in range(width - 1, -1, -1):
                    total = 0.0
                    for k in range(j + 1):
                        total += cross[index, i, k] * upper[k, j]
                    cross[index, i, j] = total
    return blocks, cross


def stretch_at(position: Floats, search: Search) -> Stretch:
    """The inverse root of the curvature at a position."""
    starts, reference = search.starts, int(search.target.numbers[REFERENCE])
    curvature = curvature_at(position, search)
    blocks, cross = root_blocks(search, curvature)
    transposed = blocks.transpose(0, 2, 1).copy()
    alone = Stretch(starts, blocks, transposed, cross, reference, np.zeros((0, position.size)), np.zeros((0, 0)))
    if not search.coupled:
        return alone
    rows = np.zeros_like(curvature.slopes)
    for own, row in zip(curvature.slopes, rows, strict=True):
        gather(alone, own, row)
    directions, weights = orthonormal(rows)
    turned = coupled(weights, whole_curvature(search.target, search.work))
    return alone._replace(directions=directions, scaling=turned)


def ascent(stretch: Stretch, gradient: Floats) -> Floats:
    """Newton's step."""
    pulled, step = np.zeros((2, gradient.size))
    stretched_back(stretch, gradient, pulled)
    stretched(stretch, pulled, step)
    return step


def climb_coupled(start: Floats, search: Search, rounds: int) -> tuple[Floats, Stretch]:
    """Newton's method with ridges towards the mode; returns the end and the curvature's inverse root."""

    def density(position: Floats, gradient: Floats) -> float:
        return log_density(position, search.target, search.work, gradient)

    def newton(position: Floats, gradient: Floats) -> tuple[float, Floats]:
        value = density(position, gradient)
        return value, ascent(stretch_at(position, search), gradient)

    position = ascend(start, newton, density, rounds=rounds, near=NEAR)
    return position, stretch_at(position, search)


def ascend(
    start: Floats,
    newton: Callable[[Floats, Floats], tuple[float, Floats]],
    density: Callable[[Floats, Floats], float],
    *,
    rounds: int,
    near: float,
) -> Floats:
    """Newton's steps (`newton` fills the gradient), each halved until the density rises by a share of its gain.

    It ends where no step length helps, or where a step's expected gain is below `near` for each coordinate.
    """
    position, gradient, unused = start, np.zeros(start.size), np.zeros(start.size)
    for _ in range(rounds):
        value, step = newton(position, gradient)
        gain = float(np.sum(step * gradient))
        for halving in range(40):
            trial = position + 0.5**halving * step
            if density(trial, unused) > value + 1e-4 * 0.5**halving * gain:
                position = trial
                break
        else:
            break
        if gain < near * start.size:
            break
    return position
