"""The ledger as a JSON document and as printed: every account with its caps, and the last entry of the chain."""

from collections.abc import Sequence
from typing import Any

from cli.format import Document, caps, counted, line
from cli.ledger.readable import line_of
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.cap_document import AccountState, account_document
from storage.ledger.reading import Reading


def ledger_document(anchored: AnchoredLedger | Reading) -> dict[str, Any]:
    """Every account with its caps, the number of charges, and the last entry of the chain."""
    head, acts = (
        anchored.ledger.head,
        [line_of(one) for one in (*anchored.ledger.of_kind("close"), *anchored.ledger.of_kind("withdraw"))],
    )
    return {
        "accounts": [account_document(account) | _acts(account, acts) for account in anchored.ledger.accounts()],
        "charges": anchored.ledger.count("charge"),
        "head": {"seq": head.seq, "hash": head.hash},
    }


def _acts(account: AccountState, acts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The closed periods and withdrawn releases of an account, in the order of the ledger."""
    own = [one for one in acts if one["account"] == account.spec.population]
    fields = ("study", "period", "what", "date", "reason")
    return {
        word: [{name: one[name] for name in fields} | {"entry": one["seq"]} for one in own if one["kind"] == kind]
        for word, kind in (("closed", "close"), ("withdrawn", "withdraw"))
    }


def show_ledger(document: Document) -> None:
    """Print every account with its caps."""
    for account in document["accounts"]:
        split = account["holders"]
        holders = "" if split is None else f", holders {', '.join(split['names'])} ({split['membership']})"
        caps(f"account {account['account']}{holders}", account["caps"])
        if account["closed"]:
            line(f"  closed periods, which take no charges: {', '.join(act['period'] for act in account['closed'])}")
        for act in account["withdrawn"]:
            line(f"  {act['what']} (study {act['study']}) on {act['date']}: {act['reason']}", "red")
    show_head(document)
    show_unanchored(document.get("unanchored", ()))


def show_head(document: Document) -> None:
    """Print the number of charges and the last entry."""
    seq, hashed = document["head"]["seq"], document["head"]["hash"][:16]
    line(f"{counted(document['charges'], 'charge')}; last entry {seq}, hash {hashed}")


def show_unanchored(entries: Sequence[int]) -> None:
    """Print which entries an interrupted run left without anchors, if any."""
    if entries:
        named = ", ".join(map(str, entries[:3])) + (" and more" if len(entries) > 3 else "")
        line(
            f"Not anchored yet: entry {named}. Its signed copy is not in the archive; the steward's next release or "
            "ledger command writes it.",
            "yellow",
        )
