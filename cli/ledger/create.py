"""`dpbayes ledger create`: open the account of a study's population, making a home if there is none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.console import guarded
from cli.format import Document, line
from cli.launch import actor
from cli.ledger.document import ledger_document, show_ledger
from cli.options import AsJson, Debug, StudyFile
from dpbayes.study.load import load_study
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from tasks.stamp import stamp_of


def create(study: StudyFile, *, json: AsJson = False, debug: Debug = False) -> None:
    """Open the account of the study's population; where there is no home yet, make one with keys and a ledger."""
    with guarded(json, debug) as console:
        console.show(create_ledger(study), show)


def create_ledger(study: Path) -> dict[str, Any]:
    """Open the study's account in the nearest home upward; without one, in a home made in the study's folder."""
    load_study(study)  # nothing is made for a study that cannot be used
    place = Home.place_for(study)
    Home.refuse_second(place)
    return open_account([study], Home.create(place))


def open_account(studies: Sequence[Path], home: Home) -> dict[str, Any]:
    """Open the account that these studies share, in the home's ledger, which is made if there is none."""
    declared = [load_study(study) for study in studies]
    stamp = stamp_of(actor())
    with AnchoredLedger.create(home, stamp) as anchored:
        before = anchored.ledger.head.seq
        entry = anchored.ledger.open_account(declared[0].account(), stamp, [one.study for one in declared])
        anchored.anchor_pending()
        about = {"study": declared[0].study, "account": declared[0].population, "home": str(home.folder)}
        return {"status": "opened" if entry.seq > before else "already-open", **about, **ledger_document(anchored)}


def show(document: Document) -> None:
    """Print which account was opened or was open already, and every account."""
    done = "Opened" if document["status"] == "opened" else "Already open"
    line(f"{done}: account {document['account']} (study {document['study']}, home {document['home']}).", "bold")
    show_ledger(document)
