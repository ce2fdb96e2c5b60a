"""The ledger in one file that an auditor can check with nothing else but a fingerprint, or a spreadsheet can open."""

import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError, IntegrityFailure, StudyInvalid
from storage.files.archive import Archive
from storage.files.limits import MOST_BYTES, MOST_LEDGER_NODES, read_bounded, refuse_shape
from storage.home.signatures import Signer, encode_public_key, enveloped, read_public_key, signers_of
from storage.ledger.anchors import Anchors
from storage.ledger.entries import Entry
from storage.ledger.history import MALFORMED
from storage.ledger.ledger import Ledger
from storage.ledger.offline_ledger import HEAD_TYPE, OfflineLedger, signers_of_entry
from storage.ledger.readable import spreadsheet

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


class Open(Protocol):
    """A ledger with its anchors, opened to be written or only to be read."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def anchors(self) -> Anchors: ...


def export(books: Open, target: Path, signer: Signer | None) -> int:
    """Write the whole ledger, as JSON or CSV by the file's name; the number of entries written.

    Whoever cannot sign the head gives the signatures of its anchor instead, and leaves out what is not anchored yet.
    """
    lines = {".json": _json, ".csv": _csv}.get(target.suffix)
    if lines is None:
        raise StudyInvalid(f"cannot export to {target}: its name ends in neither .json nor .csv. Choose one that does.")
    head = books.ledger.head if signer is not None else _anchored(books)
    try:
        with target.open("x", encoding="utf-8", newline="") as file, _whole_or_gone(target):
            file.writelines(lines(books, head, signer))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise StudyInvalid(f"cannot export to {target}: the file exists. Choose another name.") from None
    except OSError as error:
        raise DpbayesError(f"cannot export to {target}: {error.strerror}. Choose another file.") from error
    return head.seq


@contextmanager
def _whole_or_gone(target: Path) -> Generator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def read_export(path: Path) -> OfflineLedger:
    """What an exported file holds."""
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
    """What the anchors and keys of an archive hold, without any database."""
    anchors = Anchors(archive, None)
    keys = anchors.published_keys()
    entries = tuple(Entry.from_record(record) for record in anchors.read_all(keys))
    if not entries:
        raise StudyInvalid("cannot read the anchors: there are none in this archive. Name another.")
    signers = {entry.seq: anchors.signers(entry.seq, keys) for entry in entries if entry.kind == "key"}
    return OfflineLedger(entries, keys, anchors.signers(entries[-1].seq, keys), signers)


def _anchored(books: Open) -> Entry:
    entry = books.ledger.entry_at(books.anchors.newest())
    if entry is None:
        raise IntegrityFailure("cannot export the ledger: nothing of it is anchored. Ask its steward to write to it.")
    return entry


def _json(books: Open, head: Entry, signer: Signer | None) -> Iterator[str]:
    """One entry a line, so that the file can be compared and searched by line."""
    stated = canonical_json({"hash": head.hash, "seq": head.seq})
    known = books.anchors.published_keys() if signer is None else signer.trusted
    begin = {
        "format": FORMAT,
        "version": VERSION,
        "head": signer.sign(HEAD_TYPE, stated)["signatures"] if signer else [],
        **({} if signer else {"anchor": books.anchors.signatures(head.seq)}),
        "keys": [encode_public_key(key).decode() for _, key in sorted(known.items())],
        "changes": {str(entry.seq): books.anchors.signatures(entry.seq) for entry in books.ledger.key_entries()},
    }
    yield canonical_json(begin).decode()[:-1] + ',"entries":[\n'
    for entry in books.ledger.entries_after(0):
        if entry.seq <= head.seq:
            yield canonical_json(entry.to_record()).decode() + (",\n" if entry.seq < head.seq else "\n")
    yield "]}\n"


def _csv(books: Open, head: Entry, signer: Signer | None) -> Iterator[str]:
    return spreadsheet(entry for entry in books.ledger.entries_after(0) if entry.seq <= head.seq)


def _offline_ledger(document: Any) -> OfflineLedger:
    if (document["format"], document["version"]) != (FORMAT, VERSION) or not document["entries"]:
        raise ValueError(document["version"])
    keys = dict(read_public_key(pem.encode()) for pem in document["keys"])
    entries = tuple(_entry(record) for record in document["entries"])
    last = entries[-1]
    stated = canonical_json({"hash": last.hash, "seq": last.seq})
    # made anew around the last entry that is here: a head that was signed over another one does not verify
    signers = signers_of(enveloped(HEAD_TYPE, stated, document["head"]), keys, HEAD_TYPE)
    signers |= signers_of_entry(last, document.get("anchor", []), keys)
    changes = {
        entry.seq: signers_of_entry(entry, document["changes"].get(str(entry.seq), []), keys)
        for entry in entries
        if entry.kind == "key"
    }
    return OfflineLedger(entries, keys, signers, changes)


def _entry(record: Mapping[str, Any]) -> Entry:
    if record.keys() != TYPES.keys() or not all(isinstance(record[name], kind) for name, kind in TYPES.items()):
        raise ValueError(FORMAT)
    return Entry.from_record(record)
