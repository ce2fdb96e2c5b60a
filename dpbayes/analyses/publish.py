"""Puts posteriors on the ledger before their crates are archived, and checks that they are on it."""

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from dpbayes.audit.crate import run_check, signed
from dpbayes.crates.contained_releases import sources_of
from dpbayes.crates.files import load
from dpbayes.crates.format import Files, pack
from dpbayes.crates.posterior import recorded
from dpbayes.crates.publication import needs_entry, publication_of, signed_late
from dpbayes.crates.release import ENTRY
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError, IntegrityFailure
from storage.files.archive import MANIFEST, manifest
from storage.files.archive_paths import links_of, path_of
from storage.files.durable import make_folder, replace_file
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Stamp
from storage.ledger.history import MALFORMED
from storage.ledger.homes import home_of, replaced_keys
from storage.ledger.notices import STATUSES
from storage.ledger.publishing import ADOPTION, Publication, adoption_key, homes, publications_of
from storage.ledger.request import release_key, released_under


def publish_posterior(anchored: AnchoredLedger, population: str, path: str, files: Files, stamp: Stamp) -> None:
    """Put a crate on the ledger, then into the archive; meanwhile a copy is stored, to finish after a kill."""
    unarchived, one = Unarchived(anchored.home.work), publication_of(path, files)
    unarchived.keep(one.statement, files)
    try:
        put_on_record(anchored, population, one, stamp)
    except IntegrityFailure:
        if anchored.ledger.find(one.entry_key) is None:  # it was refused
            unarchived.drop(one.statement)
        raise
    anchored.archive.write_folder(path, files)
    unarchived.drop(one.statement)


def finish_posteriors(anchored: AnchoredLedger) -> None:
    """Archive the crates that killed runs had on record; one without an entry may be of a run that is under way."""
    unarchived = Unarchived(anchored.home.work)
    for name, files in unarchived.each():
        with suppress(*MALFORMED, RecursionError):
            path = path_of(recorded(files))
            archived = anchored.archive.exists(f"{path}/{MANIFEST}")
            if not archived and is_on_record(anchored, path, files) and _signed(anchored, files):
                anchored.archive.write_folder(path, files)
                archived = True
            if archived:
                _write_notices(anchored, files)
                unarchived.drop(name)


def _write_notices(anchored: AnchoredLedger, files: Files) -> None:
    """Write the notices that became due while the crate was not in the archive."""
    for source in sources_of(files):
        named = released_under(source.entry.key)
        acts = {
            "withdrawn": anchored.ledger.withdrawn(source.entry.key),
            "superseded": anchored.ledger.find(release_key(**{**named, "revision": named["revision"] + 1})),
        }
        for status in STATUSES:
            if (act := acts[status]) is not None:
                anchored.mark(act, source.entry.key, status)


def put_on_record(anchored: AnchoredLedger, population: str, one: Publication, stamp: Stamp) -> None:
    """Add an anchored entry for the crate; a home's first one also names every sound posterior in its archive."""
    adopted = () if _has_begun(anchored) else tuple(_earlier_posteriors(anchored))
    for entry in anchored.ledger.publish(population, one, adopted, stamp=stamp):
        anchored.anchor(entry)


def is_on_record(anchored: AnchoredLedger, path: str, files: Files) -> bool:
    """Whether the ledger names the crate at this path; earlier versions' need no entry while this home has none."""
    retired = anchored.ledger.retirements()
    if signed_late(files, retired):
        return False
    if not (needs_entry(files) or _has_begun(anchored)):
        return True
    one = publication_of(path, files)
    found = [anchored.ledger.find(key) for key in (one.entry_key, adoption_key(_home(anchored)), ADOPTION)]
    entries = [entry for entry in found if entry is not None]
    named = [each for entry in entries for each in publications_of(entry) if each.publication.names(one)]
    last = retired.get(one.signed_by)
    return any(not needs_entry(files) if each.adopted else last is None or each.seq <= last for each in named)


def _home(anchored: AnchoredLedger) -> str:
    return home_of(anchored.home.signer().fingerprint, replaced_keys(anchored.ledger.of_kind("key")))


def _has_begun(anchored: AnchoredLedger) -> bool:
    """Whether anything of this home is on record."""
    return _home(anchored) in homes(anchored.ledger.of_kind("publish"), replaced_keys(anchored.ledger.of_kind("key")))


def _earlier_posteriors(anchored: AnchoredLedger) -> Iterator[Publication]:
    """Every posterior of earlier versions in the archive that a key of this home signed in time, of its entries."""
    from dpbayes.audit.audit import posteriors

    retired, replaced = anchored.ledger.retirements(), replaced_keys(anchored.ledger.of_kind("key"))
    for path, files in posteriors(anchored.archive):
        try:
            listing = files.pop(MANIFEST, b"")
            sound = manifest(files) == listing and _signed(anchored, files)
            if sound and not needs_entry(files) and not signed_late(files, retired) and _is_of(anchored, files):
                one = publication_of(path, files)
                if home_of(one.signed_by, replaced) == _home(anchored):
                    yield one
        except (*MALFORMED, RecursionError):
            continue  # the audit reports what is wrong with it


def _is_of(anchored: AnchoredLedger, files: Files) -> bool:
    entries = [anchored.ledger.entry_at(link["ledger"]["seq"]) for link in links_of(recorded(files))]
    stored = [source.files[ENTRY] for source in sources_of(files)]
    return stored == [b"" if entry is None else canonical_json(entry.to_record()) for entry in entries]


def _signed(anchored: AnchoredLedger, files: Files) -> bool:
    """Whether a key of the home signed every byte."""
    return run_check(lambda files: signed(files, anchored.home.trusted()), files) is None


class Unarchived:
    """The crates that running analyses are about to publish, by name, in the home's work folder."""

    def __init__(self, work: Path) -> None:
        self._folder = work / "publishing"

    def keep(self, name: str, files: Mapping[str, bytes]) -> None:
        """Store a crate, whole or not at all."""
        make_folder(self._folder, mode=0o700)
        replace_file(self._folder / f"{name}.zip", pack(files), self._folder)

    def drop(self, name: str) -> None:
        """Delete a crate, once it is in the archive or its entry was refused."""
        (self._folder / f"{name}.zip").unlink(missing_ok=True)

    def each(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        """The crates that killed runs left, by name; unreadable ones are left out."""
        for path in sorted(self._folder.glob("*.zip")):
            with contextlib.suppress(DpbayesError):
                yield path.stem, load(path)
