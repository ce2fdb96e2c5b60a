"""Draw a posterior again from what its crate holds, and compare: bit for bit, or within Monte Carlo error."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbayes.audit.replay_law import effective, farthest
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
