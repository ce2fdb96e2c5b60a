"""The whole audit, offline: ledger and anchors are verified, and every published byte is compared with both."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from dpbayes.audit.comparisons import COMPARED, comparison_flaws, is_comparison
from dpbayes.audit.crate import CHECKS, POSTERIOR_CHECKS, PROVEN, SIGNED, WHOLE_CHECKS, listed, problems
from dpbayes.audit.lone_crate import Reasons, Replay, judge
from dpbayes.audit.names import UNIQUE, colliding
from dpbayes.audit.notices import NOTICED, due_notices, is_notice, notice_flaws
from dpbayes.audit.parts import superseded_in
from dpbayes.audit.publications import BELONGS, IN_FORCE, ON_RECORD, Publications
from dpbayes.crates.contained_releases import Source, sources_of
from dpbayes.crates.posterior import recorded
from dpbayes.crates.release import ENTRY
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from storage.files.archive import MANIFEST, Archive, manifest_flaw
from storage.files.archive_paths import COMPARISONS, NOT_CONVERGED, POSTERIOR, links_of, paths_of, release_path
from storage.home.signatures import public_key_name, read_public_key
from storage.ledger.anchors import Anchors, anchor_name
from storage.ledger.check import Check, holds
from storage.ledger.entries import Entry
from storage.ledger.history import MALFORMED
from storage.ledger.request import AccountSpec
from storage.ledger.verify import verify

RELEASES, POSTERIORS, KEYS = "releases", "posteriors", "keys"
DEPTH = 4  # names in the path of a crate

WHOLE = "manifests name every file"

Record = Mapping[str, Any]
Found = dict[str, list[str]]


@dataclass(frozen=True)
class AuditReport:
    """Everything an audit looked at."""

    checks: tuple[Check, ...]
    verdict: str | None = None
    """For the audit of one crate: two sentences on who signed its release and its posterior."""
    cannot_tell: tuple[str, ...] | None = None
    """For the audit of one crate: what it cannot prove by itself."""
    notices: tuple[Mapping[str, Any], ...] | None = None
    """Notices next to the crate in its archive, and of posteriors that this version would draw by another method."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return all(check.ok for check in self.checks)

    def to_record(self) -> dict[str, Any]:
        """Plain data for programs."""
        checks = [{"check": check.check, "detail": check.detail, "ok": check.ok} for check in self.checks]
        verdict = {} if self.verdict is None else {"verdict": self.verdict}
        limits = {} if self.cannot_tell is None else {"cannot_tell": list(self.cannot_tell)}
        notices = {} if self.notices is None else {"notices": [dict(notice) for notice in self.notices]}
        return {"checks": checks, "ok": self.ok, **verdict, **limits, **notices}


def audit(
    entries: Iterable[Entry],
    anchors: Anchors,
    archive: Archive,
    trusted: Mapping[str, bytes],
    *,
    signers: Collection[str] = (),
) -> AuditReport:
    """Compare ledger, anchors and archive with each other; `trusted` maps fingerprints to public keys.

    `signers` are keys of the home whose archive it is, where others are trusted, too.
    """
    read: list[Entry] = []
    ledger = verify(_collected(entries, read))
    records = [entry.to_record() for entry in read]
    anchored = [Check(each.check, each.ok, each.detail) for each in anchors.check(records, trusted)]
    known = Publications(read, signers or trusted, set(anchors.numbers()))
    checks = (*ledger, *anchored, *_published(archive, anchors, trusted, records, known))
    noticed = superseded_in(
        archive, (path for path in _crates_and_others(archive, 0)[0] if path.startswith(POSTERIORS))
    )
    return AuditReport(checks, notices=noticed or None)


def audit_crate(
    files: Mapping[str, bytes],
    fingerprints: Iterable[str],
    replay: Replay | None = None,
    reasons: Reasons | None = None,
) -> AuditReport:
    """Check one crate alone, by the fingerprints that the auditor trusts and, with `replay`, by drawing it again."""
    found = judge(files, tuple(fingerprints), replay, reasons)
    return AuditReport(found.checks, found.verdict)


def posteriors(archive: Archive) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Every posterior's crate of an archive, by its path; damaged ones included."""
    for path, names in _crates_and_others(archive, 0)[0].items():
        if path.startswith(f"{POSTERIORS}/"):
            yield path, {name: archive.read(f"{path}/{name}") for name in names}


def _collected(entries: Iterable[Entry], read: list[Entry]) -> Iterator[Entry]:
    for entry in entries:
        read.append(entry)
        yield entry


def _published(
    archive: Archive, anchors: Anchors, trusted: Mapping[str, bytes], records: Sequence[Record], known: Publications
) -> list[Check]:
    """The checks of everything in the archive except the anchors."""
    strays, (crates, others) = archive.strays(), _crates_and_others(archive, len(records))
    compared = {path: _without(strays, path, crates.pop(path)) for path in [*crates] if is_comparison(path)}
    notices = {name for name in others if is_notice(name) and name not in strays}
    notices_due = due_notices(records, crates, archive.read)
    expected, unpublished = _expected_crates(records), _never_published(records)
    found: Found = {
        "the archive holds nothing else": [
            *(f"{name} {what}" for name, what in sorted(strays.items())),
            *(f"{name} is no part of an archive" for name in others if name not in {*strays, *notices}),
        ],
        NOTICED: notice_flaws(archive, notices, notices_due, trusted, records),
        "published keys are known": _key_flaws(archive, trusted, strays),
        "every charge has its crate": _missing_crates(expected, crates, unpublished),
        **{name: [] for name in (BELONGS, WHOLE, SIGNED, *CHECKS, PROVEN, *POSTERIOR_CHECKS, *WHOLE_CHECKS)},
        **{name: [] for name in (ON_RECORD, IN_FORCE)},
    }
    found[UNIQUE] = [f"{path} has the name of another crate" for path in colliding(crates)] + _analysed_twice(crates)
    remarks: dict[str, Counter[str]] = defaultdict(Counter)
    statements = set[str]()
    ledger = {record["seq"]: record for record in records}
    for path, names in crates.items():
        files = {name: archive.read(f"{path}/{name}") for name in _without(strays, path, names)}
        listing = files.pop(MANIFEST, None)
        whole = f"{MANIFEST} is missing" if listing is None else manifest_flaw(files, listing)
        flaws = {WHOLE: whole, **problems(files, trusted)}
        flaws[BELONGS] = _belonging_flaw(path, files, expected, ledger) or _unanchored(path, expected, anchors)
        flaws |= {ON_RECORD: known.unrecorded(files, path), IN_FORCE: known.late(files)}
        statements.add(known.statement(files))
        for name, flaw in flaws.items():
            found[name] += [f"{path}: {flaw}"] if not holds(flaw) else []
            remarks[name].update([flaw] if flaw and holds(flaw) else [])
    found[ON_RECORD] += known.missing(statements)
    found |= {COMPARED: comparison_flaws(compared, crates, archive.read, trusted, known.own())} if compared else {}
    details = {name: _count_text(len(crates), remarks[name]) for name in found}
    details |= {ON_RECORD: known.summary(), COMPARED: f"{len(compared)} comparisons"}
    return [Check(name, not flaws, listed(flaws) or details[name]) for name, flaws in found.items()]


def _without(strays: Collection[str], path: str, names: Iterable[str]) -> list[str]:
    """The names of the files of a folder that are stored files."""
    return [name for name in names if f"{path}/{name}" not in strays]


def _missing_crates(expected: Mapping[str, Record], crates: Collection[str], unpublished: Collection[int]) -> list[str]:
    """The charges whose crate is missing, and what to do."""
    return [
        f"{path} of entry {record['seq']} is missing: run `dpbayes release` for it again"
        for path, record in expected.items()
        if path not in crates and record["seq"] not in unpublished
    ]


def _count_text(crates: int, remarks: Mapping[str, int]) -> str:
    """The number of crates, and the number of those with each remark."""
    return "; ".join([f"{crates} crates", *(f"{many} of them {remark}" for remark, many in sorted(remarks.items()))])


def _analysed_twice(crates: Iterable[str]) -> list[str]:
    """The analyses that are archived both as converged and as not converged; each may have only one crate."""
    plain = Counter(path.replace(NOT_CONVERGED, "") for path in crates if path.startswith(POSTERIORS))
    return [f"{path} lies in the archive twice" for path, many in plain.items() if many > 1]


def _crates_and_others(archive: Archive, entries: int) -> tuple[dict[str, list[str]], list[str]]:
    """The names of the files of every crate, by the crate's path; and files that belong to no crate."""
    anchored = {anchor_name(seq) for seq in range(entries + 1)}
    crates: dict[str, list[str]] = {}
    others: list[str] = []
    for name in archive.list():
        parts = name.split("/")
        if parts[0] in (RELEASES, POSTERIORS, COMPARISONS) and len(parts) > DEPTH:
            crates.setdefault("/".join(parts[:DEPTH]), []).append("/".join(parts[DEPTH:]))
        elif not (parts[0] == KEYS or name in anchored):
            others.append(name)
    return crates, others


def _expected_crates(records: Sequence[Record]) -> dict[str, Record]:
    """Each charge by the path that its crate has to have; unreadable entries fail the ledger's own checks."""
    found: dict[str, Record] = {}
    for record in records:
        try:
            if record["kind"] == "charge":
                found[release_path(record)] = record
        except MALFORMED:
            continue
    return found


def _never_published(records: Sequence[Record]) -> set[int]:
    """Charges of releases at some holders only, where people move, that were superseded by a complete release."""
    holders_needed: dict[str, int] = {}
    charges_by_release: dict[tuple[Any, ...], list[int]] = {}
    for record in records:
        with suppress(*MALFORMED):
            stated = record["payload"]
            if record["kind"] == "account":
                holders_needed[stated["account"]] = len(AccountSpec.from_record(stated["spec"]).released_together)
            elif record["kind"] == "charge" and stated["holder"] is not None:
                name = tuple(stated[each] for each in ("account", "study", "release", "period", "revision"))
                charges_by_release.setdefault(name, []).append(record["seq"])
    incomplete = [name for name, charges in charges_by_release.items() if len(charges) < holders_needed.get(name[0], 0)]
    return {
        charge
        for *name, revision in incomplete
        if (*name, revision + 1) in charges_by_release
        for charge in charges_by_release[*name, revision]
    }


def _key_flaws(archive: Archive, trusted: Mapping[str, bytes], strays: Collection[str]) -> list[str]:
    found: list[str] = []
    for name in archive.list(KEYS):
        if name in strays:
            continue
        try:
            data = archive.read(name)
            fingerprint, key = read_public_key(data)
        except IntegrityFailure:
            found.append(f"{name} is no public key")
            continue
        if name != f"{KEYS}/{public_key_name(fingerprint)}" or _pem(key) != data:
            found.append(f"{name} was altered")
        elif fingerprint not in trusted:
            found.append(f"{name} is not a trusted key")
    return found


def _belonging_flaw(
    path: str, files: Mapping[str, bytes], expected: Mapping[str, Record], ledger: Mapping[int, Record]
) -> str | None:
    """What is wrong if a crate's entry is not of this ledger, or the crate has another path than its entry's."""
    try:
        if path.startswith(RELEASES):
            whole = _is_entry(Source(files), expected.get(path))
            return None if whole else f"{ENTRY} is no charge of the ledger that calls for it"
        record = recorded(files)
        if path not in paths_of(record):
            return f"{POSTERIOR} is of another place"
        paid = [ledger.get(link["ledger"]["seq"]) for link in links_of(record)]
        whole = all(_is_entry(source, entry) for source, entry in zip(sources_of(files), paid, strict=True))
        return None if whole else f"{ENTRY} is not the ledger's"
    except (*MALFORMED, RecursionError):
        return "it does not say what it belongs to"


def _unanchored(path: str, expected: Mapping[str, Record], anchors: Anchors) -> str | None:
    """What is wrong if the anchor is missing: it was removed, because crates are published after their anchors."""
    if path not in expected or anchors.exists(expected[path]["seq"]):
        return None
    return f"{anchor_name(expected[path]['seq'])} is missing, and it was written before the crate"


def _is_entry(source: Source, record: Record | None) -> bool:
    return record is not None and source.files[ENTRY] == canonical_json(dict(record))


def _pem(key: bytes) -> bytes:
    return Ed25519PublicKey.from_public_bytes(key).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
