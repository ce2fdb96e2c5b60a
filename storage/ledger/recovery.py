"""Rebuild a lost ledger from its signed anchors, and check a moved one before it is used."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from sqlalchemy import make_url

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError, IntegrityFailure, StudyInvalid
from storage.files.archive import Archive
from storage.files.durable import sync_folder
from storage.home.home import Home
from storage.home.places import INSIDE, addresses, read_places, refuse_other_places, rewrite_places
from storage.ledger.anchored import AnchoredLedger, open_ledger
from storage.ledger.anchors import Anchors, anchor_name
from storage.ledger.check import Check
from storage.ledger.entries import Entry, Stamp
from storage.ledger.homes import strange_key
from storage.ledger.ledger import Ledger
from storage.ledger.page import Page
from storage.ledger.store import Store
from storage.ledger.verify import verify

SQLITE_FILES = ("", "-wal", "-shm")


class LedgerUnsound(IntegrityFailure):
    """The entries in the database are damaged, or differ from their anchors."""

    kind = "ledger-unsound"


@dataclass(frozen=True)
class Recovery:
    """The numbers of the first and last restored entry; `last` is below `first` if none was lost."""

    first: int
    last: int
    set_aside: str | None = None

    @property
    def restored(self) -> int:
        """The number of restored entries."""
        return max(0, self.last - self.first + 1)


def recover(home: Home, *, set_aside: bool = False) -> Recovery:
    """Restore every anchored entry that the ledger lacks, or none; `set_aside` first moves a damaged database away."""
    anchors = Anchors(home.archive(), None)
    anchored = anchors.numbers()
    if not anchored:
        raise IntegrityFailure(
            "cannot recover the ledger: the archive holds no anchor of it. Restore the archive from a copy."
        )
    try:
        return _restore(home, anchors, anchored)
    except LedgerUnsound:
        if not set_aside:
            raise
    moved = _move_away(home.ledger_url)
    return replace(_restore(home, anchors, anchored), set_aside=moved)


def _restore(home: Home, anchors: Anchors, anchored: Sequence[int]) -> Recovery:
    store = _open_store(home.ledger_url)
    try:
        exists = store.has_table()
        head = _require_sound(store, anchors, anchored, home) if exists else 0
        lost = range(head + 1, anchored[-1] + 1)
        if missing := sorted(set(lost).difference(anchored)):
            name = anchor_name(missing[0])
            raise IntegrityFailure(
                f"cannot recover entry {missing[0]} of the ledger: {name} is missing. Restore the archive from a copy."
            )
        with store.exclusive() if exists else store.founding() as page:
            present = store.entries_after(0) if exists else iter(())
            _refuse_failed(verify(chain(present, _restored_entries(page, anchors, lost, home))))
        return Recovery(lost.start, lost.stop - 1)
    finally:
        store.engine.dispose()


def _open_store(url: str) -> Store:
    """Open the database, or make it if it is gone."""
    with _unreadable_is_unsound():
        store = Store(url, "create")
        with store.disposed_on_failure():
            store.has_table()
    return store


def _require_sound(store: Store, anchors: Anchors, anchored: Sequence[int], home: Home) -> int:
    """The number of the last entry; raises LedgerUnsound unless all entries are valid and as anchored."""
    with _unreadable_is_unsound(), store.snapshot() as page:
        if page.count() == 0:
            return 0
    for check in verify(store.entries_after(0)):
        if not check.ok:
            raise _unsound(check.detail)
    with store.snapshot() as page:
        flaws = [strange_key(each, home.trusted()) for each in page.of_kind("key") if each.seq not in anchored]
        for flaw in filter(None, flaws):
            raise _unsound(flaw)
        head = page.head()
    last = 0 if head is None else head.seq
    present = [seq for seq in anchored if seq <= last]
    with store.snapshot() as page:
        # by the hash chain, the last one implies all earlier ones
        if present and not _matches_anchor(page, anchors, present[-1], home):
            first = next(seq for seq in present if not _matches_anchor(page, anchors, seq, home))
            raise _unsound(f"entry {first} is not the one of {anchor_name(first)}")
    return last


@contextmanager
def _unreadable_is_unsound() -> Generator[None]:
    try:
        yield
    except IntegrityFailure as failure:
        raise _unsound(str(failure)) from None


def _matches_anchor(page: Page, anchors: Anchors, seq: int, home: Home) -> bool:
    entry = page.at(seq)
    return entry is not None and canonical_json(entry.to_record()) == canonical_json(anchors.read(seq, home.trusted()))


def _restored_entries(page: Page, anchors: Anchors, lost: Sequence[int], home: Home) -> Iterator[Entry]:
    """Write each lost entry from its anchor to the table, and yield it."""
    for seq in lost:
        entry = Entry.from_record(anchors.read(seq, home.trusted()))
        page.restore(entry)
        yield entry


def _refuse_failed(checks: Sequence[Check]) -> None:
    for check in checks:
        if not check.ok:
            raise IntegrityFailure(
                f"cannot recover the ledger: what was anchored does not add up, {check.detail}. Restore the archive "
                "from a copy."
            )


def _unsound(found: str) -> LedgerUnsound:
    flaw = found.split(". ")[0]  # without its advice, which would lead here again
    return LedgerUnsound(
        f"cannot recover the ledger over the entries in its database: {flaw}. Run `dpbayes ledger recover --set-aside` "
        "to move it away and rebuild everything that was anchored."
    )


def _move_away(url: str) -> str:
    """Rename the database's files, to keep them for investigation; returns the new path."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        raise DpbayesError(
            "cannot set the ledger aside: it is on a server. Point DPBAYES_LEDGER_URL at an empty database instead."
        )
    path = Path(parsed.database)
    aside = next(name for number in range(1, 10_000) if not (name := Path(f"{path}.aside-{number}")).exists())
    for suffix in SQLITE_FILES:
        if (file := Path(f"{path}{suffix}")).exists():
            file.rename(f"{aside}{suffix}")
    sync_folder(path.parent)
    return str(aside)


@dataclass(frozen=True)
class Move:
    """The note's entry, and for each part that moved its old and new address."""

    entry: Entry
    changed: Mapping[str, tuple[str, str]]


def move(near: Path, reason: str, stamp: Stamp) -> Move:
    """Use the addresses that the environment names from now on; refused unless everything anchored is there."""
    home = Home.to_be_moved(near)
    before = read_places(home.folder) or {"archive": INSIDE, "ledger": INSIDE}
    if home.places == before:
        raise StudyInvalid(
            "cannot move: the environment names the places on record. Set DPBAYES_LEDGER_URL or DPBAYES_ARCHIVE_URL."
        )
    with open_ledger(home) as ledger:
        opened = AnchoredLedger(home, ledger, home.archive())
        _refuse_incomplete(opened)
        _refuse_outdated(opened, before)
        changed = {name: (before[name], place) for name, place in home.places.items() if place != before[name]}
        changes = "; ".join(f"the {name} from {was} to {now}" for name, (was, now) in changed.items())
        entry = ledger.note(f"moved {changes}: {reason}", stamp)
        opened.anchor_pending()
        rewrite_places(home.folder, home.places)
        return Move(entry, changed)


def home_to_recover(near: Path) -> Home:
    """The home near a study; the environment may name another ledger if the recorded one is gone."""
    home = Home.to_be_moved(near)
    before = read_places(home.folder) or home.places
    if home.places["archive"] != before["archive"] or (
        home.places != before and _exists(addresses(home.folder, before)["ledger"])
    ):
        refuse_other_places(home.folder, home.places)
    return home


def _exists(url: str) -> bool:
    with suppress(DpbayesError), Ledger.open(url, "read"):
        return True
    return False


def _refuse_incomplete(opened: AnchoredLedger) -> None:
    """Refuse unless the new places have a complete ledger with all its anchors, signed by this home's keys."""
    entries = list(opened.ledger.entries())
    records = [entry.to_record() for entry in entries]
    checks = [*verify(entries), *Anchors(opened.archive, None).check(records, opened.home.trusted())]
    missing = Anchors(opened.archive, None).unanchored(len(entries))
    failed = next((check for check in checks if not check.ok), None)
    if failed is not None or missing:
        words = f"{failed.check}: {failed.detail}" if failed else "its anchors are not all there"
        raise IntegrityFailure(
            f"cannot move to the ledger and archive that the environment names: {words}. Copy all of both there first."
        )


def _refuse_outdated(opened: AnchoredLedger, before: dict[str, str]) -> None:
    """Refuse if the old places have later entries than the copy, as far as they can be read."""
    urls, last = addresses(opened.home.folder, before), 0
    with (
        suppress(DpbayesError),
        Ledger.open(urls["ledger"], "read") as old,
    ):  # if it is gone, its anchors tell
        last = old.head.seq
    with suppress(DpbayesError):
        last = max(last, Anchors(Archive(urls["archive"]), None).newest())
    if last > opened.ledger.head.seq:
        raise IntegrityFailure(
            f"cannot move: the old places hold entries up to {last}, the new ones up to {opened.ledger.head.seq}. "
            "Copy them again while nothing runs."
        )
