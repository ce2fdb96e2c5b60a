"""What one crate cannot show, and what a notice next to it in its archive does."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from dpbayes.audit.audit import AuditReport
from dpbayes.audit.lone_crate import WITHIN, Reasons
from dpbayes.audit.notices import due_notices
from dpbayes.audit.parts import superseded_alone
from dpbayes.audit.replay import REPLAYED
from dpbayes.crates.contained_releases import sources_of
from dpbayes.crates.format import Files
from dpbayes.crates.notices_beside import notice_records, notices_beside
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.text import shown
from storage.files.archive_paths import POSTERIOR
from storage.ledger.check import Check
from storage.ledger.entries import Entry
from storage.ledger.history import MALFORMED
from storage.ledger.notices import Notice
from storage.ledger.offline_ledger import OfflineLedger, spelled

NOTICES = "notices beside the crate are genuine"

OF_ALL = (  # the first is left out if a trusted notice answers it
    "whether the release was withdrawn or superseded since: the agency's ledger says so, and a notice beside the crate "
    "in its archive.",
    "whether the budget was kept: the totals in it are what the agency wrote, and only the whole ledger adds them up.",
    "whether the key was retired, or stolen, before it signed: the agency's ledger says until when it counted.",
)
OF_POSTERIORS = (
    "whether the posterior is the one on the ledger, or the first of its analysis there: whoever holds the key signs "
    "others.",
    "whether other analyses were made of the same release, with other priors, and kept back: the agency's archive and "
    "ledger show what was published.",
)


def cannot_tell(files: Files) -> tuple[str, ...]:
    """What the crate cannot prove, and where to ask."""
    return (*OF_ALL, *(OF_POSTERIORS if POSTERIOR in files else ()))


def with_surroundings(
    report: AuditReport, files: Files, place: str, fingerprints: Collection[str], reasons: Reasons
) -> AuditReport:
    """The audit of one crate with the notices next to it, and with what it cannot show."""
    if not any(check.check == WITHIN and check.ok for check in report.checks):
        return replace(report, cannot_tell=cannot_tell(files))  # the crate was not read, nor are its notices
    check, wanted = _check_notices(files, place, fingerprints, reasons), {spelled(each) for each in fingerprints}
    notices = notice_records(place, wanted)
    known = check.ok and any(each.get("signed_by") in wanted for each in notices)
    again = tuple(each for each in report.checks if each.check == REPLAYED)
    return replace(
        report,
        checks=(*(each for each in report.checks if each not in again), check, *again),
        cannot_tell=cannot_tell(files)[known:],
        notices=(*notices, *superseded_alone(files, shown(place, 300))),
    )


def on_ledger(report: AuditReport, files: Files, place: str, offline: OfflineLedger) -> AuditReport:
    """The audit of one crate by a ledger, with a notice for every act that withdrew or superseded a release in it."""
    if not any(check.check == WITHIN and check.ok for check in report.checks):
        return replace(report, notices=())  # the crate was not read
    signers = ", ".join(sorted(offline.in_force)) or None
    try:
        keys = {source.entry.key for source in sources_of(files)}
        due = due_notices([entry.to_record() for entry in offline.entries], (), lambda _: b"")
        found = tuple(_by_ledger(each.said, place, signers) for each in due if each.said["release"] in keys)
    except (*MALFORMED, RecursionError):  # the checks report it
        found = ()
    return replace(report, notices=(*found, *superseded_alone(files, shown(place, 300))))


def _by_ledger(said: Mapping[str, Any], place: str, signers: str | None) -> Mapping[str, Any]:
    reason, seq = str(said["reason"]), said["act"]["seq"]
    words = f"{said['status']} on {said['date']} (ledger entry {seq}): {reason.rstrip('.')}."
    return {
        "said": f"{shown(place, 300)} was {words} The ledger at hand says so.",
        **{name: said[name] for name in ("status", "date", "reason")},
        "entry": seq,
        "signed_by": signers,
    }


def _check_notices(files: Files, place: str, fingerprints: Collection[str], reasons: Reasons) -> Check:
    wanted = {spelled(each) for each in fingerprints}
    try:
        found = notices_beside(place)
    except IntegrityFailure as failure:
        return Check(NOTICES, False, str(failure))
    if not found:
        return Check(NOTICES, True, "there is none: where a crate was taken out of its archive, that says nothing")
    for notice in found:
        if not _is_about(notice, files):
            return Check(NOTICES, False, "one speaks of another release than the crate holds, or of no act of a ledger")
    return Check(NOTICES, True, " ".join(_notice_words(notice, wanted, reasons) for notice in found))


def _notice_words(notice: Notice, wanted: Collection[str], reasons: Reasons) -> str:
    trust = reasons.why(notice.signed_by) if notice.signed_by in wanted else f"{reasons.untrusted}: ask the agency"
    return f"it was {notice.words()} Signed by {notice.signed_by}, {trust}."


def _is_about(notice: Notice, files: Files) -> bool:
    """Whether a notice is about a release in the crate, and its entry has the hash that it states."""
    try:
        if notice.release not in {source.entry.key for source in sources_of(files)}:
            return False
        if notice.status != "withdrawn":
            return True
        entry = Entry.from_record(notice.act)
        return entry.computed_hash == entry.hash and entry.payload["withdraws"] == notice.release
    except (*MALFORMED, RecursionError):
        return False
