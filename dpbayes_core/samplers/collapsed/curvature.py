"""Curvature of a density of many parts by central differences: of each part, and of the whole in its moments."""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.samplers.collapsed.arrays import (
    FREE,
    MOMENTS,
    NO_SIGMA,
    PULL,
    RATE,
    REFERENCE,
    ROOT,
    ROWS,
    SIGMA,
    UNIT_ROWS,
    Target,
)
from dpbayes_core.samplers.collapsed.density import pool, root_of, whole_terms
from dpbayes_core.samplers.collapsed.part_terms import own_slopes, part_slopes, place_part, pull_part, statistic

STEP = 1e-5  # of differences, in coordinates


class Search(NamedTuple):
    """The density whose mode is searched for."""

    target: Target
    work: Floats
    starts: Integers  # where each part's coordinates start, and where the last ones end
    coupled: bool  # whether the coupling of the parts is computed


class Side(NamedTuple):
    """Derivatives of the density on one side of a position, for central differences."""

    slopes: Floats
    moments: Floats  # of the whole, and log sigma where it is not integrated out


class Curvature(NamedTuple):
    """B and A at a position; see joint_mode.py."""

    blocks: Floats  # (parts, size, size), lower triangles
    between: Floats  # (parts, size, size): of each part and the reference; none without one
    slopes: Floats  # A: (entries, coordinates), or none where coupling is not computed


@inlined
def shared_moments(target: Target, work: Floats, first: int, last: int, result: Floats) -> None:
    """The sum of the moments of the parts from `first` up to `last`."""
    result[:] = 0.0
    for part in range(first, last):
        share, entry = target.parts[part, ROWS] / target.numbers[UNIT_ROWS], 0
        for i in range(work.shape[2]):
            for k in range(i + 1):
                result[entry] += share * work[part, MOMENTS, i, k]
                entry += 1
        if int(target.parts[part, SIGMA]) != NO_SIGMA:
            result[entry] = work[len(target.parts), FREE, 0, 0]


@inlined
def evaluate_part(probe: Floats, search: Search, index: int, in_rows: float, side: Side) -> None:
    """Evaluate where only one part's coordinates have moved, at constant slopes of the whole in its moments."""
    target, work = search.target, search.work
    if index == int(target.numbers[REFERENCE]):  # all parts' C have moved
        statistic(probe, target, work)
        part_slopes(probe, target, work, in_rows, side.slopes)
        shared_moments(target, work, 0, len(target.parts), side.moments)
    else:
        place_part(probe, target, index, work)
        own_slopes(target, index, work, in_rows, side.slopes)
        pull_part(probe, target, index, work, side.slopes)
        shared_moments(target, work, index, index + 1, side.moments)


@inlined
def shared_entries(target: Target, size: int) -> int:
    """How many numbers couple the parts: moments of the whole, and log sigma where it is not integrated out."""
    return size * (size + 1) // 2 + int(target.numbers[RATE] > 0.0)


@compiled
def curvature_at(position: Floats, search: Search) -> Curvature:
    """B and A; `work` is restored."""
    target, work, starts = search.target, search.work, search.starts
    parts, size, reference = len(target.parts), np.max(starts[1:] - starts[:-1]), int(target.numbers[REFERENCE])
    entries, probe = shared_entries(target, work.shape[2]), position.copy()
    blocks, between = np.zeros((parts, size, size)), np.zeros((parts if reference >= 0 else 0, size, size))
    slopes, second = np.zeros((entries if search.coupled else 0, probe.size)), np.zeros(probe.size)
    ahead = Side(np.zeros(probe.size), np.zeros(entries))
    behind = Side(np.zeros(probe.size), np.zeros(entries))
    statistic(position, target, work)
    _, in_rows = whole_terms(target, work, pool(target, work))
    for index in range(parts):
        start, end = starts[index], starts[index + 1]
        for i in range(start, end):
            step = STEP * max(1.0, abs(position[i]))
            probe[i] = position[i] + step
            evaluate_part(probe, search, index, in_rows, ahead)
            probe[i] = position[i] - step
            evaluate_part(probe, search, index, in_rows, behind)
            probe[i] = position[i]
            second[:] = (behind.slopes - ahead.slopes) / (2.0 * step)
            for entry in range(len(slopes)):
                slopes[entry, i] = (ahead.moments[entry] - behind.moments[entry]) / (2.0 * step)
            for j in range(start, end):
                blocks[index, max(i, j) - start, min(i, j) - start] += second[j] if i == j else 0.5 * second[j]
            for other in range(parts if index == reference else 0):
                for j in range(starts[other], starts[other + 1]):
                    between[other, j - starts[other], i - start] = second[j]
        evaluate_part(position, search, index, in_rows, behind)
    return Curvature(blocks, between, slopes)


@inlined
def whole_slopes(target: Target, work: Floats, slopes: Floats) -> bool:
    """Derivatives of the terms of the whole in its moments; False outside the density."""
    whole, rows = work[len(target.parts)], target.numbers[UNIT_ROWS]
    value, in_rows = whole_terms(target, work, rows * whole[MOMENTS, 0, 0])
    entry = 0
    for i in range(work.shape[2]):
        for k in range(i + 1):
            slopes[entry] = whole[PULL, i, k] if k < i else 0.5 * whole[PULL, i, i]
            entry += 1
    slopes[0] += in_rows * rows
    if target.numbers[RATE] > 0.0:
        slopes[entry] = whole[FREE, 0, 1]
    return np.isfinite(value)


@compiled
def whole_curvature(target: Target, work: Floats) -> Floats:
    """H by central differences; zero where a difference leaves the density."""
    whole, size = work[len(target.parts)], work.shape[2]
    entries = shared_entries(target, size)
    hessian, ahead, behind = np.zeros((entries, entries)), np.zeros(entries), np.zeros(entries)
    first, least = 1, 1.0
    if root_of(np.zeros_like(target.response), first, size, whole):
        for i in range(first, size):
            least = min(least, whole[ROOT, i, i] ** 2)
    step, entry = 1e-4 * least, 0
    for i in range(size):
        for k in range(i + 1):
            here = whole[MOMENTS, i, k]
            whole[MOMENTS, i, k] = here + step
            inside = whole_slopes(target, work, ahead)
            whole[MOMENTS, i, k] = here - step
            inside = whole_slopes(target, work, behind) and inside
            whole[MOMENTS, i, k] = here
            if inside:
                for j in range(entries):
                    hessian[entry, j] += (behind[j] - ahead[j]) / (4.0 * step)
                    hessian[j, entry] += (behind[j] - ahead[j]) / (4.0 * step)
            entry += 1
    if entry < entries:
        here = whole[FREE, 0, 0]
        whole[FREE, 0, 0] = here + STEP
        inside = whole_slopes(target, work, ahead)
        whole[FREE, 0, 0] = here - STEP
        inside = whole_slopes(target, work, behind) and inside
        whole[FREE, 0, 0] = here
        for j in range(entries if inside else 0):
            hessian[entry, j] += (behind[j] - ahead[j]) / (4.0 * STEP)
            hessian[j, entry] += (behind[j] - ahead[j]) / (4.0 * STEP)
    return hessian
