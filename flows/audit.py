"""Audit: nothing is run and nothing is trusted but the keys; everything stored is recomputed."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpbayes_core.errors import DpbayesError, LedgerMissing, StudyInvalid
from storage.anchors import Anchors
from storage.archive import Archive
from storage.audit import AuditReport, audit, audit_crate
from storage.books import open_ledger
from storage.crates import load
from storage.evidence import spelled
from storage.export import read_anchors, read_export
from storage.home import Home


def run_audit(near: Path, crate: Path | None, key: str | None) -> dict[str, Any]:
    """Audit a home's ledger, anchors and archive, or one crate alone; `key` narrows what is trusted."""
    report = _audit_home(near, key) if crate is None else _audit_alone(crate, key, near)
    checks = [{"check": one.check, "ok": one.ok, "detail": one.detail} for one in report.checks]
    return {"ok": report.ok, "checks": checks}


def audit_ledger(near: Path, ledger: Path, key: str | None) -> dict[str, Any]:
    """Audit an exported file, or a folder's anchors, by the fingerprint that is trusted, or by the keys of a home."""
    evidence = read_anchors(Archive(str(ledger))) if ledger.is_dir() else read_export(ledger)
    try:
        fingerprints = [key] if key else list(Home.find(near).trusted())
    except LedgerMissing:
        raise StudyInvalid("cannot audit a ledger alone: no key is trusted. Add --key FINGERPRINT.") from None
    return AuditReport(tuple(evidence.check(fingerprints))).to_record()


def _audit_home(near: Path, key: str | None) -> AuditReport:
    home = Home.find(near)
    archive = home.archive()
    trusted = home.trusted() if key is None else _counted(home, archive, key)
    if not trusted:
        raise StudyInvalid(f"cannot audit with key {key}: this home has no such key. Check the fingerprint.")
    with open_ledger(home) as ledger:
        return audit(ledger.entries(), Anchors(archive, None), archive, trusted)


def _counted(home: Home, archive: Archive, key: str) -> Mapping[str, bytes]:
    """The key with the earlier and later keys that the anchors tie to it; alone where they are not sound."""
    try:
        return read_anchors(archive).trusted([key])
    except DpbayesError:  # the audit says what is wrong with them
        return {name: value for name, value in home.trusted().items() if name == spelled(key)}


def _audit_alone(crate: Path, key: str | None, near: Path) -> AuditReport:
    if key is not None:
        if not re.fullmatch(r"(SHA256:)?[0-9a-fA-F]{64}", key.strip()):
            raise StudyInvalid("cannot audit with this key: it is no fingerprint. Write SHA256: and 64 hex digits.")
        return audit_crate(load(crate), [key])
    try:
        return audit_crate(load(crate), Home.find(near).trusted())
    except LedgerMissing:
        raise StudyInvalid("cannot audit a crate alone: no key is trusted. Add --key FINGERPRINT.") from None
