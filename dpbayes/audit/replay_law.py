"""Whether two sets of draws are of one joint law, as far as Monte Carlo error tells: whoever made the first may lie."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats

Draws = Mapping[str, Floats]

LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)  # the ends of what is published, and what lies between
MOST_APART = 5.0  # standard errors, where a few are compared
CHANCE = 1e-4  # that draws of the same law are refused, where many are
MOST_PAIRS = 300  # of parameters: those whose correlations are furthest apart
DIRECTIONS = 32  # in which the joint law is looked at


class Distance(NamedTuple):
    """What is furthest apart, of which parameter, in standard errors of what was drawn again, and what is too far."""

    what: str
    name: str
    apart: float
    limit: float


class _Side(NamedTuple):
    """What is compared, as it was stored and as it was drawn again: a function of one draw, along the chains."""

    what: str
    name: str
    stored: Floats
    again: Floats
    share: bool = False


def farthest(stored: Draws, again: Draws) -> Distance:
    """Of means, spreads, quantiles, correlations and mixtures of the parameters, what is furthest apart."""
    names = list(again)
    one, other = _scaled([stored[each] for each in names], [again[each] for each in names])
    count = len(names) * (2 + len(LEVELS)) + len(names) * (len(names) - 1) // 2 + DIRECTIONS * len(LEVELS)
    limit = max(MOST_APART, _normal_limit(CHANCE / count))
    if not np.isfinite(one).all():
        return Distance("numbers", names[int(np.argmin(np.isfinite(one).all(axis=(1, 2))))], math.inf, limit)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that nobody drew
        worst = max(_each(names, one, other), key=lambda each: each[0])
    return Distance(worst[2], worst[1], worst[0], limit)


def effective(again: Draws) -> float:
    """How many independent draws the parameter that mixed worst is worth: how exact the comparison is."""
    return min(_effective(values) or 1.0 for values in again.values())


def _scaled(stored: Sequence[Floats], again: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Both in units of what was drawn again, of shape (parameters, chains, draws)."""
    other, one = np.stack(again), np.stack(stored)
    middle, spread = other.mean(axis=(1, 2), keepdims=True), other.std(axis=(1, 2), keepdims=True)
    unit = np.where(spread > 0, spread, 1.0)
    return (one - middle) / unit, (other - middle) / unit


def _each(names: Sequence[str], one: Floats, other: Floats) -> Iterator[tuple[float, str, str]]:
    for side in (*_alone(names, one, other), *_pairs(names, one, other), *_mixed(names, one, other)):
        yield _apart(side), side.name, side.what


def _alone(names: Sequence[str], one: Floats, other: Floats) -> Iterator[_Side]:
    """Each parameter by itself."""
    for name, mine, due in zip(names, one, other, strict=True):
        yield _Side("mean", name, mine, due)
        yield _Side("spread", name, mine**2, due**2)
        yield from _shares(name, mine, due)


def _shares(name: str, mine: Floats, due: Floats, of: str = "draws") -> Iterator[_Side]:
    """How many lie below the quantiles of what was drawn again."""
    for level, at in zip(LEVELS, np.quantile(due, LEVELS), strict=True):
        below = (mine <= at).astype(np.float64), (due <= at).astype(np.float64)
        yield _Side(f"share of {of} below its {100 * level:g}% quantile", name, *below, share=True)


def _pairs(names: Sequence[str], one: Floats, other: Floats) -> Iterator[_Side]:
    """Two parameters at a time: every pair where there are few, else those that look furthest apart."""
    flat, due = one.reshape(len(names), -1), other.reshape(len(names), -1)
    rows, columns = np.triu_indices(len(names), 1)
    gaps = np.abs(flat @ flat.T / flat.shape[1] - due @ due.T / due.shape[1])[rows, columns]
    for at in np.argsort(-gaps, kind="stable")[:MOST_PAIRS].tolist():
        i, j = int(rows[at]), int(columns[at])
        yield _Side(f"correlation with {names[j]}", names[i], one[i] * one[j], other[i] * other[j])


def _mixed(names: Sequence[str], one: Floats, other: Floats) -> Iterator[_Side]:
    """Sums of all parameters, weighted as the stored draws decide: a forger cannot know the weights beforehand."""
    if len(names) == 1:
        return
    seed = int.from_bytes(hashlib.sha256(np.ascontiguousarray(one).tobytes()).digest())
    for weights in np.random.default_rng(seed).standard_normal((DIRECTIONS, len(names))):
        mine, due = np.tensordot(weights, one, axes=1), np.tensordot(weights, other, axes=1)
        yield from _shares("a mixture of all parameters", mine, due)


def _apart(side: _Side) -> float:
    """How many standard errors lie between two means, by what is drawn today: what is stored may be anybody's."""
    mine, due, more = float(side.stored.mean()), float(side.again.mean()), side.again.size / side.stored.size
    worth, variance = _effective(side.again), float(side.again.var(ddof=1))
    if side.share:  # the two together tell best what a rare share varies by
        both = (mine * side.stored.size + due * side.again.size) / (side.stored.size + side.again.size)
        worth, variance = worth or float(side.again.size), both * (1.0 - both)
    room = variance / (worth or 1.0) * (1.0 + more)
    found = abs(mine - due) / max(math.sqrt(room), np.finfo(float).tiny)
    return found if math.isfinite(found) else math.inf


def _effective(values: Floats) -> float | None:
    """How many independent draws these are worth, at most as many as there are; None where all are the same."""
    from arviz_stats.base.array import array_stats

    if np.ptp(values) == 0:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        found = float(array_stats.ess(values[None], method="mean")[0])
    return min(max(found, 1.0), float(values.size)) if math.isfinite(found) else 1.0


def _normal_limit(chance: float) -> float:
    """How many standard errors a normal deviate exceeds, to either side, with this chance."""
    from scipy.special import ndtri

    return float(-ndtri(chance / 2.0))
