"""A ledger without its database, exported or read from its anchors, which auditors check with a fingerprint."""

import json
import os
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError, IntegrityFailure, StudyInvalid
from storage.files.archive import Archive
from storage.files.limits import MOST_BYTES, MOST_LEDGER_NODES, read_bounded, refuse_shape
from storage.home.signatures import Signer, encode_public_key, enveloped, read_public_key, signers_of
from storage.ledger.anchors import ANCHOR_TYPE, Anchors
from storage.ledger.check import Check
from storage.ledger.entries import Entry
from storage.ledger.history import MALFORMED
from storage.ledger.homes import changes_of_key, retirements
from storage.ledger.ledger import Ledger
from storage.ledger.verify import verify

HEAD_TYPE = "application/vnd.dpbayes.ledger-head+json"
"""The payload type of a signed head: seq and hash of the last entry."""
FORMAT = "dpbayes ledger"
VERSION = 1
TYPES: Mapping[str, type | tuple[type, ...]] = {
    "hash": str,
    "key": str,
    "kind": str,
    "payload": dict,
    "prev_hash": str,
    "release": (str, type(None)),
    "seq": int,
}
"""The fields of an entry's record."""


@dataclass(frozen=True)
class OfflineLedger:
    """All entries in order, with the signers of the last entry and of each change of key."""

    entries: tuple[Entry, ...]
    keys: Mapping[str, bytes]  # fingerprint to public key, from the same file or archive: not yet trusted
    head: frozenset[str]  # keys that signed the last entry, and so through the hash chain every earlier one
    changes: Mapping[int, frozenset[str]]  # number of each change-of-key entry to the keys that signed it

    @property
    def in_force(self) -> frozenset[str]:
        """The keys that signed the last entry and were not retired before it."""
        last, retired = self.entries[-1].seq, retirements([entry.to_record() for entry in self.entries])
        return frozenset(name for name in self.head if last <= retired.get(name, last))

    def trusted(self, fingerprints: Iterable[str]) -> dict[str, bytes]:
        """The public keys to trust, given trusted fingerprints: also earlier and later keys of the same homes.

        Forward: an old trusted key vouches for its successor by signing the entry that retires it. Backward: if a
        trusted key signed the last entry, a new trusted key's signature on such an entry vouches for its predecessor.
        An entry alone vouches for no key, since whoever can write the database can add one.
        """
        trusted = {spelled(each) for each in fingerprints}
        changes = changes_of_key(self.entries)
        for each in changes:
            if each.old in trusted and each.old in self.changes.get(each.seq, ()):
                trusted.add(each.new)
        if self.in_force & trusted:
            for each in reversed(changes):
                if each.new in trusted and each.new in self.changes.get(each.seq, ()):
                    trusted.add(each.old)
        return {name: key for name, key in self.keys.items() if name in trusted}

    def check(self, fingerprints: Collection[str]) -> list[Check]:
        """Check the entries, and that a trusted key signed the last one."""
        checks = verify(self.entries)
        signers = self.in_force & self.trusted(fingerprints).keys()
        named = ", ".join(sorted(self.in_force or self.head)) or "nobody whose key is here"
        late = ", which was retired before it" if self.head and not self.in_force else ""
        detail = f"signed by {', '.join(sorted(signers))}" if signers else f"it was signed by {named}{late}"
        signed = Check("the last entry is signed by a trusted key", bool(signers), detail)
        return [*checks, signed]


def spelled(fingerprint: str) -> str:
    """A fingerprint in canonical form: prefix SHA256: and lower case."""
    return f"SHA256:{fingerprint.strip().removeprefix('SHA256:').lower()}"


def refuse_unspelled(fingerprints: Iterable[str]) -> None:
    """Refuse text that is not a fingerprint, instead of reporting an untrusted key."""
    for fingerprint in fingerprints:
        if not re.fullmatch(r"(SHA256:)?[0-9a-fA-F]{64}", fingerprint.strip()):
            raise StudyInvalid("cannot trust this key: it is no fingerprint. Write SHA256: and 64 hex digits.")


class Open(Protocol):
    """A ledger opened with its anchors, for writing or reading."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def anchors(self) -> Anchors: ...


def export(
    source: Open, target: Path, signer: Signer | None, spreadsheet: Callable[[Iterable[Entry]], Iterable[str]]
) -> int:
    """Write the whole ledger to a .json file, or by `spreadsheet` to a .csv file; returns the number of entries.

    Without a signer for the head, the export ends at the newest anchored entry and has that anchor's signatures.
    """
    if target.suffix not in (".json", ".csv"):
        raise StudyInvalid(f"cannot export to {target}: its name ends in neither .json nor .csv. Choose one that does.")
    head = source.ledger.head if signer is not None else _newest_anchored(source)
    try:
        with target.open("x", encoding="utf-8", newline="") as file, _whole_or_gone(target):
            entries = takewhile(lambda entry: entry.seq <= head.seq, source.ledger.entries())
            file.writelines(_json(source, entries, head, signer) if target.suffix == ".json" else spreadsheet(entries))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise StudyInvalid(f"cannot export to {target}: the file exists. Choose another name.") from None
    except OSError as error:
        raise DpbayesError(f"cannot export to {target}: {error.strerror}. Choose another file.") from error
    return head.seq


@contextmanager
def _whole_or_gone(target: Path) -> Generator[None]:
    """Delete the file if the block fails."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def _newest_anchored(source: Open) -> Entry:
    entry = source.ledger.entry_at(source.anchors.newest())
    if entry is None:
        raise IntegrityFailure("cannot export the ledger: nothing of it is anchored. Ask its steward to write to it.")
    return entry


def _json(source: Open, entries: Iterable[Entry], head: Entry, signer: Signer | None) -> Iterator[str]:
    """The export as JSON, with one entry on each line."""
    stated = canonical_json({"hash": head.hash, "seq": head.seq})
    known = source.anchors.published_keys() if signer is None else signer.trusted
    begin = {
        "format": FORMAT,
        "version": VERSION,
        "head": signer.sign(HEAD_TYPE, stated)["signatures"] if signer else [],
        **({} if signer else {"anchor": source.anchors.signatures(head.seq)}),
        "keys": [encode_public_key(key).decode() for _, key in sorted(known.items())],
        "changes": {str(entry.seq): source.anchors.signatures(entry.seq) for entry in source.ledger.of_kind("key")},
    }
    yield canonical_json(begin).decode()[:-1] + ',"entries":[\n'
    for entry in entries:
        yield canonical_json(entry.to_record()).decode() + (",\n" if entry.seq < head.seq else "\n")
    yield "]}\n"


def read_export(path: Path) -> OfflineLedger:
    """The ledger in an exported file."""
    try:
        data = read_bounded(path, MOST_BYTES)
    except OSError as error:
        raise StudyInvalid(f"cannot read {path}: {error.strerror}. Name an exported ledger.") from error
    if data is None:
        raise IntegrityFailure(f"cannot read {path}: it is no plain file, or larger than any ledger. Fetch it again.")
    if path.suffix.lower() == ".csv" and not data.lstrip().startswith(b"{"):
        raise StudyInvalid(
            f"cannot audit {path}: a .csv is for spreadsheets. Export the ledger to a file that ends in .json."
        )
    refuse_shape(data, str(path), MOST_LEDGER_NODES)
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    try:
        return _offline_ledger(document)
    except (*MALFORMED, RecursionError):
        raise IntegrityFailure(
            f"cannot read {path}: it is no ledger that was exported whole. Fetch it again."
        ) from None


def read_anchors(archive: Archive) -> OfflineLedger:
    """The ledger in the anchors and keys of an archive, without any database."""
    anchors = Anchors(archive, None)
    keys = anchors.published_keys()
    entries = tuple(Entry.from_record(record) for record in anchors.read_all(keys))
    if not entries:
        raise StudyInvalid("cannot read the anchors: there are none in this archive. Name another.")
    signers = {entry.seq: anchors.signers(entry.seq, keys) for entry in entries if entry.kind == "key"}
    return OfflineLedger(entries, keys, anchors.signers(entries[-1].seq, keys), signers)


def _offline_ledger(document: Any) -> OfflineLedger:
    if (document["format"], document["version"]) != (FORMAT, VERSION) or not document["entries"]:
        raise ValueError(document["version"])
    keys = dict(read_public_key(pem.encode()) for pem in document["keys"])
    entries = tuple(_entry(record) for record in document["entries"])
    last = entries[-1]
    stated = canonical_json({"hash": last.hash, "seq": last.seq})
    # the envelope is rebuilt around the last entry of this file: a signature of another head does not verify
    signers = signers_of(enveloped(HEAD_TYPE, stated, document["head"]), keys, HEAD_TYPE)
    signers |= _signers_of(last, document.get("anchor", []), keys)
    changes = {
        entry.seq: _signers_of(entry, document["changes"].get(str(entry.seq), []), keys)
        for entry in entries
        if entry.kind == "key"
    }
    return OfflineLedger(entries, keys, signers, changes)


def _entry(record: Mapping[str, Any]) -> Entry:
    if record.keys() != TYPES.keys() or not all(isinstance(record[name], kind) for name, kind in TYPES.items()):
        raise ValueError(FORMAT)
    return Entry.from_record(record)


def _signers_of(entry: Entry, signatures: Sequence[Any], keys: Mapping[str, bytes]) -> frozenset[str]:
    """The keys that signed the anchor of an entry, given the anchor's signatures."""
    return signers_of(enveloped(ANCHOR_TYPE, canonical_json(entry.to_record()), signatures), keys, ANCHOR_TYPE)
