"""Checks that a posterior combines releases as requested, and lists posteriors drawn by another method today."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from dpbayes.crates.analysis_request import AnalysisRequest
from dpbayes.crates.contained_releases import evidence_of, sources_of
from dpbayes.crates.format import Files
from dpbayes.crates.own_source import makes_the_same
from dpbayes.crates.posterior import recorded
from dpbayes.crates.release import SOFTWARE
from dpbayes.kinds.regression.pooled_parts import parts_record, superseded
from storage.files.archive import Archive
from storage.files.archive_paths import POSTERIOR
from storage.ledger.check import Problem
from storage.ledger.history import MALFORMED

Record = Mapping[str, Any]

READ = "several releases are read as asked"
NEAR = 1e-6  # of a probability and its statistic, relatively
OTHERWISE = f"{POSTERIOR} says otherwise how its releases are read than what was asked"
TRIED = f"{POSTERIOR} says otherwise than its releases whether they contradict how they are read"


def read_as_requested(files: Files) -> Problem:
    """Check that releases are combined by the requested law, and that an alarm against a declared law is theirs."""
    record = recorded(files)
    stated, request = record.get("parts"), AnalysisRequest(**record["request"])
    if stated is None:  # of one release, or of a version without the choice
        return None if request.parts is None else OTHERWISE
    evidence = evidence_of([source.entry for source in sources_of(files)])
    same_program = makes_the_same(json.loads(files[SOFTWARE]))
    # this version checks more, and its records may not state less
    earlier = not same_program and _earlier(stated.get("spread"))
    due = parts_record(evidence, request, declared=stated["declared"], earlier=earlier)
    if due is None or due["law"] != stated["law"] or stated["declared"] not in (True, False):
        return OTHERWISE
    same = all(_same(stated.get(name), due.get(name), same_program=same_program) for name in ("check", "spread"))
    return None if same else TRIED


def _earlier(spread: Record | None) -> bool:
    """Whether a check of residual sds is of a version that assumed only that residuals are bounded."""
    return spread is not None and "kurtosis" not in spread


def _same(stated: Record | None, due: Record | None, *, same_program: bool) -> bool:
    """Whether the numbers are those of the releases, and also the sentences if the same program wrote them."""
    if stated is None or due is None:
        return stated is None and due is None
    numbers = [[float(one[name]) for name in ("probability", "statistic")] for one in (stated, due)]
    near = all(stated.get(name) == due.get(name) for name in ("alarm", "kurtosis"))
    near = near and np.allclose(*numbers, rtol=NEAR, atol=0)
    return near and (not same_program or stated["words"] == due["words"])


def superseded_in(archive: Archive, crates: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """A notice for every posterior in an archive that is drawn by another method today, with its replacement."""
    records: dict[str, Record] = {}
    for crate in crates:
        with suppress(*MALFORMED, RecursionError):
            records[crate] = json.loads(archive.read(f"{crate}/{POSTERIOR}"))
    found: list[dict[str, Any]] = []
    for crate, record in records.items():
        with suppress(*MALFORMED):
            if reason := superseded(record):
                others = [name for name, other in records.items() if _replaces(other, record)]
                found.append(_notice(crate, reason, sorted(others)[-1] if others else None))
    return tuple(found)


def superseded_alone(files: Files, place: str) -> tuple[dict[str, Any], ...]:
    """The same for one crate by itself."""
    with suppress(*MALFORMED, RecursionError):
        if POSTERIOR in files and (reason := superseded(recorded(files))):
            return (_notice(place, reason, None),)
    return ()


def _replaces(other: Record, record: Record) -> bool:
    """Whether it is the same analysis of the same releases, drawn as today."""
    names = ("study", "period", "analysis", "releases")
    return superseded(other) is None and all(other.get(name) == record[name] for name in names)


def _notice(crate: str, reason: str, instead: str | None) -> dict[str, Any]:
    """The notice in words and as data; no check fails, because nothing was altered."""
    instead_words = f"{instead} stands in its place." if instead else "`dpbayes analyse` draws it anew."
    return {
        "said": f"{crate} is superseded: {reason}. {instead_words}",
        "status": "superseded",
        "crate": crate,
        "reason": reason,
        "instead": instead,
    }
