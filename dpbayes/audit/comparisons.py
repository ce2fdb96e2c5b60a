"""The check of comparisons in an archive: each is signed, and follows from two published versions of one analysis."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dpbayes.audit.crate import run_check
from dpbayes.audit.pages import REACH, harmless, text_of
from dpbayes.crates.comparison import COMPARISON, PAGE, PREDICATE, Version, comparison_files
from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, STATEMENT_TYPE, Files, crate_digest
from dpbayes.crates.own_source import makes_the_same
from dpbayes.pages.comparison.page import estimates
from dpbayes_core.canonical import sha256_of
from storage.files.archive import MANIFEST, manifest_flaw
from storage.files.archive_paths import COMPARISONS, comparison_path
from storage.home.signatures import verify_stored
from storage.ledger.publishing import OnRecord, version_before

Record = Mapping[str, Any]
Read = Callable[[str], bytes]

COMPARED = "comparisons are of published versions, and say what their crates say"
NAMES = {COMPARISON, PAGE, PUBLIC_KEY, ATTESTATION}


def comparison_flaws(
    folders: Mapping[str, Sequence[str]],
    crates: Mapping[str, Sequence[str]],
    read: Read,
    trusted: Mapping[str, bytes],
    published: Sequence[OnRecord],
) -> list[str]:
    """What is wrong with comparisons; `folders` and `crates` map the path of each to the names of its files."""
    found: list[str] = []
    for path, names in folders.items():
        files = {name: read(f"{path}/{name}") for name in names}
        check = _Check(path, crates, read, trusted, published)
        if flaw := run_check(check.flaw, files):
            found.append(f"{path}: {flaw}")
    return found


def is_comparison(path: str) -> bool:
    """Whether a path in an archive is inside a comparison's folder."""
    return path.startswith(f"{COMPARISONS}/")


class _Check:
    """The check of one comparison."""

    def __init__(
        self,
        path: str,
        crates: Mapping[str, Sequence[str]],
        read: Read,
        trusted: Mapping[str, bytes],
        published: Sequence[OnRecord],
    ) -> None:
        self._path, self._crates, self._read = path, crates, read
        self._trusted, self._published = trusted, published

    def flaw(self, files: Files) -> str | None:
        """The first thing that is wrong, or None."""
        return next(self._flaws(dict(files)), None)

    def _flaws(self, files: dict[str, bytes]) -> Iterator[str]:
        listing = files.pop(MANIFEST, None)
        whole = f"{MANIFEST} is missing" if listing is None else manifest_flaw(files, listing)
        yield from filter(None, [whole])
        for name in sorted(files.keys() ^ NAMES):
            yield f"{name} is missing" if name in NAMES else f"{name} is no part of a comparison"
        record = json.loads(files[COMPARISON])
        yield from self._unsigned(files, record)
        new, old = (self._version(record[name]["crate"]) for name in ("new", "old"))
        if new is None or old is None:
            yield "a crate that it compares is not in the archive"
            return
        if self._path != comparison_path(new.record):
            yield "it is of another place"
        if old.path not in self._before(new.record["key"]):
            yield f"{old.path} is not the version that was published before"
        due = comparison_files(new, old, record["software"])
        if files[COMPARISON] != due[COMPARISON]:
            yield f"{COMPARISON} is not what the crates say"
        if files[PAGE] != due[PAGE]:
            yield from _page_flaws(files[PAGE], due[PAGE], record)

    def _unsigned(self, files: Files, record: Record) -> Iterator[str]:
        """What is wrong with the signed statement about its files."""
        payload = verify_stored(files[ATTESTATION], self._trusted, payload_type=STATEMENT_TYPE, thing=ATTESTATION)
        stated = json.loads(payload)
        subjects = {each["name"]: each["digest"]["sha256"] for each in stated["subject"]}
        own = {name: sha256_of(data) for name, data in files.items() if name != ATTESTATION}
        versions = {name: record[name]["statement"] for name in ("new", "old")}
        due = {**versions, "crate": crate_digest(files)}
        if subjects != own or stated["predicate"] != due or stated["predicateType"] != PREDICATE:
            yield f"{ATTESTATION} speaks of other files"

    def _version(self, path: str) -> Version | None:
        if path not in self._crates:
            return None
        names = (name for name in self._crates[path] if name != MANIFEST)
        return Version(path, {name: self._read(f"{path}/{name}") for name in names})

    def _before(self, key: str) -> set[str]:
        """The paths of the versions that were published last before this one, of any period and of its own."""
        found = (version_before(self._published, key, same_period=same) for same in (False, True))
        return {each.publication.path for each in found if each is not None}


def _page_flaws(page: bytes, due: bytes, record: Record) -> Iterator[str]:
    """What is wrong with a page of other bytes than this program writes: another version may have written it."""
    if makes_the_same(record["software"]):
        yield f"{PAGE} is not what the crates say"
    if not harmless(page, due):
        yield f"{PAGE} may do what no page of this program does: do not open it"
    text = text_of(page)
    place = text.find("The same numbers.")
    for name, *versions in estimates(record):
        place = text.find(f" {name} ", place)
        near = text[max(place, 0) : max(place, 0) + REACH]
        if place < 0 or not all(f" {numbers} " in near for numbers in versions):
            yield f"{PAGE} and {COMPARISON} disagree on {name}"
