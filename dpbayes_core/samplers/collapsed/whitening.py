"""The linear map that whitens the chains' coordinates: mode and curvature of a smoothed target.

Laplace noise is smoothed (pseudo-Huber) so that a curvature exists; the chains sample the true target. A narrow prior
that contradicts the release may give two modes: for one part both are searched for and their masses compared.
"""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.linear_algebra import invert_lower
from dpbayes_core.samplers.collapsed.arrays import (
    CORRECTING,
    LAPLACE,
    NOISE,
    OFFSET,
    SMOOTHED,
    TRANSFORM,
    UNKINKING,
    Target,
    work_for,
)
from dpbayes_core.samplers.collapsed.curvature import Search
from dpbayes_core.samplers.collapsed.density import log_density
from dpbayes_core.samplers.collapsed.joint_mode import climb_coupled
from dpbayes_core.samplers.collapsed.newton import climb
from dpbayes_core.sampling.work_limits import MOST_OF_COUPLING, coupling

LARGEST = 1500  # dimensions; beyond, the curvature costs more than it saves
ROUNDS = 100
MOST_OF_SECOND = 500  # dimensions; beyond, the search for a second mode costs more than it saves
SECOND_ROUNDS = 30
CERTAIN = 10.0  # difference of the log weights, rough estimates, above which one mode surely dominates
FAR = 2.0  # least distance of a second mode from the first, in whitened units
UNCOUPLED_ROUNDS = 3  # rounds where coupling is too expensive to compute: later steps without it gain little


class Whitening(NamedTuple):
    """Centre and linear map of the chains' coordinates; see whitened_space.py."""

    centre: Floats
    starts: Integers
    stretch: Floats  # (blocks, size, size), each upper triangular
    cross: Floats
    directions: Floats
    scaling: Floats
    second: Floats  # a second mode that may matter, in standard numbers; empty without one


class Peak(NamedTuple):
    """A mode, the Cholesky factor of its curvature, and the approximate log of its probability mass."""

    position: Floats
    factor: Floats
    weight: float


def whiten(target: Target, start: Floats, unshrunk: Floats) -> Whitening:
    """The whitening of a target: a block for each part, and the directions that couple several parts.

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
    coupled = coupling(start.size, len(target.response)) <= MOST_OF_COUPLING
    search = Search(smoothed, work_for(target), starts, coupled)
    centre, stretch = climb_coupled(start, search, ROUNDS if coupled else UNCOUPLED_ROUNDS)
    return Whitening(centre, starts, stretch.blocks, stretch.cross, stretch.directions, stretch.scaling, np.zeros(0))


def _peaks(target: Target, start: Floats, unshrunk: Floats) -> tuple[Peak, Floats]:
    """The mode near `start`, or that near `unshrunk` if its mass is surely larger; and the other if it may matter."""
    first = _peak(target, start, ROUNDS)
    if start.size > MOST_OF_SECOND:
        return first, np.zeros(0)
    second = _peak(target, unshrunk, SECOND_ROUNDS)
    if not second.weight > first.weight - CERTAIN:
        return first, np.zeros(0)
    if second.weight > first.weight + CERTAIN:
        return second, np.zeros(0)
    away = np.sum(first.factor * (second.position - first.position)[:, None], axis=0)  # no LAPACK
    return first, away if np.sum(away**2) > FAR**2 * away.size else np.zeros(0)


def _peak(target: Target, start: Floats, rounds: int) -> Peak:
    position, factor = climb(start, target, work_for(target), rounds)
    value = log_density(position, target, work_for(target), np.zeros(start.size))
    return Peak(position, factor, value - float(np.sum(np.log(np.diag(factor)))))


def _smoothed(target: Target) -> Target:
    parts = target.parts.copy()
    parts[parts[:, NOISE] == LAPLACE, NOISE] = SMOOTHED
    parts[parts[:, TRANSFORM] == UNKINKING, TRANSFORM] = CORRECTING
    return target._replace(parts=parts)


def _uncoupled(size: int) -> tuple[Floats, Floats, Floats, Floats]:
    return np.zeros((0, 0, 0)), np.zeros((0, size)), np.zeros((0, 0)), np.zeros(0)
