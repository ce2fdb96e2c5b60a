"""Each ledger entry in one readable line, for the terminal and for spreadsheets."""

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
"""Characters at the start of a cell that make a spreadsheet evaluate it."""

Payload = Mapping[str, Any]


def line_of(entry: Entry) -> dict[str, Any]:
    """One entry as a short document; only charges have a cost."""
    payload, named = entry.payload, _named(entry.payload)
    try:
        cost = payload["cost"]["readable"] if entry.kind == "charge" else None
        what = WORDS[entry.kind](payload)
    except MALFORMED:  # the audit says what is wrong with it
        what, cost = "not what this program wrote: run `dpbayes audit`", None
    return {
        "seq": entry.seq,
        "date": payload.get("date"),
        "actor": payload.get("actor"),
        "kind": entry.kind,
        "what": what,
        "cost": cost,
        "reason": payload.get("reason"),
        **{name: named[name] for name in ("account", "study", "period")},
        "key": entry.key,
        "hash": entry.hash,
    }


def spreadsheet(entries: Iterable[Entry]) -> Iterator[str]:
    """The entries as lines of CSV, with a column for each part of a release's name; no cell is read as a formula."""
    yield _row(COLUMNS)
    for entry in entries:
        line = line_of(entry)
        cost = line["cost"] or {}
        line |= {"epsilon": cost.get("epsilon"), "rho": cost.get("rho")}
        line |= _named(entry.payload)
        yield _row(line[name] for name in COLUMNS)


NAMES = ("account", "programme", "study", "release", "period", "holder", "revision")
COLUMNS = ("seq", "date", "actor", "kind", *NAMES, "epsilon", "rho", "what", "reason", "hash")


def _named(payload: Payload) -> dict[str, Any]:
    """The values of `NAMES` that an entry states; for a withdrawal, those of the withdrawn release."""
    named = {name: payload.get(name) for name in NAMES}
    with suppress(*MALFORMED):
        if "withdraws" in payload:
            named |= released_under(payload["withdraws"])
    return named


def _row(cells: Iterable[object]) -> str:
    sink = io.StringIO()
    csv.writer(sink).writerow("" if cell is None else _inert(str(cell)) for cell in cells)
    return sink.getvalue()


def _inert(cell: str) -> str:
    """The text, with an apostrophe in front if a spreadsheet would take it for a formula."""
    return f"'{cell}" if cell.lstrip(" ").startswith(FORMULA) else cell


def _account_text(payload: Payload) -> str:
    spec = AccountSpec.from_record(payload["spec"])
    caps = ", ".join(f"{cap.name} {limit_text(cap)}" for cap in spec.caps)
    return f"{spec.population} opened with {caps}" + ("" if spec.holders is None else f"; {_split_text(spec.holders)}")


def _split_text(holders: HolderSpec) -> str:
    """How people are split over holders, in words."""
    return f"holders by {holders.by}: {', '.join(holders.names)} ({holders.membership})"


def _charge_text(payload: Payload) -> str:
    return f"{_release_text(payload)}, {payload['mechanism']['name']}"


def _release_text(payload: Payload) -> str:
    holder = "" if payload["holder"] is None else f" at {payload['holder']}"
    revision = "" if payload["revision"] == 1 else f", revision {payload['revision']}"
    return f"{payload['release']} of {payload['period']}{holder}{revision}"


def _withdrawal_text(payload: Payload) -> str:
    return f"{_release_text(released_under(payload['withdraws']))} withdrawn"


def _key_text(payload: Payload) -> str:
    return f"{payload['public_key']} signs from here on"


def _publication_text(payload: Payload) -> str:
    if "adopts" in payload:
        many = len(payload["adopts"])
        return f"{many} posterior{'' if many == 1 else 's'} that stood in the archive put on record"
    one = Publication.from_record(payload)
    return f"{one.analysis} of {one.period} published ({one.status}), statement {one.statement[:16]}"


WORDS: Mapping[str, Callable[[Payload], str]] = {
    "genesis": lambda payload: "the ledger was made",
    "account": _account_text,
    "charge": _charge_text,
    "raise": lambda payload: (
        f"{payload['cap']} cap of {payload['account'] or 'the programme'} raised to {payload['limit']}"
    ),
    "close": lambda payload: f"{payload['period']} of {payload['account']} closed",
    "withdraw": _withdrawal_text,
    "note": lambda payload: "a note",
    "key": _key_text,
    "publish": _publication_text,
}
