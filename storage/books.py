"""The ledger and its anchors, opened together: neither may be believed, or written, without the other."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpbayes_core.errors import LedgerMissing
from storage.anchors import Anchors
from storage.archive import Archive
from storage.home import Home
from storage.ledger.entries import Entry, Stamp
from storage.ledger.ledger import Ledger


@dataclass(frozen=True)
class Books:
    """A home's ledger with its signed anchors, and the archive that holds them."""

    home: Home
    ledger: Ledger
    anchors: Anchors
    archive: Archive

    @classmethod
    @contextmanager
    def open(cls, near: str | Path) -> Iterator["Books"]:
        """The books of the home near a study; a ledger that lacks an anchored entry is refused."""
        home = Home.find(Path(near))
        with Ledger.open(home.ledger_url) as ledger:
            books = cls._over(home, ledger)
            books.settle()
            yield books

    @classmethod
    @contextmanager
    def create(cls, home: Home, stamp: Stamp) -> Iterator["Books"]:
        """New books, or those that stand in the home already."""
        if _stands(home):
            with cls.open(home.folder) as books:
                yield books
            return
        with Ledger.create(home.ledger_url, stamp, public_key=home.signer().fingerprint) as ledger:
            books = cls._over(home, ledger)
            books.anchors.publish_key()
            books.settle()
            yield books

    @classmethod
    def _over(cls, home: Home, ledger: Ledger) -> "Books":
        archive = home.archive()
        return cls(home, ledger, Anchors(archive, home.signer()), archive)

    def settle(self) -> None:
        """Check the newest anchor against the ledger, then write the anchors that killed runs left out."""
        self.anchors.check_newest(self.ledger.entry_at)
        for seq in self.anchors.unanchored(self.ledger.head.seq):
            entry = self.ledger.entry_at(seq)
            if entry is not None:
                self.anchor(entry)

    def anchor(self, entry: Entry) -> None:
        """Sign `entry` and keep it outside the database; again, it changes nothing."""
        self.anchors.write(entry.to_record())


def _stands(home: Home) -> bool:
    try:
        Ledger.open(home.ledger_url).dispose()
    except LedgerMissing:
        return False
    return True
