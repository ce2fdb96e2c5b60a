"""A home's ledger or archive at another place: proved to be the same, then put on record."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpbayes_core.errors import DpbayesError, IntegrityFailure, StudyInvalid
from storage.files.archive import Archive
from storage.home.home import Home
from storage.home.places import INSIDE, read_places, refuse_other_places, rewrite_places
from storage.ledger.anchored import AnchoredLedger, open_ledger
from storage.ledger.anchors import Anchors
from storage.ledger.entries import Entry, Stamp
from storage.ledger.ledger import Ledger
from storage.ledger.verify import verify


@dataclass(frozen=True)
class Move:
    """What was put on record: of each part that moved, where it was and where it is."""

    entry: Entry
    changed: Mapping[str, tuple[str, str]]


def move(near: Path, reason: str, stamp: Stamp) -> Move:
    """Use the places that the environment names from here on; refused unless they hold all that was anchored."""
    home = Home.to_be_moved(near)
    before = read_places(home.folder) or {"archive": INSIDE, "ledger": INSIDE}
    if home.places == before:
        raise StudyInvalid(
            "cannot move: the environment names the places on record. Set DPBAYES_LEDGER_URL or DPBAYES_ARCHIVE_URL."
        )
    with open_ledger(home) as ledger:
        books = AnchoredLedger(home, ledger, home.archive())
        _refuse_less(books)
        _refuse_older(books, before)
        changed = {name: (before[name], place) for name, place in home.places.items() if place != before[name]}
        said = "; ".join(f"the {name} from {was} to {now}" for name, (was, now) in changed.items())
        entry = ledger.note(f"moved {said}: {reason}", stamp)
        books.anchor_pending()
        rewrite_places(home.folder, home.places)
        return Move(entry, changed)


def home_to_recover(near: Path) -> Home:
    """The home near a study; its ledger may be named elsewhere where the one on record is gone."""
    home = Home.to_be_moved(near)
    before = read_places(home.folder) or home.places
    if home.places["archive"] != before["archive"] or (
        home.places != before and _stands(_urls(home, before)["ledger"])
    ):
        refuse_other_places(home.folder, home.places)
    return home


def _stands(url: str) -> bool:
    with suppress(DpbayesError), Ledger.open(url, "read"):
        return True
    return False


def _urls(home: Home, places: Mapping[str, str]) -> dict[str, str]:
    own = {"archive": str(home.folder / "archive"), "ledger": f"sqlite:///{home.folder / 'ledger.db'}"}
    return own | {name: place for name, place in places.items() if place != INSIDE}


def _refuse_less(books: AnchoredLedger) -> None:
    """What lies at the new places is one whole ledger with all its anchors, signed by this home's keys."""
    entries = list(books.ledger.entries())
    records = [entry.to_record() for entry in entries]
    checks = [*verify(entries), *Anchors(books.archive, None).check(records, books.home.trusted())]
    missing = Anchors(books.archive, None).missing(records)
    failed = next((check for check in checks if not check.ok), None)
    if failed is not None or missing:
        words = f"{failed.check}: {failed.detail}" if failed else "its anchors are not all there"
        raise IntegrityFailure(
            f"cannot move to the ledger and archive that the environment names: {words}. Copy all of both there first."
        )


def _refuse_older(books: AnchoredLedger, before: dict[str, str]) -> None:
    """Nothing was written at the old places since they were copied, as far as they can still be seen."""
    urls, last = _urls(books.home, before), 0
    with suppress(DpbayesError), Ledger.open(urls["ledger"], "read") as old:  # it may be gone: then its anchors tell
        last = old.head.seq
    with suppress(DpbayesError):
        last = max(last, Anchors(Archive(urls["archive"]), None).newest())
    if last > books.ledger.head.seq:
        raise IntegrityFailure(
            f"cannot move: the old places hold entries up to {last}, the new ones up to {books.ledger.head.seq}. "
            "Copy them again while nothing runs."
        )
