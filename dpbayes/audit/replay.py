"""Draws a posterior again from its crate, and compares: bit for bit, or within Monte Carlo error."""

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
MOST_FEWER = 16  # the factor by which draws may have been doubled, if chains mix badly on one processor only


def replayed(files: Mapping[str, bytes], path: str = "") -> Check:
    """Whether the same request gives the same draws, if any were made; `path` says which crate of several it is."""
    ok, detail = _compared(files) if files.keys() & {POSTERIOR, DRAWS} else (True, NOTHING_DRAWN)
    return Check(REPLAYED, ok, f"{path}: {detail}" if path else detail)


def exactly(check: Check) -> bool:
    """Whether a replay gave the same draws, bit for bit."""
    return check.ok and check.detail.endswith(SAME)


def _compared(files: Mapping[str, bytes]) -> tuple[bool, str]:
    try:
        refuse_request(files)
        read, request = read_draws(files[DRAWS]), recorded(files)["request"]
        stored = {each: np.asarray(values, dtype=np.float64) for each, values in read.items()}
        if any(values.size < request["chains"] * request["draws"] for values in stored.values()):
            return False, "it holds far fewer draws than it asks for"  # seen without a replay
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
    if far.deviation <= far.limit:
        return True, f"{WITHIN_ERROR}, which is worth {effective(again):.0f} independent draws"
    return False, f"{far.name} is {far.deviation:.0f} standard errors away from what is drawn today, by its {far.what}"


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

LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)  # the ends of published intervals, and levels between
LEAST_LIMIT = 5.0  # standard errors, at least
CHANCE = 1e-4  # the probability, over all comparisons, that draws of the same law are refused
MOST_PAIRS = 300  # of parameters: those whose correlations differ most
DIRECTIONS = 32  # in which the joint law is compared


class Distance(NamedTuple):
    """The largest difference: of what, of which parameter, in standard errors of the new draws, and its limit."""

    what: str
    name: str
    deviation: float
    limit: float


class _Quantity(NamedTuple):
    """One quantity to compare: a function of each draw, of shape (chains, draws), for stored and new draws."""

    what: str
    name: str
    stored: Floats
    again: Floats
    share: bool = False


def farthest(stored: Draws, again: Draws) -> Distance:
    """The largest difference of means, spreads, quantiles, correlations and mixtures of the parameters."""
    names = list(again)
    one, other = _scaled([stored[each] for each in names], [again[each] for each in names])
    count = len(names) * (2 + len(LEVELS)) + len(names) * (len(names) - 1) // 2 + DIRECTIONS * len(LEVELS)
    limit = max(LEAST_LIMIT, _normal_limit(CHANCE / count))
    if not np.isfinite(one).all():
        return Distance("numbers", names[int(np.argmin(np.isfinite(one).all(axis=(1, 2))))], math.inf, limit)
    with np.errstate(over="ignore", invalid="ignore"):  # stored numbers may be anything
        worst = max(_deviations(names, one, other), key=lambda each: each[0])
    return Distance(worst[2], worst[1], worst[0], limit)


def effective(again: Draws) -> float:
    """The least effective sample size of any parameter, which says how exact the comparison is."""
    return min(_effective(values) or 1.0 for values in again.values())


def _scaled(stored: Sequence[Floats], again: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Both in units of the new draws, of shape (parameters, chains, draws)."""
    other, one = np.stack(again), np.stack(stored)
    middle, spread = other.mean(axis=(1, 2), keepdims=True), other.std(axis=(1, 2), keepdims=True)
    unit = np.where(spread > 0, spread, 1.0)
    return (one - middle) / unit, (other - middle) / unit


def _deviations(names: Sequence[str], one: Floats, other: Floats) -> Iterator[tuple[float, str, str]]:
    for quantity in (*_single(names, one, other), *_pairs(names, one, other), *_mixed(names, one, other)):
        yield _deviation(quantity), quantity.name, quantity.what


def _single(names: Sequence[str], one: Floats, other: Floats) -> Iterator[_Quantity]:
    """Each parameter by itself."""
    for name, mine, due in zip(names, one, other, strict=True):
        yield _Quantity("mean", name, mine, due)
        yield _Quantity("spread", name, mine**2, due**2)
        yield from _shares(name, mine, due)


def _shares(name: str, mine: Floats, due: Floats, of: str = "draws") -> Iterator[_Quantity]:
    """The shares of draws below quantiles of the new draws."""
    for level, at in zip(LEVELS, np.quantile(due, LEVELS), strict=True):
        below = (mine <= at).astype(np.float64), (due <= at).astype(np.float64)
        yield _Quantity(f"share of {of} below its {100 * level:g}% quantile", name, *below, share=True)


def _pairs(names: Sequence[str], one: Floats, other: Floats) -> Iterator[_Quantity]:
    """Products of two parameters: every pair if there are few, else those that differ most."""
    flat, due = one.reshape(len(names), -1), other.reshape(len(names), -1)
    rows, columns = np.triu_indices(len(names), 1)
    gaps = np.abs(flat @ flat.T / flat.shape[1] - due @ due.T / due.shape[1])[rows, columns]
    for at in np.argsort(-gaps, kind="stable")[:MOST_PAIRS].tolist():
        i, j = int(rows[at]), int(columns[at])
        yield _Quantity(f"correlation with {names[j]}", names[i], one[i] * one[j], other[i] * other[j])


def _mixed(names: Sequence[str], one: Floats, other: Floats) -> Iterator[_Quantity]:
    """Sums of all parameters with weights drawn from the stored draws' digest, which a forger cannot foresee."""
    if len(names) == 1:
        return
    seed = int.from_bytes(hashlib.sha256(np.ascontiguousarray(one).tobytes()).digest())
    for weights in np.random.default_rng(seed).standard_normal((DIRECTIONS, len(names))):
        mine, due = np.tensordot(weights, one, axes=1), np.tensordot(weights, other, axes=1)
        yield from _shares("a mixture of all parameters", mine, due)


def _deviation(quantity: _Quantity) -> float:
    """The difference of two means in standard errors of the new draws, since stored ones may be forged."""
    mine, due, more = (
        float(quantity.stored.mean()),
        float(quantity.again.mean()),
        quantity.again.size / quantity.stored.size,
    )
    worth, variance = _effective(quantity.again), float(quantity.again.var(ddof=1))
    if quantity.share:  # both together estimate the variance of a rare share best
        both = (mine * quantity.stored.size + due * quantity.again.size) / (quantity.stored.size + quantity.again.size)
        worth, variance = worth or float(quantity.again.size), both * (1.0 - both)
    squared_error = variance / (worth or 1.0) * (1.0 + more)
    found = abs(mine - due) / max(math.sqrt(squared_error), np.finfo(float).tiny)
    return found if math.isfinite(found) else math.inf


def _effective(values: Floats) -> float | None:
    """The effective sample size, at most the number of draws; None if all are equal."""
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
