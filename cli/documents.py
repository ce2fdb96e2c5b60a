"""The JSON documents of the command line, made from what is stored."""

from collections.abc import Sequence
from typing import Any

from storage.ledger.accounts import AccountState
from storage.ledger.anchored import Books
from storage.ledger.cap_document import account_document
from storage.ledger.readable import line_of
from storage.ledger.reading import Reading


def ledger_document(books: Books | Reading) -> dict[str, Any]:
    """Every account with its caps, and where the chain stands."""
    head, acts = books.ledger.head, [line_of(one) for one in (*books.ledger.closings(), *books.ledger.withdrawals())]
    return {
        "accounts": [account_document(account) | _acts(account, acts) for account in books.ledger.accounts()],
        "charges": books.ledger.count("charge"),
        "head": {"seq": head.seq, "hash": head.hash},
    }


def _acts(account: AccountState, acts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What was closed and withdrawn of an account, in the order of the ledger."""
    own = [one for one in acts if one["account"] == account.spec.population]
    kept = ("study", "period", "what", "date", "reason")
    return {
        word: [{name: one[name] for name in kept} | {"entry": one["seq"]} for one in own if one["kind"] == kind]
        for word, kind in (("closed", "close"), ("withdrawn", "withdraw"))
    }
