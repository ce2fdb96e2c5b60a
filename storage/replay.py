"""Draw a posterior again from what its crate holds, and compare: bit for bit, or within Monte Carlo error."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.errors import DpbayesError
from storage.codecs import read_draws
from storage.crate_limits import refuse_request
from storage.crate_posterior import DRAWS, RECORD
from storage.crate_sources import evidence_of, sources_of
from storage.ledger.check import Check
from storage.ledger.history import MALFORMED

Floats = NDArray[np.float64]
REPLAYED = "the draws are those of a replay"
NOTHING_DRAWN = "nothing to replay: no analysis lies here"
MOST_APART = 5.0  # standard errors between two means, or mean squares, of one parameter
SAME = "the same, bit for bit"


def replayed(files: Mapping[str, bytes], path: str = "") -> Check:
    """Whether the same request gives the same draws, if any were made; `path` says which crate of several it is."""
    ok, detail = _compared(files) if files.keys() & {RECORD, DRAWS} else (True, NOTHING_DRAWN)
    return Check(REPLAYED, ok, f"{path}: {detail}" if path else detail)


def exactly(check: Check) -> bool:
    """Whether a replay gave the very draws, and not only draws that are like them."""
    return check.ok and check.detail.endswith(SAME)


def _compared(files: Mapping[str, bytes]) -> tuple[bool, str]:
    try:
        refuse_request(files)
        read, request = read_draws(files[DRAWS]), json.loads(files[RECORD])["request"]
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
        return True, "the same, bit for bit"
    far = {each: max(_apart(*pair) for pair in _moments(values, again[each])) for each, values in stored.items()}
    worst = max(far, key=lambda each: far[each])
    if far[worst] <= MOST_APART:
        return True, "not bit for bit, as on another processor or version; the same within Monte Carlo error"
    return False, f"{worst} is {far[worst]:.0f} standard errors away from what is drawn today"


def prior_of(evidence: Any, record: Mapping[str, Any]) -> Any:
    """The prior that a record describes."""
    return _PRIORS[evidence.kind](evidence, record)


def _drawn(files: Mapping[str, bytes]) -> Mapping[str, Floats]:
    from dpbayes_core.samplers.driver import sample

    request: Mapping[str, Any] = json.loads(files[RECORD])["request"]
    evidence = evidence_of([source.entry for source in sources_of(files)])
    return sample(
        evidence,
        prior_of(evidence, request["prior"]),
        sampler=request["sampler"],
        chains=request["chains"],
        draws=request["draws"],
        seed=request["seed"],
    ).draws


def _moments(one: Floats, other: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """What is compared: the values, and their squares around one middle."""
    middle = one.mean()
    return (one, other), ((one - middle) ** 2, (other - middle) ** 2)


def _apart(one: Floats, other: Floats) -> float:
    """How many standard errors two sets of draws have between their means."""
    from dpbayes_core.diagnostics import diagnose

    room = 0.0
    for values in (one, other):
        found = float(diagnose(("parameter",), values[None]).ess_bulk[0])
        room += values.var(ddof=1) / max(found, 1.0) if math.isfinite(found) else values.var(ddof=1)
    return abs(float(one.mean() - other.mean())) / max(math.sqrt(room), np.finfo(float).tiny)


def _regression(evidence: Any, record: Mapping[str, Any]) -> Any:
    from dpbayes_core.priors import Prior

    return Prior.from_record(record)


def _network(evidence: Any, record: Mapping[str, Any]) -> Any:
    from dpbayes_core.networks.posterior.prior import NetworkPrior

    return NetworkPrior.from_record(record)


def _of_the_release(evidence: Any, record: Mapping[str, Any]) -> Any:
    return evidence.terms.prior


_PRIORS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "regression": _regression,
    "bayes-net": _network,
    "posterior-probability": _of_the_release,
    "posterior-quantile": _of_the_release,
    "ridge": _regression,
}
