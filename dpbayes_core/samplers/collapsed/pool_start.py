"""The mode of a pool whose parts differ, and the linear map that whitens the space of its chains.

The curvature has a block for each part; the last block is that of the coordinates that parts share. Parts are
independent given these, so that one difference of the gradient serves all parts.
"""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import solve_lower
from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.collapsed.arrays import (
    DIFFERING,
    FACTOR,
    LAPLACE,
    LATENT,
    LOW,
    NOISE,
    OFFSET,
    ROWS,
    SMOOTHED,
    Target,
    work_for,
)
from dpbayes_core.samplers.collapsed.curvature import Curvature, Search
from dpbayes_core.samplers.collapsed.joint_mode import ascend, ascent, root_blocks
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.newton import FLOOR, ridged_cholesky
from dpbayes_core.samplers.collapsed.pool_target import likely_spreads, part_coordinates, pool_target, standardise
from dpbayes_core.samplers.collapsed.pools.density import place_parts, pool_density
from dpbayes_core.samplers.collapsed.whitened_space import Stretch
from dpbayes_core.samplers.collapsed.whitening import Whitening

STEP = 1e-4  # of differences, in coordinates whose natural scale is 1
ROUNDS = 60
SCALE = 0.5  # sd of the logs of tau and t that chains start with
STANDARDISED = 2  # times that coordinates are standardised again, at the mode found
NEAR = 1e-3  # least expected gain of a step, for each coordinate: chains are hardly ever nearer to the mode


@compiled
def pool_curvature(position: Floats, search: Search) -> Curvature:
    """Minus the second derivatives: of each part, between it and the shared coordinates, and (last) of these."""
    starts, target = search.starts, search.target
    parts, widest = len(target.parts), int(np.max(starts[1:] - starts[:-1]))
    blocks, between = np.zeros((parts + 1, widest, widest)), np.zeros((parts + 1, widest, widest))
    ahead, behind, probe = np.zeros(position.size), np.zeros(position.size), position.copy()
    shared = starts[parts]
    for k in range(widest):
        for side in range(2):
            probe[:] = position
            for j in range(parts):
                if k < starts[j + 1] - starts[j]:
                    probe[starts[j] + k] += STEP if side == 0 else -STEP
            pool_density(probe, target, search.work, ahead if side == 0 else behind)
        for j in range(parts):
            if k < starts[j + 1] - starts[j]:
                for i in range(starts[j + 1] - starts[j]):
                    slope = (behind[starts[j] + i] - ahead[starts[j] + i]) / (2.0 * STEP)
                    blocks[j, max(i, k), min(i, k)] += 0.5 * slope if i != k else slope
    for k in range(position.size - shared):
        for side in range(2):
            probe[:] = position
            probe[shared + k] += STEP if side == 0 else -STEP
            pool_density(probe, target, search.work, ahead if side == 0 else behind)
        for j in range(parts + 1):
            for i in range(starts[j + 1] - starts[j]):
                slope = (behind[starts[j] + i] - ahead[starts[j] + i]) / (2.0 * STEP)
                if j < parts:
                    between[j, i, k] = slope
                else:
                    blocks[j, max(i, k), min(i, k)] += 0.5 * slope if i != k else slope
    return Curvature(blocks, between, np.zeros((0, position.size)))


@compiled
def added_precision(left: Floats, first: int) -> Floats:
    """The precision to add to tau and t, the corner of `left`, so that their marginal sd is SCALE."""
    size = len(left)
    rest = np.zeros((size - first, size - first))
    for i in range(first, size):
        for k in range(first, i + 1):
            rest[i - first, k - first] = left[i, k]
    factor, solved = np.zeros_like(rest), np.zeros((first, size - first))
    ridged_cholesky(rest, FLOOR, factor)
    added = np.zeros((first, first))
    for i in range(first):
        for k in range(first, size):
            solved[i, k - first] = left[k, i]
        solve_lower(factor, solved[i], size - first)
        for j in range(i + 1):
            added[i, j] = -left[i, j]
            for k in range(size - first):
                added[i, j] += solved[i, k] * solved[j, k]
        added[i, i] += 1.0 / (SCALE * SCALE)
    return added


def pool_stretch(position: Floats, search: Search, spreads: int) -> Stretch:
    """The inverse root of the curvature at a position; tau and t, the first `spreads` shared numbers, get sd SCALE."""
    curvature, parts = pool_curvature(position, search), len(search.target.parts)
    corner = curvature.blocks[parts, :spreads, :spreads]
    original, size = curvature.blocks[parts].copy(), int(search.starts[-1] - search.starts[-2])
    root_blocks(search, curvature)
    added = added_precision(curvature.blocks[parts, :size, :size].copy(), spreads)
    curvature.blocks[parts] = original
    corner += added
    blocks, cross = root_blocks(search, curvature)
    return Stretch(
        starts=search.starts,
        blocks=blocks,
        transposed=blocks.transpose(0, 2, 1).copy(),
        cross=cross,
        reference=parts,
        directions=np.zeros((0, position.size)),
        scaling=np.zeros((0, 0)),
    )


def climb_pool(start: Floats, search: Search, spreads: int) -> tuple[Floats, Stretch]:
    """Newton's method with ridges to the mode at the start's tau and t; returns it and the stretch there.

    tau and t are fixed because their joint mode misleads: where noise dominates, it makes them as large as the noisy
    differences of parts, since a mode does not measure the volume that large values cost.
    """
    fixed = slice(int(search.starts[-2]), int(search.starts[-2]) + spreads)
    directions, scaling = np.zeros((0, start.size)), np.zeros((0, 0))

    def density(position: Floats, gradient: Floats) -> float:
        return pool_density(position, search.target, search.work, gradient)

    def newton(position: Floats, gradient: Floats) -> tuple[float, Floats]:
        curvature = pool_curvature(position, search)
        curvature.blocks[-1, :, :spreads], curvature.blocks[-1, :spreads], curvature.between[:, :, :spreads] = 0, 0, 0
        curvature.blocks[-1, range(spreads), range(spreads)] = 1.0
        value = density(position, gradient)
        gradient[fixed] = 0.0
        blocks, cross = root_blocks(search, curvature)
        transposed = blocks.transpose(0, 2, 1).copy()
        stretch = Stretch(search.starts, blocks, transposed, cross, len(search.target.parts), directions, scaling)
        return value, ascent(stretch, gradient)

    position = ascend(start, newton, density, rounds=ROUNDS, near=NEAR)
    return position, pool_stretch(position, search, spreads)


def whitened_pool(pool: Pool, prior: Prior, layout: Layout) -> tuple[Target, Whitening]:
    """The target, its coordinates standardised at its mode, and the whitening of its chains' space."""
    target, position = pool_target(pool, prior, layout)
    starts = np.concatenate([target.parts[:, OFFSET], [target.numbers[DIFFERING], position.size]]).astype(np.int64)
    smoothed = target.parts.copy()
    smoothed[smoothed[:, NOISE] == LAPLACE, NOISE] = SMOOTHED
    search = Search(target._replace(parts=smoothed), work_for(target), starts, coupled=False)
    count = len(layout.continuous) - 1
    spreads = count * (0 if int(target.parts[0, LOW]) else 1 + len(layout.first)) + 1
    position, stretch = climb_pool(position, search, spreads)
    for _ in range(STANDARDISED):
        place_parts(position, search.target, search.work)
        target.parts[:, ROWS] = smoothed[:, ROWS]
        standardise(target, search.work[:-1, FACTOR], layout)  # the search's target has the same matrices
        position, stretch = climb_pool(_restandardised(position, target, layout, spreads), search, spreads)
    return target, Whitening(
        position, starts, stretch.blocks, stretch.cross, stretch.directions, stretch.scaling, np.zeros(0)
    )


def _restandardised(position: Floats, target: Target, layout: Layout, spreads: int) -> Floats:
    """The position with 0, the mean of a standard coordinate, for all but rows, factors, sigma, tau and t."""
    start, heads = position.copy(), int((layout.first * layout.size).sum())
    for part in target.parts:
        begin = int(part[OFFSET])
        start[begin + int(part[LATENT]) + heads : begin + part_coordinates(part, layout)] = 0.0
    shared = int(target.numbers[DIFFERING])
    start[shared : shared + spreads] = likely_spreads(target, layout)
    start[shared + spreads : -1] = 0.0
    return start
