"""What an audit looked at, by the names that people know: accounts of a ledger, releases of a crate."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from dpbayes.crates.contained_releases import named, sources_of
from storage.ledger.entries import Entry
from storage.ledger.history import MALFORMED

NAMES = ("study", "account", "period")


def noting(entries: Iterable[Entry], accounts: list[str]) -> Iterator[Entry]:
    """The entries as they are, while the accounts that they open are noted."""
    for entry in entries:
        if entry.kind == "account":
            accounts.append(str(entry.payload.get("account")))
        yield entry


def about_crate(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Study, account and period of the releases in a crate that passed; several are told with commas."""
    found: dict[str, Any] = {}
    with suppress(*MALFORMED):
        sources = sources_of(files)
        found = {name: named(sources, name) for name in NAMES}
    return found
