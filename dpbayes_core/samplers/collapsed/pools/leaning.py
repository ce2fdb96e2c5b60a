"""A number that leans on a release and on a prior: told in standard units of what both say of it.

Where noise around `hat` has precision `known`, and the prior is normal about `centre` with sd `spread`, the number is
normal given both, and its coordinate u is standard normal: well known it is told by itself, drowned in noise by its
prior, and in between no coordinate narrows as `spread` does. Any hat and precision are exact: they only move u.
"""

from math import log, sqrt
from typing import NamedTuple

from dpbayes_core.compiled import inlined


class Lean(NamedTuple):
    """What a number leans on."""

    hat: float
    known: float  # precision of the noise around it
    centre: float
    spread: float


@inlined
def lean(on: Lean, u: float) -> tuple[float, float]:
    """The number at u, and the log Jacobian."""
    weight = 1.0 / (on.spread * on.spread)
    square = 1.0 / (on.known + weight)
    return square * (on.known * on.hat + weight * on.centre) + sqrt(square) * u, 0.5 * log(square)


@inlined
def lean_slopes(on: Lean, u: float, bar: float) -> tuple[float, float, float]:
    """Derivatives in u, the centre and the log spread, given the one in the number; the log Jacobian's included."""
    weight = 1.0 / (on.spread * on.spread)
    square = 1.0 / (on.known + weight)
    share, root = weight * square, sqrt(square)
    shift = square * on.known * (on.hat - on.centre)
    return bar * root, bar * share, bar * share * (2.0 * shift + root * u) + share
