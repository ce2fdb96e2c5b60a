"""An entry of the ledger, chained by hash to the one before it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from dpbayes_core.canonical import canonical_json

SCHEMA_VERSION = 1
BEFORE_GENESIS = "0" * 64  # prev_hash of the first entry
COPIED = ("account", "period", "programme")  # payload fields that are also columns, for indexes

_quoted = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True)
class Stamp:
    """The actor, UTC date and software versions of an entry."""

    actor: str
    date: date
    software: Mapping[str, str]

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {"actor": self.actor, "date": self.date.isoformat(), "software": dict(self.software)}


@dataclass(frozen=True)
class Entry:
    """An entry; `release` is a charge's noisy release as canonical JSON, None for every other kind."""

    seq: int
    kind: str
    key: str
    payload: Mapping[str, Any]
    release: bytes | None
    prev_hash: str
    hash: str

    @classmethod
    def following(
        cls, last: "Entry | None", *, kind: str, key: str, payload: Mapping[str, Any], release: bytes | None = None
    ) -> "Entry":
        """The entry that comes next in the chain."""
        seq, prev_hash = (1, BEFORE_GENESIS) if last is None else (last.seq + 1, last.hash)
        entry = cls(seq, kind, key, payload, release, prev_hash, "")
        object.__setattr__(entry, "hash", entry.computed_hash)  # set once, before anything else sees it
        return entry

    def __hash__(self) -> int:
        return hash(self.hash)  # entries are keys of caches

    @cached_property
    def text(self) -> str:
        """The payload as canonical JSON."""
        return canonical_json(self.payload).decode()

    @property
    def computed_hash(self) -> str:
        """sha256 over everything but the hash itself; it equals `hash` unless the entry was edited."""
        return hash_of(self, self.text)

    @property
    def copies(self) -> dict[str, str | None]:
        """The values of the columns `COPIED`."""
        return {name: self.payload.get(name) for name in COPIED}

    def to_record(self) -> dict[str, Any]:
        """The whole entry as plain data, for anchors and exports."""
        return {
            "hash": self.hash,
            "key": self.key,
            "kind": self.kind,
            "payload": dict(self.payload),
            "prev_hash": self.prev_hash,
            "release": None if self.release is None else self.release.decode(),
            "seq": self.seq,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Entry":
        """The inverse of `to_record`."""
        fields: dict[str, Any] = dict(record)
        release: str | None = record["release"]
        fields["release"] = None if release is None else release.encode()
        return cls(**fields)


def hash_of(entry: Entry, payload: str) -> str:
    """sha256 of an entry's canonical JSON without the hash; `payload` is the payload's canonical JSON."""
    key, kind, prev_hash = (_quoted(text) for text in (entry.key, entry.kind, entry.prev_hash))
    release = "null" if entry.release is None else _quoted(entry.release.decode())
    body = (
        f'"key":{key},"kind":{kind},"payload":{payload},"prev_hash":{prev_hash},"release":{release},"seq":{entry.seq}'
    )
    return hashlib.sha256(f"{{{body}}}".encode()).hexdigest()


def act_key(kind: str, *names: str) -> str:
    """The key of an entry that is not a charge: a JSON object, which cannot equal a release's key, a JSON list."""
    return canonical_json({kind: list(names)}).decode()
