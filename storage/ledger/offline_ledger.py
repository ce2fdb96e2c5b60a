"""A ledger away from its database: entries, and the signatures that tie them to a key that somebody trusts."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from storage.home.signatures import enveloped, signers_of
from storage.ledger.anchors import ANCHOR_TYPE, retirements
from storage.ledger.check import Check
from storage.ledger.entries import Entry
from storage.ledger.homes import changes_of_key
from storage.ledger.publishing import summary
from storage.ledger.verify import verify

HEAD_TYPE = "application/vnd.dpbayes.ledger-head+json"
"""The payload type of a signed head: seq and hash of the last entry."""


@dataclass(frozen=True)
class OfflineLedger:
    """Entries in order, who signed the last of them, and who signed the changes of key."""

    entries: tuple[Entry, ...]
    keys: Mapping[str, bytes]  # fingerprint to public key, as found beside the entries: nobody trusts them yet
    head: frozenset[str]  # whose signature covers the last entry, and with it by the chain every earlier one
    changes: Mapping[int, frozenset[str]]  # whose signature covers a change of key, by its number

    @property
    def in_force(self) -> frozenset[str]:
        """Who signed the last entry with a key that no entry before it retired."""
        last, retired = self.entries[-1].seq, retirements([entry.to_record() for entry in self.entries])
        return frozenset(name for name in self.head if last <= retired.get(name, last))

    def trusted(self, fingerprints: Iterable[str]) -> dict[str, bytes]:
        """The keys that count for an auditor who trusts some: those of the same homes, earlier and later.

        A key vouches for the one that retires it by signing the entry that says so; where it signed the last entry, or
        the key that does was led to, the newer one's signature there leads back. Whoever may write the database can add
        an entry that names a key of theirs, and homes anchor what others wrote: that alone vouches for no key.
        """
        counted = {spelled(each) for each in fingerprints}
        changes = changes_of_key(self.entries)
        for each in changes:
            if each.old in counted and each.old in self.changes.get(each.seq, ()):
                counted.add(each.new)
        if self.in_force & counted:
            for each in reversed(changes):
                if each.new in counted and each.new in self.changes.get(each.seq, ()):
                    counted.add(each.old)
        return {name: key for name, key in self.keys.items() if name in counted}

    def check(self, fingerprints: Collection[str]) -> list[Check]:
        """What an auditor asks who has nothing but this and the fingerprints they trust."""
        checks = verify(self.entries)
        signers = self.in_force & self.trusted(fingerprints).keys()
        named = ", ".join(sorted(self.in_force or self.head)) or "nobody whose key is here"
        late = ", which was retired before it" if self.head and not self.in_force else ""
        detail = f"signed by {', '.join(sorted(signers))}" if signers else f"it was signed by {named}{late}"
        signed = Check("the last entry is signed by a trusted key", bool(signers), detail)
        return [*checks, signed, Check(COUNTED, True, summary(self.entries))]


COUNTED = "analyses are on record"


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
