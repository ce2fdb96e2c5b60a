"""Draw a posterior again from what its crate holds, and compare: bit for bit, or within Monte Carlo error."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbayes.crates.analysis_request import AnalysisRequest
from dpbayes.crates.contained_releases import evidence_of, sources_of
from dpbayes.crates.limits import refuse_request
from dpbayes.crates.parquet import read_draws
from dpbayes.crates.posterior import DRAWS, recorded
from dpbayes.kinds.registry import KINDS
from dpbayes_core.arrays import Floats
from dpbayes_core.errors import DpbayesError
from storage.files.archive_paths import POSTERIOR
from storage.ledger.check import Check
from storage.ledger.history import MALFORMED

REPLAYED = "the draws are those of a replay"
NOTHING_DRAWN = "nothing to replay: no analysis lies here"
SAME = "the same, bit for bit"
WITHIN_ERROR = (
    "not bit for bit, as on another processor or version; within Monte Carlo error of a replay: its means, intervals "
    "and correlations"
)
MOST_FEWER = 16  # times: what an analysis may double its draws to, where chains mix badly on one processor only


def replayed(files: Mapping[str, bytes], path: str = "") -> Check:
    """Whether the same request gives the same draws, if any were made; `path` says which crate of several it is."""
    ok, detail = _compared(files) if files.keys() & {POSTERIOR, DRAWS} else (True, NOTHING_DRAWN)
    return Check(REPLAYED, ok, f"{path}: {detail}" if path else detail)


def exactly(check: Check) -> bool:
    """Whether a replay gave the very draws, and not only draws that are like them."""
    return check.ok and check.detail.endswith(SAME)


def _compared(files: Mapping[str, bytes]) -> tuple[bool, str]:
    try:
        refuse_request(files)
        read, request = read_draws(files[DRAWS]), recorded(files)["request"]
        stored = {each: np.asarray(values, dtype=np.float64) for each, values in read.items()}
        if any(values.size < request["chains"] * request["draws"] for values in stored.values()):
            return False, "it holds far fewer draws than it asks for"  # which nobody need draw, to say so
        again = _drawn(files)
    except (*MALFORMED, RecursionError) as failure:
        words = str(failure) if isinstance(failure, DpbayesError) else "it does not hold what a replay needs"
        return False, f"cannot be drawn again: {words}"
    if stored.keys() != again.keys():
        return False, "other parameters are drawn today"
    if all(np.array_equal(values, again[each]) for each, values in stored.items()):
        return True, SAME
    if any(values.size < again[each].size / MOST_FEWER for each, values in stored.items()):
        return False, "it holds far fewer draws than are drawn today"
    far = farthest(stored, again)
    if far.apart <= far.limit:
        return True, f"{WITHIN_ERROR}, which is worth {effective(again):.0f} independent draws"
    return False, f"{far.name} is {far.apart:.0f} standard errors away from what is drawn today, by its {far.what}"


def prior_of(evidence: Any, record: Mapping[str, Any]) -> Any:
    """The prior that a record describes."""
    taken = KINDS[evidence.kind].prior
    if taken is None:
        raise KeyError(evidence.kind)
    return taken.from_record(evidence, record)


def _drawn(files: Mapping[str, bytes]) -> Mapping[str, Floats]:
    from dpbayes_core.samplers.driver import sample

    request: Mapping[str, Any] = recorded(files)["request"]
    alike = AnalysisRequest(**request).alike
    evidence = evidence_of([source.entry for source in sources_of(files)], alike=alike)
    return sample(
        evidence,
        prior_of(evidence, request["prior"]),
        sampler=request["sampler"],
        chains=request["chains"],
        draws=request["draws"],
        seed=request["seed"],
    ).draws


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
