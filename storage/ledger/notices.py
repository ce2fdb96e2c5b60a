"""Signed notices next to crates in an archive, which say that a release was withdrawn or superseded."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.text import shown
from storage.files.archive import Archive
from storage.files.archive_paths import POSTERIOR, links_of, release_path
from storage.home.signatures import Signer, encode_public_key, read_public_key, verify_stored
from storage.ledger.history import MALFORMED

Status = Literal["withdrawn", "superseded"]
Record = Mapping[str, Any]
Keys = Mapping[str, bytes]

NOTICE_TYPE = "application/vnd.dpbayes.notice+json"
"""The payload type of a notice: the crate and the ledger entry that concerns it, as canonical JSON."""
STATUSES: tuple[Status, ...] = ("withdrawn", "superseded")
POSTERIORS = "posteriors"
VERSION = 1


@dataclass(frozen=True)
class Notice:
    """A notice about one crate; the reader decides whether to trust its signer."""

    crate: str
    status: Status
    date: str
    reason: str
    act: Record  # the ledger entry: number and hash, or for a withdrawal the whole entry
    release: str  # the ledger's key of the release
    signed_by: str

    def words(self) -> str:
        """A sentence for people."""
        seq = self.act["seq"]
        return f"{self.status} on {self.date} (ledger entry {seq}): {self.reason.rstrip('.')}."

    def to_record(self) -> dict[str, Any]:
        """Plain data for programs."""
        return {"status": self.status, "date": self.date, "reason": self.reason, "signed_by": self.signed_by}


def notice_name(crate: str, status: Status, kind: str = "json") -> str:
    """The path of a notice: next to the folder of its crate, so that a listing shows both."""
    return f"{crate}.{status.upper()}.{kind}"


def notice_body(crate: str, status: Status, release: str, act: Record) -> dict[str, Any]:
    """The body of a notice without its signer's key; `act` is the ledger entry that withdraws or supersedes."""
    short = {name: act[name] for name in ("hash", "seq")}
    return {
        "act": dict(act) if status == "withdrawn" else short,
        "crate": crate,
        "date": act["payload"]["date"],
        "reason": act["payload"]["reason"],
        "release": release,
        "status": status,
        "version": VERSION,
    }


def plain_words(body: Record) -> bytes:
    """The text file of a notice, for people who open the folder."""
    what = "stands on a release that was " if body["crate"].startswith(POSTERIORS) else "was "
    name = notice_name(body["crate"].rpartition("/")[2], body["status"])
    return (
        f"The crate {body['crate']} {what}{body['status']} on {body['date']}, by ledger entry {body['act']['seq']}.\n"
        f"Reason: {body['reason']}\n"
        f"The signed notice is {name}, in this folder.\n"
    ).encode()


def write_notices(archive: Archive, signer: Signer, charge: Record, act: Record, status: Status) -> list[str]:
    """Write notices for a charge's crate and the posteriors drawn from it, and return their names; safe to repeat.

    An existing file is never replaced; `wrong_files` checks whether it is the right one.
    """
    names: list[str] = []
    for crate in crates_to_mark(archive, charge):
        body = notice_body(crate, status, charge["key"], act)
        name, words = notice_name(crate, status), notice_name(crate, status, "txt")
        if not archive.exists(name):
            signed = canonical_json({**body, "public_key": encode_public_key(signer.public_key).decode()})
            archive.write_once(name, canonical_json(signer.sign(NOTICE_TYPE, signed)))
        if not archive.exists(words):
            archive.write_once(words, plain_words(body))
        names.append(name)
    return names


def crates_to_mark(archive: Archive, charge: Record) -> list[str]:
    """The crates that get notices about a charge: the posteriors drawn from it, then its own."""
    records = (name for name in archive.list(POSTERIORS) if name.endswith(f"/{POSTERIOR}"))
    posteriors = (name.removesuffix(f"/{POSTERIOR}") for name in records)
    return [*drawn_from([charge["seq"]], posteriors, archive.read)[charge["seq"]], release_path(charge)]


def wrong_files(archive: Archive, body: Record, trusted: Keys, retired: Mapping[str, int]) -> list[str]:
    """The files of one crate's notice that are missing, or differ from those this home would write and sign."""
    name, words = (notice_name(body["crate"], body["status"], kind) for kind in ("json", "txt"))
    sound = archive.exists(name) and notice_flaw(archive.read(name), name, body, trusted, retired) is None
    plain = archive.exists(words) and archive.read(words) == plain_words(body)
    return [*([] if sound else [name]), *([] if plain else [words])]


def drawn_from(charges: Iterable[int], crates: Iterable[str], read: Callable[[str], bytes]) -> dict[int, list[str]]:
    """Number of each charge to the posteriors among `crates` that were drawn from its release."""
    found: dict[int, list[str]] = {seq: [] for seq in charges}
    for crate in crates:
        with suppress(*MALFORMED, RecursionError):  # the audit reports what cannot be read
            if crate.startswith(f"{POSTERIORS}/"):
                links = links_of(json.loads(read(f"{crate}/{POSTERIOR}")))
                for seq in {link["ledger"]["seq"] for link in links} & found.keys():
                    found[seq].append(crate)
    return found


def read_notice(data: bytes, name: str) -> Notice:
    """Parse a notice whose signature is valid for the key it contains; otherwise IntegrityFailure."""
    try:
        fingerprint, key = _signer(data)
        payload = verify_stored(data, {fingerprint: key}, payload_type=NOTICE_TYPE, thing=name)
        body = json.loads(payload)
        texts = (body[part] for part in ("crate", "date", "reason", "release"))
        plain = all(isinstance(text, str) for text in texts) and isinstance(body["act"]["seq"], int)
        if canonical_json(body) != payload or body["status"] not in STATUSES or not plain:
            raise ValueError(name)
        parts = (body[part] for part in ("crate", "status", "date", "reason", "act", "release"))
        return Notice(*parts, signed_by=fingerprint)
    except IntegrityFailure:
        raise
    except (*MALFORMED, RecursionError):
        raise IntegrityFailure(
            f"cannot read {shown(name, 300)}: it is no notice. Ask the agency what became of it."
        ) from None


def notice_flaw(data: bytes, name: str, body: Record, trusted: Keys, retired: Mapping[str, int]) -> str | None:
    """What is wrong with a file as the notice of that body, signed by a key trusted then; None if nothing."""
    try:
        notice = read_notice(data, name)
    except IntegrityFailure as failure:
        return str(failure)
    if notice.signed_by not in trusted or body["act"]["seq"] > retired.get(notice.signed_by, body["act"]["seq"]):
        return f"{name} was signed by no trusted key, or by one that was retired before"
    same = all(getattr(notice, part) == body[part] for part in ("act", "crate", "date", "reason", "release", "status"))
    return None if same else f"{name} says otherwise than the ledger"


def _signer(data: bytes) -> tuple[str, bytes]:
    payload = json.loads(base64.b64decode(json.loads(data)["payload"]))
    return read_public_key(payload["public_key"].encode())
