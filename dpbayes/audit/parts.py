"""The check that a posterior reads several releases as was asked, and notices of posteriors drawn otherwise today."""

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


def read_as_asked(files: Files) -> Problem:
    """Whether the law of the parts is the one asked for, and the alarm against a declared one that of the releases."""
    record = recorded(files)
    stated, request = record.get("parts"), AnalysisRequest(**record["request"])
    if stated is None:  # of one release, or of a version before there was a choice
        return None if request.parts is None else OTHERWISE
    evidence = evidence_of([source.entry for source in sources_of(files)])
    whole = makes_the_same(json.loads(files[SOFTWARE]))
    earlier = not whole and _earlier(stated.get("spread"))  # this program sees more: it may not say less
    due = parts_record(evidence, request, declared=stated["declared"], earlier=earlier)
    if due is None or due["law"] != stated["law"] or stated["declared"] not in (True, False):
        return OTHERWISE
    same = all(_same(stated.get(name), due.get(name), whole=whole) for name in ("check", "spread"))
    return None if same else TRIED


def _earlier(spread: Record | None) -> bool:
    """Whether a check of residual sds is of a version that took of residuals only that they are bounded."""
    return spread is not None and "kurtosis" not in spread


def _same(stated: Record | None, due: Record | None, *, whole: bool) -> bool:
    """Whether the numbers are those of the releases, and the sentences where the same program wrote them."""
    if stated is None or due is None:
        return stated is None and due is None
    numbers = [[float(one[name]) for name in ("probability", "statistic")] for one in (stated, due)]
    near = all(stated.get(name) == due.get(name) for name in ("alarm", "kurtosis"))
    near = near and np.allclose(*numbers, rtol=NEAR, atol=0)
    return near and (not whole or stated["words"] == due["words"])


def superseded_in(archive: Archive, crates: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """A notice of every posterior in an archive that is drawn otherwise today, and of what stands in its place."""
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
    """The same of one crate that came alone."""
    with suppress(*MALFORMED, RecursionError):
        if POSTERIOR in files and (reason := superseded(recorded(files))):
            return (_notice(place, reason, None),)
    return ()


def _replaces(other: Record, record: Record) -> bool:
    """Whether it is the same analysis of the same releases, drawn as today."""
    names = ("study", "period", "analysis", "releases")
    return superseded(other) is None and all(other.get(name) == record[name] for name in names)


def _notice(crate: str, reason: str, instead: str | None) -> dict[str, Any]:
    """In words, and for programs; nothing was altered, so that no check fails."""
    instead_words = f"{instead} stands in its place." if instead else "`dpbayes analyse` draws it anew."
    return {
        "said": f"{crate} is superseded: {reason}. {instead_words}",
        "status": "superseded",
        "crate": crate,
        "reason": reason,
        "instead": instead,
    }
