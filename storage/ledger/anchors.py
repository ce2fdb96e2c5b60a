"""Anchors: signed copies of ledger entries in the archive, which reveal a rewritten or restored database."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError, IntegrityFailure
from storage.files.archive import Archive
from storage.home.signatures import Signer, public_key_name, read_public_key, signers_of, verify_stored
from storage.ledger.check import Check
from storage.ledger.entries import Entry
from storage.ledger.homes import retirements

ANCHOR_TYPE = "application/vnd.dpbayes.ledger-entry+json"
"""The payload type of an anchor: the ledger entry's record as canonical JSON."""

Record = Mapping[str, Any]
"""A ledger entry as plain data: seq, kind, key, payload, release, prev_hash, hash."""


def anchor_name(seq: int) -> str:
    """The path of an entry's anchor in the archive."""
    return f"anchors/{seq:09d}.json"


class Anchors:
    """The anchors in one archive; without a signer they can only be read."""

    def __init__(self, archive: Archive, signer: Signer | None) -> None:
        self._archive = archive
        self._signer = signer

    def write(self, record: Record, *, cosigner: Signer | None = None) -> None:
        """Sign and store an entry's record; the same record again changes nothing, another one is refused."""
        if self._signer is None:
            raise DpbayesError("cannot write an anchor: these anchors were opened without a key. Open the home's own.")
        seq: int = record["seq"]
        envelope = self._signer.sign(ANCHOR_TYPE, canonical_json(record))
        if cosigner is not None:
            envelope["signatures"] += cosigner.sign(ANCHOR_TYPE, canonical_json(record))["signatures"]
        try:
            self._archive.write_once(anchor_name(seq), canonical_json(envelope))
        except IntegrityFailure:
            if not _same(self.read(seq, self._signer.trusted), record):  # the same entry signed by a past key is fine
                raise IntegrityFailure(
                    f"cannot anchor ledger entry {seq}: {anchor_name(seq)} holds another entry of that number. "
                    "Was the ledger restored from a backup? Run `dpbayes audit`."
                ) from None

    def exists(self, seq: int) -> bool:
        """Whether an entry has its anchor."""
        return self._archive.exists(anchor_name(seq))

    def newest(self) -> int:
        """The number of the newest anchored entry; 0 if there is none."""
        return max(self.numbers(), default=0)

    def check_newest(
        self,
        entry_at: Callable[[int], Entry | None],
        retired: Mapping[str, int] | None = None,
        numbers: Sequence[int] | None = None,
        trusted: Mapping[str, bytes] | None = None,
    ) -> None:
        """Refuse a ledger without the newest anchored entry, which is chained by hash to all earlier ones.

        `retired` gives the last entry that each retired key may sign. `numbers` are those of the anchors, if they were
        listed already: listing is slow over a network. `trusted` are the public keys to use if there is no signer.
        """
        seq = max(self.numbers() if numbers is None else numbers, default=0)
        counted = trusted if self._signer is None else self._signer.trusted
        if seq == 0 or counted is None:
            return
        entry, last = entry_at(seq), retired or {}
        in_force = {name: key for name, key in counted.items() if seq <= last.get(name, seq)}
        if entry is None or not _same(self.read(seq, in_force), entry.to_record()):
            what = "lacks that entry" if entry is None else "holds another entry there"
            raise IntegrityFailure(
                f"cannot use the ledger: {anchor_name(seq)} was written for it and it {what}. "
                "Was it restored from a backup? Run `dpbayes audit`."
            )

    def read(self, seq: int, trusted: Mapping[str, bytes]) -> dict[str, Any]:
        """The verified record of one anchor."""
        name = anchor_name(seq)
        payload = verify_stored(self._archive.read(name), trusted, payload_type=ANCHOR_TYPE, thing=name)
        record: Any = json.loads(payload)
        if not isinstance(record, dict) or canonical_json(record) != payload or record.get("seq") != seq:
            raise IntegrityFailure(f"cannot trust {name}: it is the anchor of another entry. Restore it from a copy.")
        return record

    def signatures(self, seq: int) -> list[dict[str, str]]:
        """The signatures on one anchor, unchecked."""
        return list(self._envelope(seq)["signatures"])

    def signers(self, seq: int, keys: Mapping[str, bytes]) -> frozenset[str]:
        """Which of the keys signed one anchor."""
        return signers_of(self._envelope(seq), keys, ANCHOR_TYPE)

    def _envelope(self, seq: int) -> dict[str, Any]:
        return json.loads(self._archive.read(anchor_name(seq)))

    def read_all(self, trusted: Mapping[str, bytes]) -> list[dict[str, Any]]:
        """Every verified record, in the ledger's order."""
        return [self.read(seq, trusted) for seq in self.numbers()]

    def unanchored(self, head: int, numbers: Sequence[int] | None = None) -> list[int]:
        """The numbers of entries up to `head` without anchor, left by killed runs; not always the newest."""
        anchored = set(self.numbers() if numbers is None else numbers)
        return [seq for seq in range(1, head + 1) if seq not in anchored]

    def check(self, entries: Sequence[Record], trusted: Mapping[str, bytes]) -> list[Check]:
        """Check that anchors are genuine, the ledger contains every anchored entry, and each entry is anchored."""
        records: dict[int, dict[str, Any]] = {}
        forged: list[str] = []
        retired, numbers = retirements(entries), self.numbers()
        for seq in numbers:
            in_force = {name: key for name, key in trusted.items() if seq <= retired.get(name, seq)}
            try:
                records[seq] = self.read(seq, in_force)
            except IntegrityFailure as failure:
                forged.append(str(failure) if in_force == trusted else f"{failure} A retired key does not count here.")
        return [_check_genuine(forged, records), _check_contained(records, entries), _check_complete(numbers, entries)]

    def publish_key(self) -> None:
        """Store the signer's public key in the archive, for auditors who know its fingerprint."""
        if self._signer is not None:
            self._archive.write_once(
                f"{_KEYS}/{public_key_name(self._signer.fingerprint)}", self._signer.export_public_key()
            )

    def published_keys(self) -> dict[str, bytes]:
        """Fingerprint to public key, for every published key; trust one only if its fingerprint is known."""
        return dict(read_public_key(self._archive.read(name)) for name in self._archive.list(_KEYS))

    def numbers(self) -> list[int]:
        """The numbers of the anchored entries, by the names of the anchors alone."""
        found = (re.fullmatch(r"anchors/(\d{9,})\.json", name) for name in self._archive.list("anchors"))
        return sorted(int(match[1]) for match in found if match)


_KEYS = "keys"
_SHOWN = 3


def _same(one: Record, other: Record) -> bool:
    return canonical_json(one) == canonical_json(other)


def _check_genuine(forged: Sequence[str], records: Mapping[int, Record]) -> Check:
    more = f" So are {len(forged) - _SHOWN} more." if len(forged) > _SHOWN else ""
    detail = " ".join(forged[:_SHOWN]) + more if forged else f"{len(records)} anchors carry a trusted signature"
    return Check("anchors are genuine", not forged, detail)


def _check_contained(records: Mapping[int, Record], entries: Sequence[Record]) -> Check:
    """Check that the ledger still contains what was anchored; else it was rewritten or restored from a backup."""
    ledger = {entry["seq"]: entry for entry in entries}
    lost = [seq for seq in records if seq not in ledger]
    changed = [seq for seq, record in records.items() if seq in ledger and not _same(record, ledger[seq])]
    found = [f"the ledger lacks entry {_numbers(lost)}: was it restored from a backup?"] if lost else []
    found += [f"the ledger's entry {_numbers(changed)} is not the one that was anchored"] if changed else []
    return Check("the ledger holds every anchored entry", not found, "; ".join(found) or "it does")


def _check_complete(anchored: Sequence[int], entries: Sequence[Record]) -> Check:
    """Check that every entry is anchored; after a killed run, the last may lack its anchor until the next command."""
    known = set(anchored)
    numbers = [entry["seq"] for entry in entries if entry["seq"] not in known]
    last = max((entry["seq"] for entry in entries), default=None)
    if not numbers:
        detail = "each has its anchor"
    elif numbers == [last]:
        detail = f"entry {last} is not anchored yet: the next release or ledger act does it"
    else:
        detail = f"entry {_numbers(numbers)} has no anchor: a run was killed there, or anchors were taken away"
    return Check("every ledger entry is anchored", numbers in ([], [last]), detail)


def _numbers(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:_SHOWN])
    return shown + (" and more" if len(numbers) > _SHOWN else "")
