"""`dpbayes ledger show`, `history` and `export`: for anybody who may read the ledger; none writes to it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from cli.console import guarded
from cli.format import Document, line, out, shortened
from cli.ledger.document import ledger_document, show_ledger, show_unanchored
from cli.ledger.readable import line_of, spreadsheet
from cli.options import AsJson, Debug, Near, Trusted
from dpbayes.markup.visible import visible
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.offline_ledger import export as write_export
from storage.ledger.reading import keys_of, look

MARKS = {"genesis": "dim", "key": "yellow", "raise": "yellow", "withdraw": "red", "charge": ""}


def show(near: Near = Path(), *, key: Trusted = None, json: AsJson = False, debug: Debug = False) -> None:
    """Accounts, caps, what was spent and what remains."""
    with guarded(json, debug) as console:
        console.show(read_ledger(near, key or []), show_ledger)


def history(near: Near = Path(), *, key: Trusted = None, json: AsJson = False, debug: Debug = False) -> None:
    """Every entry: who did what, when, at what cost and why."""
    with guarded(json, debug) as console:
        console.show(read_history(near, key or []), show_history)


def export(
    file: Annotated[Path, typer.Argument(help="A new file: .json for auditors, .csv for spreadsheets.")],
    near: Near = Path(),
    *,
    key: Trusted = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write the whole ledger to one file; auditors check its JSON with nothing but a fingerprint."""
    with guarded(json, debug) as console:
        console.show(export_ledger(near, file, key or []), show_export)


def read_ledger(near: Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Every account in the ledger near `near`, and the numbers of entries that are not anchored yet."""
    with look(near, keys) as reading:
        return ledger_document(reading) | {"unanchored": list(reading.unanchored)}


def read_history(near: Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Every entry in one line each, the last entry, and the numbers of entries that are not anchored yet."""
    with look(near, keys) as reading:
        head = reading.ledger.head
        return {
            "entries": [line_of(entry) for entry in reading.ledger.entries()],
            "head": {"seq": head.seq, "hash": head.hash},
            "unanchored": list(reading.unanchored),
        }


def export_ledger(near: Path, target: Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Write the whole ledger to one file; with the home's key, sign its head, else include the head's anchor."""
    if not Home.look(near).is_ours:
        with look(near, keys) as reading:
            written = write_export(reading, target, None, spreadsheet)
            return {"file": str(target), "entries": written, "fingerprint": reading.signed_by}
    with AnchoredLedger.open(near) as anchored:
        if keys:
            keys_of(anchored.home, anchored.archive, keys)  # refused where the named key is not this ledger's
        signer = anchored.home.signer()
        written = write_export(anchored, target, signer, spreadsheet)
        return {"file": str(target), "entries": written, "fingerprint": signer.fingerprint}


def show_history(document: Document) -> None:
    """Print one line for each entry, the oldest first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header in ("entry", "date", "actor", "kind", "account", "study", "what", "cost", "reason"):
        table.add_column(header, justify="right" if header == "entry" else "left", overflow="fold")
    for entry in document["entries"]:
        words = (str(entry["seq"]), entry["date"], entry["actor"], entry["kind"], entry["account"], entry["study"])
        row = (*words, entry["what"], _cost(entry["cost"]), entry["reason"])
        table.add_row(*(Text(visible(str(word or ""))) for word in row), style=MARKS.get(entry["kind"], ""))
    out.print(table)
    show_unanchored(document["unanchored"])


def _cost(readable: Document | None) -> str:
    """What a charge cost, in the measures that the ledger adds up."""
    if readable is None:
        return ""
    pure = "" if readable["epsilon"] is None else f"epsilon {readable['epsilon']}, "
    return f"{pure}rho {readable['rho']}"


def show_export(document: Document) -> None:
    """Print where the file is, and how to check it."""
    line(f"Wrote {document['entries']} entries to {shortened(document['file'])}.", "bold")
    if document["file"].endswith(".json"):
        line(f"Check it anywhere: dpbayes audit --ledger {document['file']} --key {document['fingerprint']}")
