"""Why a key counts in the audit of one crate, in the words of a sentence: who named it, or what vouches for it."""

from collections.abc import Iterable
from dataclasses import dataclass

from storage.ledger.offline_ledger import spelled


@dataclass(frozen=True)
class Reasons:
    """What to say of the keys that count: those that the auditor named, of a home, or that a ledger vouches for."""

    named: frozenset[str] = frozenset()
    home: frozenset[str] = frozenset()  # of the home nearby, where the auditor named none
    ledger: bool = False  # whether there is one at hand, to say which keys came before and after

    @classmethod
    def of(cls, named: Iterable[str], home: Iterable[str] = (), *, ledger: bool = False) -> "Reasons":
        """The reasons of an auditor who named some keys, or has those of a home."""
        return cls(frozenset(map(spelled, named)), frozenset(map(spelled, home)), ledger)

    def why(self, fingerprint: str) -> str:
        """Why a key that counts does."""
        if fingerprint in self.named:
            return "which you named"
        if fingerprint in self.home:
            return "a key of this home; you named none"
        return f"which the ledger vouches for, through {'the key you named' if self.named else 'a key of this home'}"

    def each(self, fingerprints: Iterable[str]) -> str:
        """Keys that count, with their reasons."""
        found: dict[str, list[str]] = {}
        for name in sorted(fingerprints):
            found.setdefault(self.why(name), []).append(name)
        return ", and ".join(f"{' and '.join(names)}, {reason}" for reason, names in found.items())

    @property
    def strange(self) -> str:
        """What is said of a key that does not count."""
        if self.home and not self.named:
            return "which is no key of this home"
        return "which neither you nor the ledger named" if self.ledger else "which you did not name"

    @property
    def nobody(self) -> str:
        """What is said where no key that counts signed."""
        if self.ledger:
            return "no statement of a key that counts here holds"
        return f"no statement of a key {'of this home' if self.home and not self.named else 'that you named'} holds"

    @property
    def advice(self) -> str:
        """What to do where a crate's key does not count."""
        if self.ledger:
            return ""
        return ". If it is an earlier key of the agency's, add `--ledger LEDGER.json`, or name that key"
