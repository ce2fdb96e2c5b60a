"""The releases that a crate contains, each with the files that prove it, from whichever crate they were taken."""

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

FOLDER = "releases"  # of a crate that holds its releases in folders of their own
HELD: Mapping[str, str] = {
    RECORD: "A release that was analysed",
    NOISY: "Its noisy statistics with the scale of the noise in each, in standardised units",
    ENTRY: "The ledger entry that paid for the release and holds it",
    STUDY: "Its study file as it was given",
    PUBLIC_KEY: "The public key of those who published it",
    ATTESTATION: "Their signed statement about every file of the crate that the release was taken from",
}
"""What a crate keeps of each release's own crate, signatures included."""


@dataclass(frozen=True)
class Source:
    """One release with the files that prove it, `HELD` or what there is of them."""

    files: Files

    @cached_property
    def entry(self) -> Entry:
        """The ledger entry that holds the release."""
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
        """Where it is found and by what it is known; `proven` by an attestation of its own."""
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


def held(sources: Sequence[Source]) -> dict[str, bytes]:
    """The files of several releases, each in a folder of its own, as one crate contains them."""
    return {
        f"{_folder(source.digest)}/{name}": source.files[name]
        for source in sources
        for name in HELD
        if name in source.files
    }


def described(files: Files) -> dict[str, str]:
    """What each held file is."""
    return {name: HELD[name.rpartition("/")[2]] for name in files if name.startswith(f"{FOLDER}/")}


def sources_of(files: Files, place: str = "the crate") -> tuple[Source, ...]:
    """The releases that a crate holds, of whichever kind it is, in its own order; `place` is how a refusal calls it."""
    if ENTRY in files:
        return (Source({name: files[name] for name in HELD if name in files}),)
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
    """The order in which releases are pooled, whoever names them first."""
    stated = entry.payload
    return (stated["study"], stated["release"], stated["period"], stated["holder"] or "", stated["digest"])


def evidence_of(entries: Sequence[Entry], *, alike: bool = False) -> Any:
    """What a sampler takes: the one release, or a pool of all of them, alike or not; the entries in their order."""
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
    """The release in an entry; cached, for it is read again with every posterior, and its loss is slow to compute."""
    return release_from_record(json.loads(release))


def _folder(digest: str) -> str:
    return f"{FOLDER}/{digest[:16]}"
