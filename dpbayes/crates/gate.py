"""Finds which key signed a crate; until then only keys and signed statements in it are parsed."""

import json
from collections.abc import Collection, Sequence

from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, STATEMENT_TYPE, Files
from dpbayes_core.canonical import sha256_of
from dpbayes_core.errors import IntegrityFailure
from storage.home.signatures import read_public_key, verify_stored
from storage.ledger.check import Check
from storage.ledger.history import MALFORMED

TRUSTED = "the key is trusted"
SIGNED = "every file is signed for"
PROVEN = "every release inside is signed for"


INSIDE = "releases"  # the folder of a crate in which each release has one of its own
UNREAD = "nothing in it was read"
NONE_TRUSTED = "which is none of those trusted"
_DEPTH = 2  # folders above a file of such a release


def closed_to(files: Files, wanted: Collection[str]) -> Check | None:
    """The check that forbids reading a crate; None if a trusted key signed it, or every release in it.

    `wanted` are the trusted fingerprints in their one spelling. A posterior by another key is read for its releases,
    within the limits of any crate.
    """
    own = _key(files)
    if own is not None and own[0] in wanted:
        changed, missing = _changed(files, own)
        return _closed(SIGNED, [*changed, *missing])
    folders = releases_inside(files)
    if not folders:
        return _closed(TRUSTED, [f"{PUBLIC_KEY} is {_key_words(own)}"])
    for folder, inside in folders.items():
        key = _key(inside)
        if key is None or key[0] not in wanted:
            return _closed(TRUSTED, [f"{PUBLIC_KEY} of a release inside is {_key_words(key)}"])
        if closed := _closed(PROVEN, _changed(inside, key, f" of the release {folder[:16]}")[0]):
            return closed
    return None


def releases_inside(files: Files) -> dict[str, dict[str, bytes]]:
    """The files of each release that has a folder of its own, by the folder's name."""
    found: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        root, _, rest = name.partition("/")
        if root == INSIDE and name.count("/") == _DEPTH:
            folder, _, own = rest.partition("/")
            found.setdefault(folder, {})[own] = data
    return found


def _changed(files: Files, key: tuple[str, bytes], where: str = "") -> tuple[list[str], list[str]]:
    """The files that differ from their statement, which `key` must have signed; and the missing ones."""
    if ATTESTATION not in files:
        return [f"{ATTESTATION}{where} is missing"], []
    try:
        payload = verify_stored(
            files[ATTESTATION], dict([key]), payload_type=STATEMENT_TYPE, thing=f"{ATTESTATION}{where}"
        )
        stated = {each["name"]: each["digest"]["sha256"] for each in json.loads(payload)["subject"]}
    except IntegrityFailure as failure:
        return [str(failure).rstrip(".")], []
    except (*MALFORMED, RecursionError):
        return [f"{ATTESTATION}{where} is not the statement about a crate"], []
    present = {name: sha256_of(data) for name, data in files.items() if name != ATTESTATION}
    found = [f"{name}{where} was added" for name in sorted(present.keys() - stated.keys())]
    found += [
        f"{name}{where} was altered" for name in sorted(present.keys() & stated.keys()) if present[name] != stated[name]
    ]
    return found, [f"{name}{where} is missing" for name in sorted(stated.keys() - present.keys())]


def _closed(check: str, found: Sequence[str]) -> Check | None:
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return Check(check, False, f"{'; '.join([*found[:_SHOWN], *more])}; {UNREAD}") if found else None


_SHOWN = 5


def _key(files: Files) -> tuple[str, bytes] | None:
    try:
        return read_public_key(files.get(PUBLIC_KEY, b""))
    except IntegrityFailure:
        return None


def _key_words(key: tuple[str, bytes] | None) -> str:
    return "missing or holds no key" if key is None else f"the key {key[0]}, {NONE_TRUSTED}"
