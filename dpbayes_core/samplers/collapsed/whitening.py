"""The linear map that whitens the chains' coordinates: mode and curvature of a smoothed target.

Laplace noise is smoothed (pseudo-Huber) so that a mode and a curvature exist; the chains sample the true target. A
narrow prior and a release that contradicts it may have a mode each: for one part both are searched for, and weighed.
"""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.linear_algebra import invert_lower
from dpbayes_core.samplers.collapsed.arrays import (
    BENT,
    KINKED,
    LAPLACE,
    NOISE,
    OFFSET,
    SMOOTHED,
    STEADIED,
    Target,
    work_for,
)
from dpbayes_core.samplers.collapsed.curvature import Search
from dpbayes_core.samplers.collapsed.density import log_density
from dpbayes_core.samplers.collapsed.joint_mode import climb_together
from dpbayes_core.samplers.collapsed.newton import climb
from dpbayes_core.sampling.work_limits import MOST_OF_COUPLING, coupling

LARGEST = 1500  # dimensions; beyond, the curvature costs more than it gives
ROUNDS = 100
MOST_OF_SECOND = 500  # dimensions; beyond, the search for a second mode costs more than it is worth
SECOND_ROUNDS = 30
CERTAIN = 10.0  # by so much in logarithms is one mode's weight, roughly known, beyond doubt
APART = 2.0  # a second mode is that far from the first, where the sd of draws is 1 in each dimension
ALONE = 3  # rounds where coupling is too dear to look for: steps without it gain little more


class Whitening(NamedTuple):
    """Centre and linear map of the chains' coordinates; see whitened_space.py."""

    centre: Floats
    starts: Integers
    stretch: Floats  # (blocks, size, size), each upper triangular
    cross: Floats
    directions: Floats
    scaling: Floats
    second: Floats  # another mode of some weight, in standard numbers; none where one is enough


class Peak(NamedTuple):
    """A mode, the Cholesky factor of its curvature, and about the logarithm of its probability mass."""

    position: Floats
    factor: Floats
    weight: float


def whiten(target: Target, start: Floats, unshrunk: Floats) -> Whitening:
    """The whitening of a target: a block for each part, and where there are several the directions that couple them.

    `unshrunk` is a second start of the search.
    """
    parts = len(target.parts)
    starts = np.append(target.parts[:, OFFSET], start.size).astype(np.int64)
    widest = int(np.diff(starts).max())
    if widest > LARGEST:
        blocks = np.tile(np.eye(widest), (parts, 1, 1))
        return Whitening(start, starts, blocks, *_uncoupled(start.size))
    smoothed = _smoothed(target)
    if parts == 1:
        peak, second = _peaks(smoothed, start, unshrunk)
        lower = np.zeros_like(peak.factor)
        invert_lower(peak.factor, lower, start.size)
        return Whitening(peak.position, starts, lower.T[None].copy(), *_uncoupled(start.size)[:-1], second)
    together = coupling(start.size, len(target.response)) <= MOST_OF_COUPLING
    search = Search(smoothed, work_for(target), starts, together)
    centre, stretch = climb_together(start, search, ROUNDS if together else ALONE)
    return Whitening(centre, starts, stretch.blocks, stretch.cross, stretch.directions, stretch.scaling, np.zeros(0))


def _peaks(target: Target, start: Floats, unshrunk: Floats) -> tuple[Peak, Floats]:
    """The mode near `start`, or that near `unshrunk` if it certainly weighs more; and the other if it may matter."""
    first = _peak(target, start, ROUNDS)
    if start.size > MOST_OF_SECOND:
        return first, np.zeros(0)
    second = _peak(target, unshrunk, SECOND_ROUNDS)
    if not second.weight > first.weight - CERTAIN:
        return first, np.zeros(0)
    if second.weight > first.weight + CERTAIN:
        return second, np.zeros(0)
    away = np.sum(first.factor * (second.position - first.position)[:, None], axis=0)  # no LAPACK
    return first, away if np.sum(away**2) > APART**2 * away.size else np.zeros(0)


def _peak(target: Target, start: Floats, rounds: int) -> Peak:
    position, factor = climb(start, target, work_for(target), rounds)
    value = log_density(position, target, work_for(target), np.zeros(start.size))
    return Peak(position, factor, value - float(np.sum(np.log(np.diag(factor)))))


def _smoothed(target: Target) -> Target:
    parts = target.parts.copy()
    parts[parts[:, NOISE] == LAPLACE, NOISE] = SMOOTHED
    parts[parts[:, BENT] == KINKED, BENT] = STEADIED
    return target._replace(parts=parts)


def _uncoupled(size: int) -> tuple[Floats, Floats, Floats, Floats]:
    return np.zeros((0, 0, 0)), np.zeros((0, size)), np.zeros((0, 0)), np.zeros(0)
