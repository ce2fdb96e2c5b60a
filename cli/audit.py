"""Audit: nothing is run and nothing is trusted but the keys; everything stored is recomputed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.audit_about import about_crate, noting
from dpbayes.audit.audit import AuditReport, audit, audit_crate, posteriors
from dpbayes.audit.lone_surroundings import on_ledger, with_surroundings
from dpbayes.audit.publications import crate_on_ledger
from dpbayes.audit.reasons import Reasons
from dpbayes.audit.replay import replayed
from dpbayes.crates.files import load_with_manifest
from dpbayes_core.errors import DpbayesError, LedgerMissing, StudyInvalid
from storage.files.archive import Archive
from storage.home.home import Home
from storage.ledger.anchored import open_ledger, refuse_empty_archive
from storage.ledger.anchors import Anchors
from storage.ledger.export import read_anchors, read_export
from storage.ledger.offline_ledger import Evidence, refuse_unspelled, spelled
from storage.ledger.reading import KeyNeeded, keys_of


def run_audit(near: Path, crate: str | None, keys: Sequence[str], *, replay: bool = False) -> dict[str, Any]:
    """Audit a home's ledger, anchors and archive, or one crate alone; `keys` narrow what is trusted."""
    return _audit_home(near, keys, replay) if crate is None else _audit_alone(crate, keys, near, replay)


def audit_ledger(near: Path, ledger: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Audit an exported file, or a folder's anchors, by the fingerprint that is trusted, or by the keys of a home."""
    evidence, fingerprints = _read_ledger(near, ledger, keys)
    return {**_accounts(evidence), **AuditReport(tuple(evidence.check(fingerprints))).to_record()}


def audit_crate_on_ledger(
    near: Path, crate: str, ledger: Path, keys: Sequence[str], *, replay: bool = False
) -> dict[str, Any]:
    """Audit a crate by an exported ledger or anchors: whether it is on record, and its keys were in force."""
    evidence, fingerprints = _read_ledger(near, ledger, keys)
    held, files = evidence.check(fingerprints), load_with_manifest(crate)
    reasons = Reasons.of(keys, () if keys else fingerprints, ledger=True)
    found = audit_crate(files, evidence.trusted(fingerprints), replayed if replay else None, reasons)
    report = on_ledger(found, files, crate, evidence)
    report = replace(report, checks=(*held, *found.checks, *crate_on_ledger(files, evidence.entries)))
    # of what did not pass nothing is believed, its names included
    return {**(about_crate(files) if report.ok else {}), **_accounts(evidence), **report.to_record()}


def _accounts(evidence: Evidence) -> dict[str, Any]:
    """Whose ledger it is, as it says itself."""
    accounts: list[str] = []
    for _ in noting(evidence.entries, accounts):
        pass
    return {"accounts": accounts}


def _read_ledger(near: Path, ledger: Path, keys: Sequence[str]) -> tuple[Evidence, list[str]]:
    refuse_unspelled(keys)
    evidence = read_anchors(Archive(str(ledger))) if ledger.is_dir() else read_export(ledger)
    try:
        return evidence, list(keys) or list(_own_keys(near))
    except (LedgerMissing, KeyNeeded):
        raise StudyInvalid("cannot audit a ledger alone: no key is trusted. Add --key FINGERPRINT.") from None


def _audit_home(near: Path, keys: Sequence[str], replay: bool) -> dict[str, Any]:
    refuse_unspelled(keys)
    home = Home.look(near)
    refuse_empty_archive(home)
    archive = home.archive()
    trusted = _counted(home, archive, keys) if keys else keys_of(home, archive, ())
    if not trusted:
        named = " or ".join(keys)
        raise StudyInvalid(f"cannot audit with key {named}: this home has no such key. Check the fingerprint.")
    with open_ledger(home, "read") as ledger:
        accounts: list[str] = []
        # the keys that were named are the home's: those that they vouch for may be of other homes at its ledger
        own = [spelled(key) for key in keys]
        found = audit(noting(ledger.entries(), accounts), Anchors(archive, None), archive, trusted, signers=own)
    again = [replayed(crate, path) for path, crate in posteriors(archive)] or [replayed({})] if replay else []
    return {"accounts": accounts, **replace(found, checks=(*found.checks, *again)).to_record()}


def _own_keys(near: Path) -> Mapping[str, bytes]:
    """The keys of the home nearby, where this user may read them."""
    home = Home.look(near)
    return keys_of(home, home.archive(), ())


def _counted(home: Home, archive: Archive, keys: Sequence[str]) -> Mapping[str, bytes]:
    """The keys with the earlier and later keys that the anchors tie to them; alone where they are not sound."""
    try:
        return read_anchors(archive).trusted(list(keys))
    except DpbayesError:  # the audit says what is wrong with them
        named = {spelled(key) for key in keys}
        return {name: value for name, value in home.trusted().items() if name in named}


def _audit_alone(crate: str, keys: Sequence[str], near: Path, replay: bool) -> dict[str, Any]:
    refuse_unspelled(keys)
    try:
        files = load_with_manifest(crate)
        fingerprints = list(keys) or list(_own_keys(near))
    except (LedgerMissing, KeyNeeded):
        raise StudyInvalid("cannot audit a crate alone: no key is trusted. Add --key FINGERPRINT.") from None
    reasons = Reasons.of(keys, () if keys else fingerprints)
    alone = audit_crate(files, fingerprints, replayed if replay else None, reasons)
    report = with_surroundings(alone, files, crate, fingerprints, reasons)
    # of what did not pass nothing is believed, its names included
    return {**(about_crate(files) if report.ok else {}), **report.to_record()}
