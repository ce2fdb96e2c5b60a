"""Runs the command, or the release alone, and kills its own process at a named boundary: `killed.py BOUNDARY ...`."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpbayes.secure.read_table
import dpbayes.secure.sources.open_source
import dpbayes.secure.sources.parquet
import storage.files.archive
import storage.files.stores
import storage.ledger.anchored
import storage.ledger.ledger
import storage.ledger.store


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, nth: int = 1) -> None:
    """Die when `owner.name` is called the nth time, before it does anything."""
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def patched(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            die()
        return original(*arguments, **keywords)

    setattr(owner, name, patched)


def after(owner: Any, name: str) -> None:
    """Die when `owner.name` has returned."""
    original: Callable[..., Any] = getattr(owner, name)

    def patched(*arguments: Any, **keywords: Any) -> Any:
        original(*arguments, **keywords)
        die()

    setattr(owner, name, patched)


def while_anchoring() -> None:
    """Die with the anchor's bytes half written."""
    original = storage.files.stores.create_file

    def patched(path: Path, data: bytes, **keywords: Any) -> None:
        if path.parent.name == "anchors":
            (keywords["scratch"] / "half").write_bytes(data[: len(data) // 2])
            die()
        original(path, data, **keywords)

    storage.files.stores.create_file = patched


def between_holders() -> None:
    """Die when the first holder's entry is written and the second's is not."""
    append, charges = storage.ledger.store.Page.append, 0

    def patched(page: Any, kind: str, *arguments: Any, **keywords: Any) -> Any:
        nonlocal charges
        charges += kind == "charge"
        if charges == 2:
            die()
        return append(page, kind, *arguments, **keywords)

    storage.ledger.store.Page.append = patched


BOUNDARIES: dict[str, Callable[[], None]] = {
    "before-read": lambda: before(dpbayes.secure.sources.open_source, "lay_out"),
    "during-pass": lambda: before(dpbayes.secure.sources.parquet.RowGroup, "read", nth=3),
    "before-commit": lambda: before(storage.ledger.ledger.Ledger, "commit_all"),
    "after-commit": lambda: after(storage.ledger.ledger.Ledger, "commit_all"),
    "while-anchoring": while_anchoring,
    "after-anchoring": lambda: after(storage.ledger.anchored.AnchoredLedger, "anchor"),
    "while-archiving": lambda: before(storage.files.stores.LocalStore, "create", nth=4),
    "before-manifest": lambda: before(storage.files.archive, "manifest", nth=1),
}
BETWEEN_HOLDERS = "between-holders"  # of a study that has several
CHARGED = ("after-commit", "while-anchoring", "after-anchoring", "while-archiving", "before-manifest")


def release_alone(study: str, period: str) -> None:
    """The release and its crate as the flow makes them, without Prefect."""
    from dpbayes.study.load import load_study
    from dpbayes_core.privacy.noise import OpenDPNoise
    from tasks.orders import ReleaseOrder
    from tasks.publish_release import publish_once
    from tasks.release_statistics import release_once

    for name in load_study(study).releases:
        order = ReleaseOrder(study=study, release=name, period=period)
        print(*(one["digest"] for one in publish_once(order, release_once(order, OpenDPNoise()))))


def main(boundary: str, *arguments: str) -> None:
    if boundary != "never":
        (between_holders if boundary == BETWEEN_HOLDERS else BOUNDARIES[boundary])()
    if arguments[0] == "alone":
        release_alone(*arguments[1:])
        return
    from cli.commands import app

    app(arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
