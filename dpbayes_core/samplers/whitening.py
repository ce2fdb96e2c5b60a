"""How the chains' space is stretched: mode and curvature of a smoothed target.

Laplace noise is smoothed (pseudo-Huber) so that a mode and a curvature exist; the chains sample the true target.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.budget import MOST_OF_COUPLING, coupling
from dpbayes_core.samplers.climbing import climb
from dpbayes_core.samplers.coupling import climb_together
from dpbayes_core.samplers.curvature import Search
from dpbayes_core.samplers.flat import (
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
from dpbayes_core.samplers.linear_algebra import invert_lower

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST = 1500  # dimensions; beyond, the curvature costs more than it gives
ROUNDS = 100
ALONE = 3  # rounds where coupling is too dear to look for: steps without it gain little more


class Whitening(NamedTuple):
    """Where chains are centred and how they are stretched; see samplers/space.py."""

    centre: Floats
    starts: Integers
    stretch: Floats  # (blocks, size, size), each upper triangular
    lean: Floats
    along: Floats
    turn: Floats


def whiten(target: Target, start: Floats) -> Whitening:
    """One part's coordinates as one block, and several parts' as one each and what couples them."""
    parts = len(target.parts)
    starts = np.append(target.parts[:, OFFSET], start.size).astype(np.int64)
    widest = int(np.diff(starts).max())
    if widest > LARGEST:
        blocks = np.tile(np.eye(widest), (parts, 1, 1))
        return Whitening(start, starts, blocks, *_uncoupled(start.size))
    smoothed = _smoothed(target)
    if parts == 1:
        centre, curvature = climb(start, smoothed, work_for(target), ROUNDS)
        lower = np.zeros_like(curvature)
        invert_lower(curvature, lower, start.size)
        return Whitening(centre, starts, lower.T[None].copy(), *_uncoupled(start.size))
    together = coupling(start.size, len(target.response)) <= MOST_OF_COUPLING
    search = Search(smoothed, work_for(target), starts, together)
    centre, stretch = climb_together(start, search, ROUNDS if together else ALONE)
    return Whitening(centre, starts, stretch.blocks, stretch.lean, stretch.along, stretch.turn)


def _smoothed(target: Target) -> Target:
    parts = target.parts.copy()
    parts[parts[:, NOISE] == LAPLACE, NOISE] = SMOOTHED
    parts[parts[:, BENT] == KINKED, BENT] = STEADIED
    return target._replace(parts=parts)


def _uncoupled(size: int) -> tuple[Floats, Floats, Floats]:
    return np.zeros((0, 0, 0)), np.zeros((0, size)), np.zeros((0, 0))
