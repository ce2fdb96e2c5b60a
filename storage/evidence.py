"""A ledger away from its database: entries, and the signatures that tie them to a key that somebody trusts."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from storage.anchors import ANCHOR_TYPE, retirements
from storage.ledger.check import Check
from storage.ledger.entries import Entry
from storage.ledger.verify import verify
from storage.signatures import enveloped, signers_of

HEAD_TYPE = "application/vnd.dpbayes.ledger-head+json"
"""The payload type of a signed head: seq and hash of the last entry."""


@dataclass(frozen=True)
class Evidence:
    """Entries in order, who signed the last of them, and who signed the changes of key."""

    entries: tuple[Entry, ...]
    keys: Mapping[str, bytes]  # fingerprint to public key, as found beside the entries: nobody trusts them yet
    head: frozenset[str]  # whose signature covers the last entry, and with it by the chain every earlier one
    changes: Mapping[int, frozenset[str]]  # whose signature covers a change of key, by its number

    def trusted(self, fingerprints: Iterable[str]) -> dict[str, bytes]:
        """The keys that count for an auditor who trusts some: those they vouch for, and those of the chain they sign.

        A key vouches for its successor by signing the entry that names it. Who signed the last entry vouches for the
        whole chain, and so for every key that the chain names.
        """
        counted = {spelled(each) for each in fingerprints}
        records = [entry.to_record() for entry in self.entries]
        retired = retirements(records)
        for entry in self.entries:
            signers = {name for name in self.changes.get(entry.seq, ()) if entry.seq <= retired.get(name, entry.seq)}
            if signers & counted:
                counted.add(str(entry.payload.get("public_key")))
        if self.head & counted:
            counted |= {str(entry.payload.get("public_key")) for entry in self.entries if entry.kind in NAMING}
        return {name: key for name, key in self.keys.items() if name in counted}

    def check(self, fingerprints: Collection[str]) -> list[Check]:
        """What an auditor asks who has nothing but this and the fingerprints they trust."""
        checks = verify(self.entries)
        signers = self.head & self.trusted(fingerprints).keys()
        named = ", ".join(sorted(self.head)) or "nobody whose key is here"
        detail = f"signed by {', '.join(sorted(signers))}" if signers else f"it was signed by {named}"
        return [*checks, Check("the last entry is signed by a trusted key", bool(signers), detail)]


NAMING = ("genesis", "key")
"""The kinds of entries that name a signing key."""


def spelled(fingerprint: str) -> str:
    """A fingerprint in its one spelling, however the auditor wrote it."""
    return f"SHA256:{fingerprint.strip().removeprefix('SHA256:').lower()}"


def refuse_unspelled(fingerprints: Iterable[str]) -> None:
    """Refuse what no fingerprint can be, before it is taken for one that nobody trusts."""
    for fingerprint in fingerprints:
        if not re.fullmatch(r"(SHA256:)?[0-9a-fA-F]{64}", fingerprint.strip()):
            raise StudyInvalid("cannot trust this key: it is no fingerprint. Write SHA256: and 64 hex digits.")


def signers_of_entry(entry: Entry, signatures: Sequence[Any], keys: Mapping[str, bytes]) -> frozenset[str]:
    """The same of an entry whose anchor's signatures are at hand without the anchor."""
    return signers_of(enveloped(ANCHOR_TYPE, canonical_json(entry.to_record()), signatures), keys, ANCHOR_TYPE)
