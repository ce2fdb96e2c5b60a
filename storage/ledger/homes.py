"""Homes that share a ledger, identified by their signing keys: each change of key names the key it retires."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage.ledger.entries import Entry


@dataclass(frozen=True)
class Change:
    """An entry after which a home signs with a new key."""

    seq: int
    new: str
    old: str


def changes_of_key(entries: Iterable[Entry]) -> list[Change]:
    """Every change of key, in order; an entry that names or retires a key for a second time is left out."""
    found: list[Change] = []
    named, retired = set[str](), set[str]()
    for entry in entries:
        new, old = entry.payload.get("public_key"), entry.payload.get("retires")
        if entry.kind == "key" and isinstance(new, str) and isinstance(old, str):
            if key_flaw(entry, named, retired) is None:
                found.append(Change(entry.seq, new, old))
            named |= {new, old}
            retired.add(old)
    return found


def replaced_keys(entries: Iterable[Entry]) -> dict[str, str]:
    """New key to the key that it retired, by the entries that record such changes."""
    return {change.new: change.old for change in changes_of_key(entries)}


def home_of(key: str, replaced: Mapping[str, str]) -> str:
    """The first key of the home that a key belongs to; it identifies the home whichever key it has today."""
    while (before := replaced.get(key)) is not None:  # it ends: the new key of a change is never one named before
        key = before
    return key


def key_flaw(entry: Entry, known: Collection[str], retired: Collection[str]) -> str | None:
    """What is wrong with a change of key, given the keys that earlier entries name and retire; None if nothing."""
    new, old = entry.payload["public_key"], entry.payload["retires"]
    if new in known or new == old:
        return "it names a key that is older than it"
    return "it retires a key that was retired before" if old in retired else None


def strange_key(entry: Entry, own: Collection[str]) -> str | None:
    """What is wrong with a change of key that links one of a home's `own` keys to a foreign one; None if nothing."""
    named = {entry.payload.get("public_key"), entry.payload.get("retires")} if entry.kind == "key" else set[str]()
    tied = named & set(own) and named - set(own)
    return f"entry {entry.seq} ties a key of this home to one that it never had" if tied else None


def retirements(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Retired key to the number of the entry that retired it, the last that the key may sign."""
    found: dict[str, int] = {}
    for entry in entries:
        retired = entry["payload"].get("retires") if entry["kind"] == "key" else None
        if isinstance(retired, str):
            found.setdefault(retired, entry["seq"])
    return found
