"""`dpbayes audit`: recompute everything stored, trusting only the named public keys."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import guarded
from cli.format import Document, line, study_and_account
from cli.options import AsJson, Debug, Near
from dpbayes.audit.audit import AuditReport, audit_crate, posteriors
from dpbayes.audit.audit import audit as audit_all
from dpbayes.audit.lone_crate import Reasons
from dpbayes.audit.lone_surroundings import on_ledger, with_surroundings
from dpbayes.audit.publications import count_check, crate_on_ledger
from dpbayes.audit.replay import replayed
from dpbayes.crates.contained_releases import named, sources_of
from dpbayes.crates.files import load_with_manifest
from dpbayes_core.errors import DpbayesError, LedgerMissing, StudyInvalid
from storage.files.archive import Archive
from storage.home.home import Home
from storage.ledger.anchored import open_ledger, refuse_empty_archive
from storage.ledger.anchors import Anchors
from storage.ledger.check import Check
from storage.ledger.entries import Entry
from storage.ledger.history import MALFORMED
from storage.ledger.offline_ledger import OfflineLedger, read_anchors, read_export, refuse_unspelled, spelled
from storage.ledger.reading import KeyNeeded, keys_of

NAMES = ("study", "account", "period")
INTEGRITY = 5


def audit(
    near: Near = Path(),
    *,
    crate: Annotated[
        str | None, typer.Option(help="Audit one crate alone, a folder, zip or URL, without ledger or home.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Audit an exported ledger, or the anchors of an archive, without the home.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="The fingerprint of the public key you trust; may be repeated.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Also draw the posteriors again and compare; takes as long as drawing.")
    ] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Recompute everything offline: hash chain, totals and caps, anchors, releases, signatures, crates."""
    with guarded(json, debug) as console:
        keys = key or []
        if ledger and crate:
            document = audit_crate_on_ledger(near, crate, ledger, keys, replay=replay)
        elif ledger:
            document = audit_ledger(near, ledger, keys)
        elif crate is None:
            document = audit_home(near, keys, replay=replay)
        else:
            document = audit_crate_alone(near, crate, keys, replay=replay)
        console.show(document, show)
        if not document["ok"]:
            raise typer.Exit(INTEGRITY)


def audit_home(near: Path, keys: Sequence[str], *, replay: bool = False) -> dict[str, Any]:
    """Audit a home's ledger, anchors and archive; with `keys`, trust only those of the home's keys."""
    refuse_unspelled(keys)
    home = Home.look(near)
    refuse_empty_archive(home)
    archive = home.archive()
    trusted = _vouched_keys(home, archive, keys) if keys else keys_of(home, archive, ())
    if not trusted:
        named = " or ".join(keys)
        raise StudyInvalid(f"cannot audit with key {named}: this home has no such key. Check the fingerprint.")
    with open_ledger(home, "read") as ledger:
        accounts: list[str] = []
        # only the named keys are this home's: keys that they vouch for may be of other homes that share the ledger
        own = [spelled(key) for key in keys]
        found = audit_all(
            _noting_accounts(ledger.entries(), accounts), Anchors(archive, None), archive, trusted, signers=own
        )
    replays = [replayed(crate, path) for path, crate in posteriors(archive)] or [replayed({})] if replay else []
    return {"accounts": accounts, **replace(found, checks=(*found.checks, *replays)).to_record()}


def audit_ledger(near: Path, ledger: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Audit an exported ledger, or the anchors in a folder, with the trusted fingerprints or a home's own keys."""
    offline, fingerprints = _read_ledger(near, ledger, keys)
    return {
        **_accounts(offline),
        **AuditReport(_ledger_checks(offline, fingerprints)).to_record(),
    }


def audit_crate_alone(near: Path, crate: str, keys: Sequence[str], *, replay: bool = False) -> dict[str, Any]:
    """Audit one crate without a ledger, with the trusted fingerprints `keys`, or else the keys of the nearest home."""
    refuse_unspelled(keys)
    try:
        files = load_with_manifest(crate)
        fingerprints = list(keys) or list(_own_keys(near))
    except (LedgerMissing, KeyNeeded):
        raise StudyInvalid("cannot audit a crate alone: no key is trusted. Add --key FINGERPRINT.") from None
    reasons = Reasons.of(keys, () if keys else fingerprints)
    crate_report = audit_crate(files, fingerprints, replayed if replay else None, reasons)
    report = with_surroundings(crate_report, files, crate, fingerprints, reasons)
    # nothing in a crate that failed is believed, including its names
    return {**(_about_crate(files) if report.ok else {}), **report.to_record()}


def audit_crate_on_ledger(
    near: Path, crate: str, ledger: Path, keys: Sequence[str], *, replay: bool = False
) -> dict[str, Any]:
    """Audit a crate against an exported ledger or anchors: is it on record, and were its keys valid then?"""
    offline, fingerprints = _read_ledger(near, ledger, keys)
    ledger_checks, files = _ledger_checks(offline, fingerprints), load_with_manifest(crate)
    reasons = Reasons.of(keys, () if keys else fingerprints, ledger=True)
    found = audit_crate(files, offline.trusted(fingerprints), replayed if replay else None, reasons)
    report = on_ledger(found, files, crate, offline)
    report = replace(report, checks=(*ledger_checks, *found.checks, *crate_on_ledger(files, offline.entries)))
    # nothing in a crate that failed is believed, including its names
    return {**(_about_crate(files) if report.ok else {}), **_accounts(offline), **report.to_record()}


def _ledger_checks(offline: OfflineLedger, fingerprints: Sequence[str]) -> tuple[Check, ...]:
    """The checks of a ledger by itself, and the number of analyses that it records."""
    return (*offline.check(fingerprints), count_check(offline.entries))


def _accounts(offline: OfflineLedger) -> dict[str, Any]:
    """The accounts that the ledger's own entries open."""
    accounts: list[str] = []
    for _ in _noting_accounts(offline.entries, accounts):
        pass
    return {"accounts": accounts}


def _read_ledger(near: Path, ledger: Path, keys: Sequence[str]) -> tuple[OfflineLedger, list[str]]:
    refuse_unspelled(keys)
    offline = read_anchors(Archive(str(ledger))) if ledger.is_dir() else read_export(ledger)
    try:
        return offline, list(keys) or list(_own_keys(near))
    except (LedgerMissing, KeyNeeded):
        raise StudyInvalid("cannot audit a ledger alone: no key is trusted. Add --key FINGERPRINT.") from None


def _own_keys(near: Path) -> Mapping[str, bytes]:
    """The keys of the nearest home, if this user may read them."""
    home = Home.look(near)
    return keys_of(home, home.archive(), ())


def _vouched_keys(home: Home, archive: Archive, keys: Sequence[str]) -> Mapping[str, bytes]:
    """The named keys with the earlier and later keys linked to them by anchors; only the named ones if those fail."""
    try:
        return read_anchors(archive).trusted(list(keys))
    except DpbayesError:  # the audit says what is wrong with them
        named = {spelled(key) for key in keys}
        return {name: value for name, value in home.trusted().items() if name in named}


def _noting_accounts(entries: Iterable[Entry], accounts: list[str]) -> Iterator[Entry]:
    """Pass the entries through unchanged, adding the name of each account they open to `accounts`."""
    for entry in entries:
        if entry.kind == "account":
            accounts.append(str(entry.payload.get("account")))
        yield entry


def _about_crate(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Study, account and period of the releases in a crate that passed; several are joined with commas."""
    found: dict[str, Any] = {}
    with suppress(*MALFORMED):
        sources = sources_of(files)
        found = {name: named(sources, name) for name in NAMES}
    return found


def show(document: Document) -> None:
    """Print every check, with failures in full, and the verdict."""
    if about := _about(document):
        line(f"Audit of {about}.", "bold")
    for notice in document.get("notices", ()):
        line(f"NOTICE: {notice['said']}", "bold red")
    for one in document["checks"]:
        line(f"{'ok  ' if one['ok'] else 'FAIL'}  {one['check']}: {one['detail']}", None if one["ok"] else "bold red")
    if document.get("verdict"):
        line(document["verdict"])
    for unsure in document.get("cannot_tell", ()):
        line(f"One crate cannot tell {unsure}", "yellow")
    if document["ok"]:
        caution = " But read the NOTICE at the top: a crate that nobody altered may have been withdrawn or superseded."
        line(f"The audit passed.{caution if document.get('notices') else ''}", "bold")
    else:
        line(
            "The audit FAILED: something was altered, is missing, or is not vouched for. The lines with FAIL say what.",
            "bold",
        )


def _about(document: Document) -> str:
    """What was audited, in words: a ledger, a crate, or a crate against a ledger."""
    ledger = f"the ledger of {' and '.join(document['accounts'])}" if document.get("accounts") else ""
    if document.get("verdict") is None:
        return ledger
    period = f" for {document['period']} {study_and_account(document)}" if document.get("period") else ""
    by = f", by {ledger}" if ledger else ""
    return f"a crate{period}{by}" if period or by else ""
