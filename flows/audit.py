"""Audit: nothing is run and nothing is trusted but the keys; everything stored is recomputed."""

from pathlib import Path
from typing import Any

from dpbayes_core.errors import LedgerMissing, StudyInvalid
from storage.anchors import Anchors
from storage.audit import AuditReport, audit, audit_crate
from storage.crates import load
from storage.home import Home
from storage.ledger.ledger import Ledger


def run_audit(near: Path, crate: Path | None, key: str | None) -> dict[str, Any]:
    """Audit a home's ledger, anchors and archive, or one crate alone; `key` narrows what is trusted."""
    report = _audit_home(near, key) if crate is None else _audit_alone(crate, key, near)
    checks = [{"check": one.check, "ok": one.ok, "detail": one.detail} for one in report.checks]
    return {"ok": report.ok, "checks": checks}


def _audit_home(near: Path, key: str | None) -> AuditReport:
    home = Home.find(near)
    trusted = {name: value for name, value in home.trusted().items() if key in (None, name)}
    if not trusted:
        raise StudyInvalid(f"cannot audit with key {key}: this home has no such key. Check the fingerprint.")
    archive = home.archive()
    with Ledger.open(home.ledger_url) as ledger:
        return audit(ledger.entries(), Anchors(archive, None), archive, trusted)


def _audit_alone(crate: Path, key: str | None, near: Path) -> AuditReport:
    if key is not None:
        return audit_crate(load(crate), [key])
    try:
        return audit_crate(load(crate), Home.find(near).trusted())
    except LedgerMissing:
        raise StudyInvalid("cannot audit a crate alone: no key is trusted. Add --key FINGERPRINT.") from None
