"""How the chains' space is stretched: mode and curvature of a smoothed target.

Laplace noise is smoothed (pseudo-Huber) so that a mode and a curvature exist; the chains sample the true target.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.budget import JOINTLY
from dpbayes_core.samplers.climbing import climb
from dpbayes_core.samplers.flat import (
    BENT,
    LAPLACE,
    NOISE,
    OFFSET,
    SMOOTHED,
    Target,
    work_for,
)
from dpbayes_core.samplers.linear_algebra import invert_lower

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FLOOR = 0.1  # smallest curvature believed, where the reference makes 1 the natural scale
LARGEST = 1500  # dimensions; beyond, the curvature costs more than it gives
ROUNDS = 100


class Whitening(NamedTuple):
    """Coordinates = centre + stretch @ u block by block, with u about standard normal."""

    centre: Floats
    starts: Integers  # where each block starts, and where the last one ends
    stretch: Floats  # (blocks, size, size), each upper triangular


def whiten(target: Target, alone: list[Target | None], start: Floats) -> Whitening:
    """All coordinates as one block, or each part by its own target (`alone`) where that would be too many."""
    if len(alone) == 1 or start.size <= JOINTLY:
        centre, lower = _peak(target, start)
        return Whitening(centre, np.array([0, start.size]), lower.T[None].copy())
    starts = np.append(target.parts[:, OFFSET], start.size).astype(np.int64)
    stretch, centre = np.zeros((len(alone), *[np.diff(starts).max()] * 2)), start.copy()
    for place, own in enumerate(alone):
        inside = slice(starts[place], starts[place + 1])
        lower = np.eye(inside.stop - inside.start)
        if own is not None:
            centre[inside], lower = _peak(own, start[inside])
        stretch[place, : len(lower), : len(lower)] = lower.T
    return Whitening(centre, starts, stretch)


def _peak(target: Target, start: Floats) -> tuple[Floats, Floats]:
    """The mode of the smoothed target, and the inverse of the Cholesky factor of its curvature."""
    if start.size > LARGEST:
        return start, np.eye(start.size)
    parts = target.parts.copy()
    parts[parts[:, NOISE] == LAPLACE, NOISE] = SMOOTHED
    parts[:, BENT] = 0.0
    centre, curvature = climb(start, target._replace(parts=parts), work_for(target), FLOOR, ROUNDS)
    lower = np.zeros_like(curvature)
    invert_lower(curvature, lower, start.size)
    return centre, lower
