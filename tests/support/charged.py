"""Charges without a table, and an intruder's edits of the database."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.study.load import load_study
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Entry, act_key
from storage.ledger.page import INSERT, entry_of
from tasks.orders import ReleaseOrder
from tasks.publish_release import publish_once
from tasks.stamp import stamp_of
from tests.support.accounts import open_where_missing
from tests.support.sums import sums_of


def charge(study: Path, period: str = "2026-01", revision: int = 1, actor: str = "tester") -> Entry:
    """One release of the study's first release, charged and anchored."""
    declared = load_study(study)
    name = next(iter(declared.releases))
    design = declared.design(name)
    with AnchoredLedger.open(study) as anchored:
        open_where_missing(anchored.ledger, declared.account())
        entry = anchored.ledger.commit(
            declared.request(name, period, revision, "the source was wrong" if revision > 1 else None),
            design,
            sums_of(np.zeros(len(design.schema.entries)), 2000),
            OpenDPNoise(),
            stamp=stamp_of(actor),
        )
        anchored.anchor_pending()
    return entry


def publish(study: Path, period: str = "2026-01") -> str:
    """Publish the crate of the charged release; returns its digest."""
    name = next(iter(load_study(study).releases))
    order = ReleaseOrder(study=str(study), release=name, period=period)
    return str(publish_once(order, ["released"])[0]["digest"])


def tamper(home: Path, *statements: str) -> None:
    """Edit the database as the owner of its file can: without its triggers."""
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def slip_in(home: Path, kind: str, key: str, payload: Mapping[str, Any]) -> Entry:
    """Append a valid entry to the database file, past the ledger's code."""
    tamper(home)
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        last = entry_of(database.execute("SELECT * FROM entry ORDER BY seq DESC LIMIT 1").fetchone())
        stamp = {name: last.payload[name] for name in ("actor", "date", "software")}
        entry = Entry.following(last, kind=kind, key=key, payload={**payload, **stamp})
        database.execute(INSERT, entry.to_record() | {"payload": entry.text} | entry.copies)
        database.commit()
    return entry


def slip_in_key(home: Path, new: str, old: str) -> Entry:
    """The same for an entry that declares a new signing key."""
    return slip_in(home, "key", act_key("key", new), {"public_key": new, "retires": old, "reason": "yearly"})
