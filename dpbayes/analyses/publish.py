"""What a posterior's crate has on record: put there before the crate is, and asked for wherever it is believed."""

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from dpbayes.audit.crate import asked, signed
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
    """On the ledger first, then into the archive; kept meanwhile, for whoever has to finish it after a kill."""
    kept, one = Unarchived(anchored.home.work), publication_of(path, files)
    kept.keep(one.statement, files)
    try:
        put_on_record(anchored, population, one, stamp)
    except IntegrityFailure:
        if anchored.ledger.find(one.entry_key) is None:  # it was refused
            kept.drop(one.statement)
        raise
    anchored.archive.write_folder(path, files)
    kept.drop(one.statement)


def finish_posteriors(anchored: AnchoredLedger) -> None:
    """Put into the archive what killed runs had on record; what has no entry may be a rival's that is about to."""
    kept = Unarchived(anchored.home.work)
    for name, files in kept.each():
        with suppress(*MALFORMED, RecursionError):
            path = path_of(recorded(files))
            stands = anchored.archive.exists(f"{path}/{MANIFEST}")
            if not stands and is_on_record(anchored, path, files) and _signed(anchored, files):
                anchored.archive.write_folder(path, files)
                stands = True
            if stands:
                _mark(anchored, files)
                kept.drop(name)


def _mark(anchored: AnchoredLedger, files: Files) -> None:
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
    """An entry for the crate, anchored; a home's first one also names everything sound that lies in its archive."""
    adopted = () if _has_begun(anchored) else tuple(_standing(anchored))
    for entry in anchored.ledger.publish(population, one, adopted, stamp=stamp):
        anchored.anchor(entry)


def is_on_record(anchored: AnchoredLedger, path: str, files: Files) -> bool:
    """Whether the ledger names the crate at this place; of earlier versions' only once it names any of this home."""
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


def _standing(anchored: AnchoredLedger) -> Iterator[Publication]:
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
            continue  # the audit says what is wrong with it


def _is_of(anchored: AnchoredLedger, files: Files) -> bool:
    entries = [anchored.ledger.entry_at(link["ledger"]["seq"]) for link in links_of(recorded(files))]
    stored = [source.files[ENTRY] for source in sources_of(files)]
    return stored == [b"" if entry is None else canonical_json(entry.to_record()) for entry in entries]


def _signed(anchored: AnchoredLedger, files: Files) -> bool:
    """Whether a key of the home signed every byte."""
    return asked(lambda files: signed(files, anchored.home.trusted()), files) is None


class Unarchived:
    """The crates that running analyses are about to publish, in the home's work folder, by the names they are given."""

    def __init__(self, work: Path) -> None:
        self._folder = work / "publishing"

    def keep(self, name: str, files: Mapping[str, bytes]) -> None:
        """Remember a crate, whole or not at all."""
        make_folder(self._folder, mode=0o700)
        replace_file(self._folder / f"{name}.zip", pack(files), self._folder)

    def drop(self, name: str) -> None:
        """Forget it: it is in the archive, or its entry was refused."""
        (self._folder / f"{name}.zip").unlink(missing_ok=True)

    def each(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        """What killed runs left, by name; what cannot be read is as good as none."""
        for path in sorted(self._folder.glob("*.zip")):
            with contextlib.suppress(DpbayesError):
                yield path.stem, load(path)
