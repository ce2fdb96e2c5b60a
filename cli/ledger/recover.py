"""`dpbayes ledger recover`: write entries that the database lost again, from their signed anchors."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import guarded
from cli.format import Document, line, shortened
from cli.launch import actor
from cli.ledger.document import ledger_document, show_head
from cli.options import AsJson, Debug, Near
from storage.home.places import rewrite_places
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.recovery import home_to_recover
from storage.ledger.recovery import recover as restore
from tasks.stamp import stamp_of


def recover(
    near: Near = Path(),
    *,
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Move a damaged or altered database away first, and keep it.")
    ] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Rebuild lost entries, or a whole lost database, from the signed anchors; refused where the two disagree."""
    with guarded(json, debug) as console:
        console.show(recover_ledger(near, set_aside=set_aside), show)


def recover_ledger(near: Path, *, set_aside: bool) -> dict[str, Any]:
    """Write lost entries again from their anchors, and record that in a note."""
    home = home_to_recover(near)
    done = restore(home, set_aside=set_aside)
    rewrite_places(home.folder, home.places)
    with AnchoredLedger.open(near) as anchored:
        if done.restored:
            anchored.ledger.note(
                f"entries {done.first} to {done.last} were lost and written again from their anchors", stamp_of(actor())
            )
            anchored.anchor_pending()
        return {
            "restored": done.restored,
            "first": done.first if done.restored else None,
            "last": done.last if done.restored else None,
            "set_aside": done.set_aside,
            **ledger_document(anchored),
        }


def show(document: Document) -> None:
    """Print which entries were restored."""
    if document["set_aside"]:
        line(f"The database that was there is kept in {shortened(document['set_aside'])}.")
    if document["restored"]:
        line(f"Entries {document['first']} to {document['last']} were written again from their anchors.", "bold")
    else:
        line("Nothing was lost: the ledger holds every anchored entry.", "bold")
    show_head(document)
