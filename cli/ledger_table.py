"""What was done to the ledger, as people read it."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from cli.tables import caps, counted, line, of_whom, out, shortened
from dpbayes.markup.visible import visible

Document = Mapping[str, Any]

MARKS = {"genesis": "dim", "key": "yellow", "raise": "yellow", "withdraw": "red", "charge": ""}


def ledger(document: Document) -> None:
    """Every account with its caps."""
    for account in document["accounts"]:
        split = account["holders"]
        held = "" if split is None else f", holders {', '.join(split['names'])} ({split['membership']})"
        caps(f"account {account['account']}{held}", account["caps"])
        if account["closed"]:
            line(f"  closed periods, which take no charges: {', '.join(act['period'] for act in account['closed'])}")
        for act in account["withdrawn"]:
            line(f"  {act['what']} (study {act['study']}) on {act['date']}: {act['reason']}", "red")
    last(document)
    unanchored(document.get("unanchored", ()))


def last(document: Document) -> None:
    """How many charges a ledger has, and how far it goes."""
    seq, hashed = document["head"]["seq"], document["head"]["hash"][:16]
    line(f"{counted(document['charges'], 'charge')}; last entry {seq}, hash {hashed}")


def unanchored(entries: Sequence[int]) -> None:
    """What an unfinished run left, for those who only look."""
    if entries:
        named = ", ".join(map(str, entries[:3])) + (" and more" if len(entries) > 3 else "")
        line(
            f"Not anchored yet: entry {named}. Its signed copy is not in the archive; the steward's next release or "
            "ledger command writes it.",
            "yellow",
        )


def act(document: Document) -> None:
    """The entry that was written."""
    entry = document["entry"]
    fresh = document["status"] == "recorded"
    whose = f" {of_whom(document)}" if "study" in document else ""
    line(f"Entry {entry['seq']}: {entry['what']}{whose}.", "bold")
    if not fresh:
        line(f"  It is on record already, since {entry['date']}: {entry['reason']}")
    if not document.get("reason_recorded", True):
        line("  The reason given now was not recorded: to add it, use `dpbayes ledger note`.", "yellow")
    for one in document.get("moved", ()):
        line(f"  the {one['part']} moved from {one['from']} to {one['to']}")
    for notice in document.get("notices", ()):
        line(f"  notice for readers of the crate: {shortened(notice)}")
    if "fingerprint" in document:
        line(f"Give auditors the new fingerprint: {document['fingerprint']}")


def opened(document: Document) -> None:
    """What was opened, or was open, and every account."""
    done = "Opened" if document["status"] == "opened" else "Already open"
    line(f"{done}: account {document['account']} (study {document['study']}, home {document['home']}).", "bold")
    ledger(document)


def history(document: Document) -> None:
    """One line an entry, the oldest first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header in ("entry", "date", "actor", "kind", "account", "study", "what", "cost", "reason"):
        table.add_column(header, justify="right" if header == "entry" else "left", overflow="fold")
    for entry in document["entries"]:
        words = (str(entry["seq"]), entry["date"], entry["actor"], entry["kind"], entry["account"], entry["study"])
        row = (*words, entry["what"], cost(entry["cost"]), entry["reason"])
        table.add_row(*(Text(visible(str(word or ""))) for word in row), style=MARKS.get(entry["kind"], ""))
    out.print(table)
    unanchored(document["unanchored"])


def cost(readable: Document | None) -> str:
    """What a charge cost, in the measures that the ledger adds up."""
    if readable is None:
        return ""
    pure = "" if readable["epsilon"] is None else f"epsilon {readable['epsilon']}, "
    return f"{pure}rho {readable['rho']}"


def exported(document: Document) -> None:
    """Where the file is, and how to check it."""
    line(f"Wrote {document['entries']} entries to {shortened(document['file'])}.", "bold")
    if document["file"].endswith(".json"):
        line(f"Check it anywhere: dpbayes audit --ledger {document['file']} --key {document['fingerprint']}")


def recovered(document: Document) -> None:
    """What was lost and is back."""
    if document["set_aside"]:
        line(f"The database that was there is kept in {shortened(document['set_aside'])}.")
    if document["restored"]:
        line(f"Entries {document['first']} to {document['last']} were written again from their anchors.", "bold")
    else:
        line("Nothing was lost: the ledger holds every anchored entry.", "bold")
    last(document)
