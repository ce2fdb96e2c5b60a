"""What an auditor asks of one crate, offline: is every byte signed for, and does every part follow from the entry."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dpbayes_core.canonical import canonical_json
from dpbayes_core.design import AnyRelease
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.releases import release_from_record
from storage import crate_posterior, crate_release
from storage.codecs import read_draws, read_noisy
from storage.crate_release import ENTRY, NOISY, entry_of, release_record
from storage.crates import ATTESTATION, PUBLIC_KEY, crate_digest
from storage.ledger.check import Check
from storage.ledger.history import MALFORMED
from storage.signatures import STATEMENT_TYPE, read_public_key, verify_stored
from storage.tellings.registry import telling_of

Files = Mapping[str, bytes]
Problem = str | None
SHOWN = 5
SLACK = 1e-9  # relative; another processor may add the draws in another order
SIGNED = "every file is signed for"


def check_crate(files: Files, trusted: Mapping[str, bytes]) -> list[Check]:
    """Every check of a crate of either kind; `trusted` maps fingerprints to public keys."""
    found = problems(files, trusted)
    return [Check(name, problem is None, problem or "as written") for name, problem in found.items()]


def check_lone_crate(files: Files, fingerprints: Collection[str]) -> list[Check]:
    """The same with nothing at hand but the crate and the fingerprints that the auditor trusts."""
    wanted = {f"SHA256:{each.strip().removeprefix('SHA256:').lower()}" for each in fingerprints}
    problem: Problem = None
    trusted: dict[str, bytes] = {}
    try:
        fingerprint, key = read_public_key(files.get(PUBLIC_KEY, b""))
        trusted = {fingerprint: key} if fingerprint in wanted else {}
        problem = None if trusted else f"{PUBLIC_KEY} is the key {fingerprint}, which is none of those trusted"
    except IntegrityFailure:
        problem = f"{PUBLIC_KEY} is missing or holds no key"
    key_check = Check("the key is trusted", problem is None, problem or "it has a trusted fingerprint")
    return [key_check, *check_crate(files, trusted)]


def problems(files: Files, trusted: Mapping[str, bytes]) -> dict[str, Problem]:
    """What is wrong with a crate, check by check; None where nothing is."""
    found: dict[str, Problem] = {SIGNED: _asked(lambda files: _signed(files, trusted), files)}
    asked = {**CHECKS, **POSTERIOR_CHECKS} if crate_posterior.RECORD in files else CHECKS
    return found | {name: _asked(question, files) for name, question in asked.items()}


def _asked(question: Callable[[Files], Problem], files: Files) -> Problem:
    try:
        return question(files)
    except IntegrityFailure as failure:
        return str(failure)
    except (*MALFORMED, RecursionError) as failure:
        name = failure.args[0] if isinstance(failure, KeyError) and failure.args[0] in KNOWN else None
        return f"{name} is missing" if name else "it lacks what this check needs, or holds something else there"


def _signed(files: Files, trusted: Mapping[str, bytes]) -> Problem:
    """The statement is genuine, of this kind of crate, and names exactly these files with their bytes."""
    if ATTESTATION not in files:
        return f"{ATTESTATION} is missing"
    payload = verify_stored(files[ATTESTATION], trusted, payload_type=STATEMENT_TYPE, thing=ATTESTATION)
    stated: dict[str, Any] = json.loads(payload)
    subjects = {each["name"]: each["digest"]["sha256"] for each in stated["subject"]}
    present = {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != ATTESTATION}
    found = [f"{name} is missing" for name in sorted(subjects.keys() - present.keys())]
    found += [f"{name} was added" for name in sorted(present.keys() - subjects.keys())]
    found += [
        f"{name} was altered" for name in sorted(subjects.keys() & present.keys()) if subjects[name] != present[name]
    ]
    return listed(found) or _predicate(files, stated)


def _predicate(files: Files, stated: Mapping[str, Any]) -> Problem:
    """What the statement says of the crate is what its files say."""
    is_posterior = crate_posterior.RECORD in files
    entry = entry_of(files)
    due: dict[str, Any] = {
        "crate": crate_digest(files),
        "ledger": {"hash": entry.hash, "seq": entry.seq},
        "release": entry.payload["digest"],
    }
    if is_posterior:
        due["analysis"] = json.loads(files[crate_posterior.RECORD])["key"]
    kind = crate_posterior.PREDICATE if is_posterior else crate_release.PREDICATE
    same = stated["predicate"] == due and stated["predicateType"] == kind
    return None if same else f"{ATTESTATION} speaks of another crate"


def _entry(files: Files) -> Problem:
    entry = entry_of(files)
    if canonical_json(entry.to_record()) != files[ENTRY]:
        return f"{ENTRY} is not written as the ledger writes entries"
    if entry.computed_hash != entry.hash:
        return f"{ENTRY} does not have the hash of its contents"
    return None


def _release(files: Files) -> Problem:
    record = json.loads(files[crate_release.RECORD])
    if record["schema_version"] != crate_release.SCHEMA_VERSION:
        return f"{crate_release.RECORD} has a schema version that this program does not read"
    due = canonical_json(release_record(entry_of(files).to_record()))
    return None if files[crate_release.RECORD] == due else f"{crate_release.RECORD} is not the entry's release"


def _noisy(files: Files) -> Problem:
    """Compared as numbers, so that another version of the Parquet writer does not fail an old crate."""
    release = _read(entry_of(files).release or b"")
    due = telling_of(release).lines(release)
    return None if read_noisy(files[NOISY]) == due else f"{NOISY} is not the entry's release"


@lru_cache(maxsize=64)
def _read(release: bytes) -> AnyRelease:
    """Kept, for a release is read again with every posterior drawn from it, and its loss is slow to work out."""
    return release_from_record(json.loads(release))


def _posterior(files: Files) -> Problem:
    record = json.loads(files[crate_posterior.RECORD])
    if record["schema_version"] != crate_posterior.SCHEMA_VERSION:
        return f"{crate_posterior.RECORD} has a schema version that this program does not read"
    entry = entry_of(files).to_record()
    request = crate_posterior.AnalysisRequest(**record["request"])
    tied = (
        record["release"] == crate_posterior.release_link(entry)
        and record["key"] == crate_posterior.analysis_key(entry["payload"]["digest"], request)
        and all(record[name] == record["request"][name] for name in ("study", "period", "analysis"))
    )
    return None if tied else f"{crate_posterior.RECORD} is of another release or request"


def _summary(files: Files) -> Problem:
    """Moments and intervals are those of the draws."""
    record = json.loads(files[crate_posterior.RECORD])
    draws = read_draws(files[crate_posterior.DRAWS])
    shape = (record["diagnostics"]["chains"], record["diagnostics"]["draws"])
    lines = {line["name"]: line for line in record["coefficients"]}
    if lines.keys() != draws.keys() or any(values.shape != shape for values in draws.values()):
        return f"{crate_posterior.DRAWS} does not hold the draws of {crate_posterior.RECORD}"
    for name, values in draws.items():
        low, high = np.quantile(values, (0.025, 0.975))
        due = {"mean": values.mean(), "sd": values.std(ddof=1), "q025": low, "q975": high}
        room = SLACK * (abs(due["mean"]) + due["sd"])
        if not all(abs(float(lines[name][key]) - value) <= room for key, value in due.items()):
            return f"{crate_posterior.DRAWS} and {crate_posterior.RECORD} disagree on {name}"
    return None


CHECKS: Mapping[str, Callable[[Files], Problem]] = {
    "the ledger entry is whole": _entry,
    "the release is the entry's": _release,
    "the noisy statistics are the entry's": _noisy,
}
POSTERIOR_CHECKS: Mapping[str, Callable[[Files], Problem]] = {
    "the posterior is of this release": _posterior,
    "the summary is that of the draws": _summary,
}
KNOWN = {*crate_release.CONTENTS, *crate_posterior.CONTENTS, PUBLIC_KEY, ATTESTATION}


def listed(found: Sequence[str]) -> Problem:
    """The first problems, and how many more there are."""
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "; ".join([*found[:SHOWN], *more]) or None
