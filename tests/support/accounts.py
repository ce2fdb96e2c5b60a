"""Opens accounts, which every charge needs, as `dpbayes ledger create STUDY` does."""

from datetime import date
from pathlib import Path

from dpbayes.study.load import load_study
from storage.ledger.accounts import account_key
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Stamp
from storage.ledger.ledger import Ledger
from storage.ledger.request import AccountSpec

OPENING = Stamp("tester", date(2026, 11, 18), {"dpbayes": "0.1.0"})


def open_where_missing(ledger: Ledger, spec: AccountSpec) -> None:
    """Open the account unless its population has one, which may state other terms."""
    if ledger.find(account_key(spec.population)) is None:
        ledger.open_account(spec, OPENING)


def open_account_of(study: Path) -> None:
    """Open the account of a study in the ledger of the home near it, and anchor the entry."""
    with AnchoredLedger.open(study) as anchored:
        open_where_missing(anchored.ledger, load_study(study).account())
        anchored.anchor_pending()
