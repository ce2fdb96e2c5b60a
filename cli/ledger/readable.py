"""The ledger as people read it: one line an entry, for the terminal and for spreadsheets."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from storage.ledger.cap_document import limit_text
from storage.ledger.entries import Entry
from storage.ledger.history import MALFORMED
from storage.ledger.publishing import Publication
from storage.ledger.request import AccountSpec, HolderSpec, released_under

FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""How a text starts that a spreadsheet would run."""

Payload = Mapping[str, Any]


def line_of(entry: Entry) -> dict[str, Any]:
    """One entry in few words; the cost of charges only."""
    stated, named = entry.payload, _named(entry.payload)
    try:
        cost = stated["cost"]["readable"] if entry.kind == "charge" else None
        what = WORDS[entry.kind](stated)
    except MALFORMED:  # the audit names what is wrong with it
        what, cost = "not what this program wrote: run `dpbayes audit`", None
    return {
        "seq": entry.seq,
        "date": stated.get("date"),
        "actor": stated.get("actor"),
        "kind": entry.kind,
        "what": what,
        "cost": cost,
        "reason": stated.get("reason"),
        **{name: named[name] for name in ("account", "study", "period")},
        "key": entry.key,
        "hash": entry.hash,
    }


def spreadsheet(entries: Iterable[Entry]) -> Iterator[str]:
    """The same as lines of CSV, with what names a charge in columns of its own; no cell runs as a formula."""
    yield _row(COLUMNS)
    for entry in entries:
        line = line_of(entry)
        cost = line["cost"] or {}
        line |= {"epsilon": cost.get("epsilon"), "rho": cost.get("rho")}
        line |= _named(entry.payload)
        yield _row(line[name] for name in COLUMNS)


NAMES = ("account", "programme", "study", "release", "period", "holder", "revision")
COLUMNS = ("seq", "date", "actor", "kind", *NAMES, "epsilon", "rho", "what", "reason", "hash")


def _named(stated: Payload) -> dict[str, Any]:
    """What an entry is about; of a withdrawal, what the release that it withdraws is."""
    named = {name: stated.get(name) for name in NAMES}
    with suppress(*MALFORMED):
        if "withdraws" in stated:
            named |= released_under(stated["withdraws"])
    return named


def _row(cells: Iterable[object]) -> str:
    sink = io.StringIO()
    csv.writer(sink).writerow("" if cell is None else _inert(str(cell)) for cell in cells)
    return sink.getvalue()


def _inert(cell: str) -> str:
    """The text behind an apostrophe where a spreadsheet would take it for a formula."""
    return f"'{cell}" if cell.lstrip(" ").startswith(FORMULA) else cell


def _account(stated: Payload) -> str:
    spec = AccountSpec.from_record(stated["spec"])
    caps = ", ".join(f"{cap.name} {limit_text(cap)}" for cap in spec.caps)
    return f"{spec.population} opened with {caps}" + ("" if spec.holders is None else f"; {_split(spec.holders)}")


def _split(holders: HolderSpec) -> str:
    """How people are split over holders, in few words."""
    return f"holders by {holders.by}: {', '.join(holders.names)} ({holders.membership})"


def _charge(stated: Payload) -> str:
    return f"{_released(stated)}, {stated['mechanism']['name']}"


def _released(stated: Payload) -> str:
    holder = "" if stated["holder"] is None else f" at {stated['holder']}"
    revision = "" if stated["revision"] == 1 else f", revision {stated['revision']}"
    return f"{stated['release']} of {stated['period']}{holder}{revision}"


def _withdrawal(stated: Payload) -> str:
    return f"{_released(released_under(stated['withdraws']))} withdrawn"


def _key(stated: Payload) -> str:
    return f"{stated['public_key']} signs from here on"


def _publication(stated: Payload) -> str:
    if "adopts" in stated:
        many = len(stated["adopts"])
        return f"{many} posterior{'' if many == 1 else 's'} that stood in the archive put on record"
    one = Publication.from_record(stated)
    return f"{one.analysis} of {one.period} published ({one.status}), statement {one.statement[:16]}"


WORDS: Mapping[str, Callable[[Payload], str]] = {
    "genesis": lambda stated: "the ledger was made",
    "account": _account,
    "charge": _charge,
    "raise": lambda stated: (
        f"{stated['cap']} cap of {stated['account'] or 'the programme'} raised to {stated['limit']}"
    ),
    "close": lambda stated: f"{stated['period']} of {stated['account']} closed",
    "withdraw": _withdrawal,
    "note": lambda stated: "a note",
    "key": _key,
    "publish": _publication,
}
