"""The releases that a crate contains, each with the files that prove it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, Files
from dpbayes.crates.release import ENTRY, NOISY, RECORD, STUDY, entry_of
from dpbayes_core.canonical import sha256_of
from dpbayes_core.errors import IntegrityFailure, StudyInvalid
from dpbayes_core.privacy.release import AnyRelease
from dpbayes_core.regression.pool import pooled
from dpbayes_core.releases import release_from_record
from storage.files.archive_paths import release_path
from storage.home.signatures import read_public_key
from storage.ledger.entries import Entry

FOLDER = "releases"  # of a crate with its releases in folders of their own
CONTAINED: Mapping[str, str] = {
    RECORD: "A release that was analysed",
    NOISY: "Its noisy statistics with the scale of the noise in each, in standardised units",
    ENTRY: "The ledger entry that paid for the release and holds it",
    STUDY: "Its study file as it was given",
    PUBLIC_KEY: "The public key of those who published it",
    ATTESTATION: "Their signed statement about every file of the crate that the release was taken from",
}
"""The files that a crate copies from each release's own crate, signatures included."""


@dataclass(frozen=True)
class Source:
    """One release with the files that prove it: those of `CONTAINED` that exist."""

    files: Files

    @cached_property
    def entry(self) -> Entry:
        """The ledger entry that contains the release."""
        return entry_of(self.files)

    @cached_property
    def release(self) -> AnyRelease:
        """The release itself."""
        return read_entry(self.entry.release or b"")

    @cached_property
    def record(self) -> dict[str, Any]:
        """The public record of the release."""
        return json.loads(self.files[RECORD])

    @property
    def digest(self) -> str:
        """The release's digest, as the ledger entry states it."""
        return self.entry.payload["digest"]

    @property
    def signed_by(self) -> str | None:
        """The fingerprint of the key that came with it; an audit verifies the signature."""
        return read_public_key(self.files[PUBLIC_KEY])[0] if PUBLIC_KEY in self.files else None

    def link(self, *, proven: bool) -> dict[str, Any]:
        """Where the release is archived and what identifies it; if `proven`, also its own attestation."""
        stated, path = self.entry.payload, release_path(self.entry.to_record())
        found: dict[str, Any] = {
            "crate": path,
            "digest": stated["digest"],
            "holder": stated["holder"],
            "ledger": {"hash": self.entry.hash, "seq": self.entry.seq},
            "period": stated["period"],
            "release": stated["release"],
            "revision": stated["revision"],
            "study": stated["study"],
        }
        if proven:
            found["attestation"] = {"sha256": sha256_of(self.files[ATTESTATION]), "signed_by": self.signed_by}
        return found


def contained_files(sources: Sequence[Source]) -> dict[str, bytes]:
    """The files of several releases, each in a folder of its own, as one crate contains them."""
    return {
        f"{_folder(source.digest)}/{name}": source.files[name]
        for source in sources
        for name in CONTAINED
        if name in source.files
    }


def described(files: Files) -> dict[str, str]:
    """What each contained file is."""
    return {name: CONTAINED[name.rpartition("/")[2]] for name in files if name.startswith(f"{FOLDER}/")}


def sources_of(files: Files, place: str = "the crate") -> tuple[Source, ...]:
    """The releases in a crate of any kind, in the order of pools; `place` names the crate in errors."""
    if ENTRY in files:
        return (Source({name: files[name] for name in CONTAINED if name in files}),)
    folders: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        root, _, rest = name.partition("/")
        if root == FOLDER and rest.count("/") == 1:
            folder, _, own = rest.partition("/")
            folders.setdefault(folder, {})[own] = data
    found = [Source(each) for each in folders.values() if ENTRY in each]
    if not found or len(found) < len(folders):
        raise IntegrityFailure(f"cannot read {place}: it holds no release. Fetch the crate of a release or posterior.")
    return tuple(sorted(found, key=lambda source: order_of(source.entry)))


def named(sources: Sequence[Source], name: str) -> str:
    """What the releases state under `name`, such as their account; several with commas."""
    return ", ".join(dict.fromkeys(str(source.entry.payload[name]) for source in sources))


def order_of(entry: Entry) -> tuple[str, ...]:
    """The sort key by which releases are pooled."""
    stated = entry.payload
    return (stated["study"], stated["release"], stated["period"], stated["holder"] or "", stated["digest"])


def evidence_of(entries: Sequence[Entry], *, alike: bool = False) -> Any:
    """The input of a sampler: the one release, or a pool of all of them, alike or not, in the order of the entries."""
    releases: list[Any] = [read_entry(entry.release or b"") for entry in entries]
    if len(releases) > 1 and (kinds := {each.kind for each in releases} - {"regression"}):
        raise StudyInvalid(
            f"cannot pool releases of kind {min(kinds)}: only regressions are pooled. Analyse one of them at a time."
        )
    try:
        return pooled(releases, alike=alike)
    except ValueError as flaw:
        raise StudyInvalid(str(flaw)) from None


@lru_cache(maxsize=64)
def read_entry(release: bytes) -> AnyRelease:
    """The release in an entry; cached, because every posterior reads it again, and its loss is slow to compute."""
    return release_from_record(json.loads(release))


def _folder(digest: str) -> str:
    return f"{FOLDER}/{digest[:16]}"
