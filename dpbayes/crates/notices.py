"""Signed notices beside the crates in an archive: this one was withdrawn, or superseded by a revision."""

import base64
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpbayes.crates.fetch import Fetched
from dpbayes.crates.format import release_path
from dpbayes.crates.posterior import RECORD as POSTERIOR
from dpbayes.crates.posterior import links_of
from dpbayes.strict_yaml.problem import shown
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError, IntegrityFailure
from storage.files.archive import Archive
from storage.home.signatures import Signer, encode_public_key, read_public_key, verify_stored
from storage.ledger.history import MALFORMED

Status = Literal["withdrawn", "superseded"]
Record = Mapping[str, Any]
Keys = Mapping[str, bytes]

NOTICE_TYPE = "application/vnd.dpbayes.notice+json"
"""The payload type of a notice: the act of the ledger and the crate that it is about, as canonical JSON."""
STATUSES: tuple[Status, ...] = ("withdrawn", "superseded")
POSTERIORS = "posteriors"
VERSION = 1
LARGEST = 1 << 20  # bytes of a notice: reasons are sentences


@dataclass(frozen=True)
class Notice:
    """What a notice says of one crate; who signed it, the reader has to judge."""

    crate: str
    status: Status
    date: str
    reason: str
    act: Record  # the ledger entry that says so: number and hash, and all of it where it is short
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
    """Where a notice lies: beside the folder of its crate, under a name that is seen in a listing."""
    return f"{crate}.{status.upper()}.{kind}"


def stated(crate: str, status: Status, release: str, act: Record) -> dict[str, Any]:
    """What a notice says, without its signer's key; `act` is the ledger entry that withdraws or supersedes."""
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


def plain_words(said: Record) -> bytes:
    """The same for whoever opens the folder."""
    what = "stands on a release that was " if said["crate"].startswith(POSTERIORS) else "was "
    name = notice_name(said["crate"].rpartition("/")[2], said["status"])
    return (
        f"The crate {said['crate']} {what}{said['status']} on {said['date']}, by ledger entry {said['act']['seq']}.\n"
        f"Reason: {said['reason']}\n"
        f"The signed notice is {name}, in this folder.\n"
    ).encode()


def write_notices(archive: Archive, signer: Signer, charge: Record, act: Record, status: Status) -> list[str]:
    """Mark the crate of a charge and the posteriors that stand on it; again, it changes nothing. The names written.

    What lies there already is left as it is, whoever put it there: `unmarked` judges it.
    """
    names: list[str] = []
    for crate in marked(archive, charge):
        said = stated(crate, status, charge["key"], act)
        name, words = notice_name(crate, status), notice_name(crate, status, "txt")
        if not archive.exists(name):
            body = canonical_json({**said, "public_key": encode_public_key(signer.public_key).decode()})
            archive.write_once(name, canonical_json(signer.sign(NOTICE_TYPE, body)))
        if not archive.exists(words):
            archive.write_once(words, plain_words(said))
        names.append(name)
    return names


def marked(archive: Archive, charge: Record) -> list[str]:
    """The crates that a notice about a charge lies beside: the posteriors that stand on it, then its own."""
    return [*standing_on(archive, [charge["seq"]])[charge["seq"]], release_path(charge)]


def unmarked(archive: Archive, said: Record, trusted: Keys, retired: Mapping[str, int]) -> list[str]:
    """The files of one crate's notice that are missing, or that are not what they have to be: ours by its signature."""
    name, words = (notice_name(said["crate"], said["status"], kind) for kind in ("json", "txt"))
    sound = archive.exists(name) and notice_flaw(archive.read(name), name, said, trusted, retired) is None
    plain = archive.exists(words) and archive.read(words) == plain_words(said)
    return [*([] if sound else [name]), *([] if plain else [words])]


def standing_on(archive: Archive, charges: Iterable[int]) -> dict[int, list[str]]:
    """The posteriors of an archive that were drawn from charges, by their numbers."""
    found: dict[int, list[str]] = {seq: [] for seq in charges}
    for name in archive.list(POSTERIORS):
        if name.endswith(f"/{POSTERIOR}"):
            try:
                links = links_of(json.loads(archive.read(name)))
                for seq in {link["ledger"]["seq"] for link in links} & found.keys():
                    found[seq].append(name.removesuffix(f"/{POSTERIOR}"))
            except (*MALFORMED, RecursionError):  # the audit names it
                continue
    return found


def read_notice(data: bytes, name: str) -> Notice:
    """A notice whose signature holds for the key that it names; IntegrityFailure where it does not."""
    try:
        fingerprint, key = _signer(data)
        payload = verify_stored(data, {fingerprint: key}, payload_type=NOTICE_TYPE, thing=name)
        said = json.loads(payload)
        texts = (said[part] for part in ("crate", "date", "reason", "release"))
        plain = all(isinstance(text, str) for text in texts) and isinstance(said["act"]["seq"], int)
        if canonical_json(said) != payload or said["status"] not in STATUSES or not plain:
            raise ValueError(name)
        parts = (said[part] for part in ("crate", "status", "date", "reason", "act", "release"))
        return Notice(*parts, signed_by=fingerprint)
    except IntegrityFailure:
        raise
    except (*MALFORMED, RecursionError):
        raise IntegrityFailure(
            f"cannot read {shown(name, 300)}: it is no notice. Ask the agency what became of it."
        ) from None


def notice_flaw(data: bytes, name: str, said: Record, trusted: Keys, retired: Mapping[str, int]) -> str | None:
    """What keeps a file from being the notice of an act by a key that counted then."""
    try:
        notice = read_notice(data, name)
    except IntegrityFailure as failure:
        return str(failure)
    if notice.signed_by not in trusted or said["act"]["seq"] > retired.get(notice.signed_by, said["act"]["seq"]):
        return f"{name} was signed by no trusted key, or by one that was retired before"
    same = all(getattr(notice, part) == said[part] for part in ("act", "crate", "date", "reason", "release", "status"))
    return None if same else f"{name} says otherwise than the ledger"


def _signer(data: bytes) -> tuple[str, bytes]:
    payload = json.loads(base64.b64decode(json.loads(data)["payload"]))
    return read_public_key(payload["public_key"].encode())


def notices_beside(place: Path | str) -> list[Notice]:
    """What lies beside a crate that somebody names, in its archive; nothing where it was taken from there.

    A notice that is none, or of another crate, is an IntegrityFailure: somebody put it there, or changed it.
    """
    return [notice for status in STATUSES if (notice := _notice_beside(place, status))]


def _notice_beside(place: Path | str, status: Status) -> Notice | None:
    crate = str(place).rstrip("/").removesuffix(".zip")
    name = notice_name(crate, status)
    data = _beside(name)
    if data is None:
        return None
    notice = read_notice(data, name.rpartition("/")[2])
    if (notice.crate.rpartition("/")[2], notice.status) != (crate.rpartition("/")[2], status):
        raise IntegrityFailure(f"cannot trust {shown(name.rpartition('/')[2])}: it is the notice of another crate.")
    return notice


def _beside(name: str) -> bytes | None:
    protocol, separator, rest = name.partition("://")
    if separator and protocol not in ("file", "local"):
        base, _, file = name.rpartition("/")
        try:
            return Fetched(base).read(file, LARGEST)
        except DpbayesError:  # the crate itself was read: a server may keep what lies around it to itself
            return None
    path = Path(rest if separator else name).expanduser()
    try:
        with path.open("rb") as file:
            return file.read(LARGEST)
    except OSError:
        return None


def notice_records(place: Path | str, trusted: Collection[str]) -> list[dict[str, Any]]:
    """What lies beside a crate, for people under `said`, and for programs; also what could not be read as a notice.

    A fact is only what a trusted key signed: anybody may write a notice with a key of their own.
    """
    found: list[dict[str, Any]] = []
    for status in STATUSES:
        try:
            notice = _notice_beside(place, status)
        except IntegrityFailure as failure:
            said = (
                f"a file beside {shown(str(place), 300)} that calls itself a notice was altered, or is none: {failure}"
            )
            found.append({"said": said})
            continue
        if notice is not None:
            known = notice.signed_by in trusted
            found.append({"said": _told(place, notice, known=known), **notice.to_record(), "trusted": known})
    return found


def _told(place: Path | str, notice: Notice, *, known: bool) -> str:
    crate = shown(str(place), 300)
    if known:
        return f"{crate} was {notice.words()} Signed by {notice.signed_by}."
    return (
        f"somebody says that {crate} was {notice.words()} It is signed by {notice.signed_by}, by a key that "
        "you did not name: ask the agency."
    )
