"""The checks of one crate, offline: every byte is signed for, and every part follows from the ledger entry."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dpbayes.audit import definition as audit_definition
from dpbayes.audit import diagnostics as audit_diagnostics
from dpbayes.audit import names as audit_names
from dpbayes.audit import pages as audit_pages
from dpbayes.audit import parts as audit_parts
from dpbayes.crates import posterior as crate_posterior
from dpbayes.crates import release as crate_release
from dpbayes.crates.analysis_request import AnalysisRequest, key_due
from dpbayes.crates.contained_releases import CONTAINED, Source, read_entry, sources_of
from dpbayes.crates.format import ATTESTATION, METADATA, PUBLIC_KEY, STATEMENT_TYPE, UNSIGNED, Files, crate_digest
from dpbayes.crates.gate import PROVEN, SIGNED
from dpbayes.crates.parquet import read_draws, read_noisy
from dpbayes.crates.posterior import recorded
from dpbayes.crates.release import ENTRY, NOISY, release_record
from dpbayes.kinds.registry import texts_of
from dpbayes_core.canonical import canonical_json, sha256_of
from dpbayes_core.errors import IntegrityFailure
from storage.files.archive_paths import POSTERIOR, links_of
from storage.home.signatures import read_public_key, verify_stored
from storage.ledger.cap_document import limit_text
from storage.ledger.caps import Scope, admits
from storage.ledger.check import Check, Problem, holds
from storage.ledger.exposure import Tally, Total
from storage.ledger.history import MALFORMED
from storage.ledger.periods import Period, overlapped
from storage.ledger.request import CapSpec
from storage.ledger.verify import verify_charge

Record = Mapping[str, Any]

PRICED = "the charge is priced and protects"
CAPPED = "the charge keeps its caps"


def priced(source: Source) -> Problem:
    """What is wrong with a charge as far as its entry alone shows: its key, hashes, price and release."""
    return verify_charge(source.entry)


def capped(source: Source) -> Problem:
    """What is wrong with the totals of a charge: too small, of other scopes, or above a cap that they state."""
    stated = source.entry.payload
    cost = Total.from_record(stated["cost"])
    if not any(debit["cap"] for debit in stated["debits"]):
        return "it is charged to no cap"
    if len({str(debit["scope"]) for debit in stated["debits"]}) != len(stated["debits"]):
        return "it debits a scope twice"
    return next(filter(None, (_debit(debit, stated, cost) for debit in stated["debits"])), None)


def _debit(debit: Record, stated: Record, cost: Total) -> Problem:
    scope, after = Scope(**debit["scope"]), Tally.from_record(debit)
    if not _counts(scope, stated):
        return f"its {scope.window} total is of another account or period"
    if after.most.to_record() != debit["total"] or not _at_least(after.most, cost):
        return f"its {scope.window} total is less than what it charges, or not the sum of its parts"
    cap = None if debit["cap"] is None else CapSpec.from_record(debit["cap"])
    if cap is not None and cap.window != scope.window:
        return f"its {scope.window} total is held against another cap"
    return None if cap is None or admits(cap, after) else f"it exceeds the {cap.name} cap ({limit_text(cap)})"


def _counts(scope: Scope, stated: Record) -> bool:
    """Whether the charge counts in the scope."""
    if scope.window == "programme":
        return scope.programme is not None and scope.programme == stated["programme"]
    if scope.account != stated["account"] or scope.programme is not None:
        return False
    if scope.window == "lifetime":
        return scope.period is None
    return scope.period in overlapped(stated["period"], Period.named(scope.period or "").grain)


def _at_least(total: Total, cost: Total) -> bool:
    """Whether a total can include the charge; after a charge without pure epsilon, no total has one."""
    if total.epsilon is not None and (cost.epsilon is None or total.epsilon < cost.epsilon):
        return False
    return total.rho >= cost.rho


Keys = Mapping[str, bytes]
SHOWN = 5
SUMMARY = ("mean", "sd", "q025", "q975")
SIGNATURES = (ATTESTATION, PUBLIC_KEY)  # of a release alone, or of the posterior in whose crate it is
SLACK = 1e-9  # relative; another processor may add the draws in another order


def check_crate(files: Files, trusted: Keys) -> list[Check]:
    """Every check of a crate of any kind; `trusted` maps fingerprints to public keys."""
    found = problems(files, trusted)
    return [Check(name, holds(problem), problem or "as written") for name, problem in found.items()]


def problems(files: Files, trusted: Keys) -> dict[str, Problem]:
    """What is wrong with a signed crate, check by check; None if nothing is."""
    return {SIGNED: run_check(lambda files: signed(files, trusted), files), **contents(files, trusted)}


def contents(files: Files, trusted: Keys) -> dict[str, Problem]:
    """What is wrong with the contents; releases in folders must be signed by the keys there, all `trusted`."""
    found: dict[str, Problem] = {}
    posterior = POSTERIOR in files
    if posterior and ENTRY not in files:
        found[PROVEN] = run_check(lambda files: _proven(files, trusted), files)
    for name, check in CHECKS.items():
        found[name] = run_check(lambda files, check=check: _of_each(files, check), files)
    found |= {name: run_check(check, files) for name, check in WHOLE_CHECKS.items()}
    if posterior:
        found |= {name: run_check(check, files) for name, check in POSTERIOR_CHECKS.items()}
    return found


def _of_each(files: Files, check: Callable[[Source], Problem]) -> Problem:
    """The first problem of any release inside, or else the first remark."""
    unsigned_files = (
        frozenset(file for file in source.files.items() if file[0] not in SIGNATURES) for source in sources_of(files)
    )
    found = [result for each in unsigned_files if (result := _cached_check(check, each))]
    return next((result for result in found if not holds(result)), found[0] if found else None)


@lru_cache(maxsize=4096)  # a release is checked again with every posterior drawn from it
def _cached_check(check: Callable[[Source], Problem], files: frozenset[tuple[str, bytes]]) -> Problem:
    return check(Source(dict(files)))


def run_check(check: Callable[[Files], Problem], files: Files) -> Problem:
    """The result of a check on untrusted files; what it cannot read is a problem, not an error."""
    try:
        return check(files)
    except IntegrityFailure as failure:
        return str(failure)
    except (*MALFORMED, RecursionError) as failure:
        name = failure.args[0] if isinstance(failure, KeyError) and failure.args[0] in KNOWN else None
        return f"{name} is missing" if name else "it lacks what this check needs, or holds something else there"


def signed(files: Files, trusted: Keys) -> Problem:
    """Check that the statement is genuine, of this kind of crate, and names exactly these files with their bytes."""
    if ATTESTATION not in files:
        return f"{ATTESTATION} is missing"
    payload = verify_stored(files[ATTESTATION], trusted, payload_type=STATEMENT_TYPE, thing=ATTESTATION)
    return _listed_exactly(files, json.loads(payload), ATTESTATION) or _by_another(files)


def _by_another(files: Files) -> Problem:
    """Check that the key in the crate is the one that signed it."""
    own = read_public_key(files[PUBLIC_KEY])[0]
    signers = {each["keyid"] for each in json.loads(files[ATTESTATION])["signatures"]}
    return None if signers == {own} else f"{PUBLIC_KEY} is not the key that signed"


def unsigned(files: Files) -> Problem:
    """The same for a statement that nobody signed."""
    stated = json.loads(files[UNSIGNED])
    if canonical_json(stated) != files[UNSIGNED]:
        return f"{UNSIGNED} is not the file that was written"
    return _listed_exactly(files, stated, UNSIGNED)


def _listed_exactly(files: Files, stated: Mapping[str, Any], statement: str) -> Problem:
    subjects = {each["name"]: each["digest"]["sha256"] for each in stated["subject"]}
    present = {name: sha256_of(data) for name, data in files.items() if name != statement}
    found = [f"{name} is missing" for name in sorted(subjects.keys() - present.keys())]
    found += [f"{name} was added" for name in sorted(present.keys() - subjects.keys())]
    found += [
        f"{name} was altered" for name in sorted(subjects.keys() & present.keys()) if subjects[name] != present[name]
    ]
    return listed(found) or _predicate(files, stated, statement)


def _predicate(files: Files, stated: Mapping[str, Any], statement: str) -> Problem:
    """Check that the statement describes the crate of these files."""
    if POSTERIOR in files:
        record = recorded(files)
        kind, due = crate_posterior.PREDICATES[record["schema_version"]], crate_posterior.predicate_of(record)
    else:
        entry = sources_of(files)[0].entry
        kind = crate_release.PREDICATE
        due = {"ledger": {"hash": entry.hash, "seq": entry.seq}, "release": entry.payload["digest"]}
    same = stated["predicate"] == {**due, "crate": crate_digest(files)} and stated["predicateType"] == kind
    return None if same else f"{statement} speaks of another crate"


def _proven(files: Files, trusted: Keys) -> Problem:
    """Check that each contained release has files of its own crate's signed statement, and no others."""
    for source in sources_of(files):
        place = f"the release {source.digest[:16]}"
        fingerprint, key = read_public_key(source.files[PUBLIC_KEY])
        keys = {fingerprint: key} if fingerprint in trusted else {}
        payload = verify_stored(source.files[ATTESTATION], keys, payload_type=STATEMENT_TYPE, thing=place)
        subjects = {each["name"]: each["digest"]["sha256"] for each in json.loads(payload)["subject"]}
        for name, data in source.files.items():
            if name != ATTESTATION and (name not in CONTAINED or subjects.get(name) != sha256_of(data)):
                return f"{name} of {place} was altered"
    return None


def _entry(source: Source) -> Problem:
    entry = source.entry
    if canonical_json(entry.to_record()) != source.files[ENTRY]:
        return f"{ENTRY} is not written as the ledger writes entries"
    if entry.computed_hash != entry.hash:
        return f"{ENTRY} does not have the hash of its contents"
    return None


def _release(source: Source) -> Problem:
    data = source.files[crate_release.RECORD]
    if json.loads(data)["schema_version"] != crate_release.SCHEMA_VERSION:
        return f"{crate_release.RECORD} has a schema version that this program does not read"
    due = canonical_json(release_record(source.entry.to_record()))
    return None if data == due else f"{crate_release.RECORD} is not the entry's release"


def _noisy(source: Source) -> Problem:
    """Check numbers, not bytes, so that another version of the Parquet writer does not fail an old crate."""
    release = read_entry(source.entry.release or b"")
    due = texts_of(release).lines(release)
    return None if read_noisy(source.files[NOISY]) == due else f"{NOISY} is not the entry's release"


def _posterior(files: Files) -> Problem:
    record = recorded(files)
    if record["schema_version"] not in crate_posterior.VERSIONS:
        return f"{POSTERIOR} has a schema version that this program does not read"
    sources = sources_of(files)
    request = AnalysisRequest(**record["request"])
    due = [source.link(proven=ENTRY not in files) for source in sources]
    if record["schema_version"] == 1:
        due = [{name: link[name] for name in ("crate", "digest", "ledger", "release", "revision")} for link in due]
    consistent = (
        links_of(record) == due
        and record["key"] == key_due(record["schema_version"], sources, request)
        and all(record[name] == record["request"][name] for name in ("study", "period", "analysis"))
    )
    return None if consistent else f"{POSTERIOR} is of another release or request"


def _summary(files: Files) -> Problem:
    """Check that moments and intervals are those of the draws."""
    record = recorded(files)
    draws = read_draws(files[crate_posterior.DRAWS])
    shape = (record["diagnostics"]["chains"], record["diagnostics"]["draws"])
    lines = {line["name"]: line for line in record["coefficients"]}
    if lines.keys() != draws.keys() or any(values.shape != shape for values in draws.values()):
        return f"{crate_posterior.DRAWS} does not hold the draws of {POSTERIOR}"
    drawn = np.stack([values.ravel() for values in draws.values()])
    low, high = np.quantile(np.sort(drawn, axis=1), (0.025, 0.975), axis=1).tolist()  # faster of sorted draws
    due = zip(drawn.mean(axis=1).tolist(), drawn.std(axis=1, ddof=1).tolist(), low, high, strict=True)
    for name, numbers in zip(draws, due, strict=True):
        stated, tolerance = lines[name], SLACK * (abs(numbers[0]) + numbers[1])
        if not all(abs(float(stated[key]) - at) <= tolerance for key, at in zip(SUMMARY, numbers, strict=True)):
            return f"{crate_posterior.DRAWS} and {POSTERIOR} disagree on {name}"
    return None


CHECKS: Mapping[str, Callable[[Source], Problem]] = {
    "the ledger entry is whole": _entry,
    "the release is the entry's": _release,
    "the noisy statistics are the entry's": _noisy,
    PRICED: priced,
    CAPPED: capped,
    audit_definition.STATED: audit_definition.release_problem,
}
POSTERIOR_CHECKS: Mapping[str, Callable[[Files], Problem]] = {
    "the posterior is of this release": _posterior,
    audit_definition.ASKED: audit_definition.analysis_problem,
    audit_parts.READ: audit_parts.read_as_requested,
    "the summary is that of the draws": _summary,
    audit_diagnostics.DIAGNOSED: audit_diagnostics.diagnosed,
}
WHOLE_CHECKS: Mapping[str, Callable[[Files], Problem]] = {
    audit_pages.REPEATED: audit_pages.repeated,
    audit_names.UNIQUE: audit_names.unique,
}
KNOWN = {*crate_release.CONTENTS, *crate_posterior.CONTENTS, METADATA, PUBLIC_KEY, ATTESTATION, UNSIGNED}


def listed(found: Sequence[str]) -> Problem:
    """The first problems, and how many more there are."""
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "; ".join([*found[:SHOWN], *more]) or None
