"""The JSON documents of the command line, made from what is stored."""

from typing import Any

from storage.books import Books
from storage.budget import account_document
from storage.reading import Reading


def ledger_document(books: Books | Reading) -> dict[str, Any]:
    """Every account with its caps, and where the chain stands."""
    head = books.ledger.head
    return {
        "accounts": [account_document(account) for account in books.ledger.accounts()],
        "charges": books.ledger.count("charge"),
        "head": {"seq": head.seq, "hash": head.hash},
    }
