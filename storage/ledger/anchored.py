"""The ledger and its anchors, opened together: neither is trusted, or written, without the other."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpbayes_core.errors import IntegrityFailure, LedgerMissing
from storage.files.archive import Archive
from storage.files.archive_paths import release_path
from storage.home.home import Home
from storage.home.places import PlaceChanged, read_places, refuse_other_places
from storage.home.signatures import Signer, next_signer, pending_key, take_over
from storage.ledger.anchors import Anchors
from storage.ledger.entries import Entry, Stamp
from storage.ledger.homes import strange_key
from storage.ledger.ledger import Ledger
from storage.ledger.notices import Status, marked, stated, unmarked, write_notices

_BEGUN = 2
"""A ledger of so few entries may have been killed while it was made."""


@dataclass(frozen=True)
class AnchoredLedger:
    """A home's ledger with its signed anchors, and the archive that holds them."""

    home: Home
    ledger: Ledger
    archive: Archive

    @classmethod
    @contextmanager
    def open(cls, near: str | Path) -> Generator["AnchoredLedger"]:
        """The ledger of the home near a study, with its anchors; one that lacks an anchored entry is refused."""
        home = Home.find(Path(near))
        with open_ledger(home) as ledger:
            opened = cls(home, ledger, home.archive())
            opened.refuse_strange_archive()
            opened.anchor_pending()
            home.record_places()
            yield opened

    @classmethod
    @contextmanager
    def create(cls, home: Home, stamp: Stamp) -> Generator["AnchoredLedger"]:
        """A new ledger, or the one that the home has already."""
        if _exists(home):
            with open_ledger(home) as ledger:  # a second home of one ledger has a key and anchors of its own
                opened = cls(home, ledger, home.archive())
                opened.anchor_pending()
                home.record_places()
                opened.anchors.publish_key()
                yield opened
            return
        with Ledger.create(home.ledger_url, stamp, public_key=home.signer().fingerprint) as ledger:
            opened = cls(home, ledger, home.archive())
            opened.anchors.publish_key()
            opened.anchor_pending()
            home.record_places()
            yield opened

    @property
    def anchors(self) -> Anchors:
        """The anchors with the present key, which is read each time: another process may have changed it."""
        return Anchors(self.archive, self.home.signer())

    def refuse_strange_archive(self) -> None:
        """Refuse to begin again in an archive without anchors, where a home of an older version records no places."""
        if not self.home.is_recorded and self.ledger.head.seq > _BEGUN and not self.anchors.newest():
            raise IntegrityFailure(
                "cannot use the archive: it holds no anchor of this ledger. Correct DPBAYES_ARCHIVE_URL, or restore "
                "the archive from a copy."
            )

    def anchor_pending(self) -> None:
        """Check the newest anchor against the ledger, then finish what killed runs left: anchors, a key, notices."""
        anchors = self.anchors
        retired, numbers = self.ledger.retirements(), anchors.numbers()
        anchors.check_newest(self.ledger.entry_at, retired, numbers)
        for seq in anchors.unanchored(self.ledger.head.seq, numbers):
            entry = self.ledger.entry_at(seq)
            if entry is not None:
                self.anchor(entry)
        if (pending := pending_key(self.home.keys)) and self.ledger.key_entry(pending):
            self._install(pending)
        for entry in self.ledger.of_kind("withdraw"):
            self._complete(entry, entry.payload["withdraws"], retired)

    def mark(self, act: Entry, release: str, status: Status) -> None:
        """Put signed notices next to the crate of a release and the posteriors drawn from it; safe to repeat.

        A file of somebody else under the name of a notice is refused, after everything else was written.
        """
        charge = self.ledger.find(release)
        if charge is None:
            return
        about, record = charge.to_record(), act.to_record()
        write_notices(self.archive, self.home.signer(), about, record, status)
        retired = self.ledger.retirements()
        for crate in marked(self.archive, about):
            said = stated(crate, status, charge.key, record)
            if found := unmarked(self.archive, said, self.home.trusted(), retired):
                raise IntegrityFailure(
                    f"cannot mark {crate} as {status}: ledger entry {act.seq} records it, but the notice could not be "
                    f"written since {found[0]} is there already and is not ours. Move that file away and run again."
                )

    def _complete(self, act: Entry, release: str, retired: Mapping[str, int]) -> None:
        """Write the notices that a killed run did not; a file of somebody else under such a name stops no command."""
        charge = self.ledger.find(release)
        if charge is None:
            return
        said = stated(release_path(charge.to_record()), "withdrawn", release, act.to_record())
        if unmarked(self.archive, said, self.home.trusted(), retired):
            write_notices(self.archive, self.home.signer(), charge.to_record(), act.to_record(), "withdrawn")

    def anchor(self, entry: Entry) -> None:
        """Sign `entry` and keep it outside the database; safe to repeat."""
        if flaw := strange_key(entry, self.home.trusted()):  # we should vouch for it
            raise IntegrityFailure(
                f"cannot use the ledger: {flaw}. Find out who writes to the database, and run `dpbayes ledger recover "
                "--set-aside`."
            )
        anchors = Anchors(self.archive, self._signer_of(entry))
        changes = entry.kind == "key" and entry.payload["public_key"] == pending_key(self.home.keys)
        # the new key signs, too: that proves that the home has it, and leads an auditor back to the old one
        anchors.write(entry.to_record(), cosigner=next_signer(self.home.keys) if changes else None)

    def rotate_key(self, *, reason: str, stamp: Stamp) -> Entry:
        """Sign with a new key from here on; the entry of this change is the last one that the old key anchors."""
        retires = self.home.signer().fingerprint
        entry = self.ledger.rotate_key(
            next_signer(self.home.keys).fingerprint, retires=retires, reason=reason, stamp=stamp
        )
        self.anchor_pending()
        return entry

    def _signer_of(self, entry: Entry) -> Signer:
        """The key in force when the entry was written."""
        signer = self.home.signer()
        retired = self.ledger.retirement(signer.fingerprint)
        if retired is None or entry.seq <= retired.seq:
            return signer
        return self._install(retired.payload["public_key"])

    def _install(self, fingerprint: str) -> Signer:
        """Publish the key that the ledger names and let it sign."""
        if pending_key(self.home.keys) == fingerprint:
            Anchors(self.archive, next_signer(self.home.keys)).publish_key()
        return take_over(self.home.keys, fingerprint)


def open_ledger(home: Home, purpose: Literal["write", "read"] = "write") -> Ledger:
    """The home's ledger; where it is gone and its anchors exist, recovery is asked for and no new one is begun."""
    try:
        return Ledger.open(home.ledger_url, purpose)
    except LedgerMissing:
        _refuse_other(home, "ledger")
        if not Anchors(home.archive(), None).newest():
            raise
    raise IntegrityFailure(
        "cannot open the ledger: its database is gone and its anchors stand. Run `dpbayes ledger recover`."
    )


def refuse_empty_archive(home: Home) -> None:
    """Refuse an archive without anchors that is not the one on record; a copy of it elsewhere may be looked at."""
    try:
        _refuse_other(home, "archive")
    except PlaceChanged:
        if not Anchors(home.archive(), None).newest():
            raise


def _refuse_other(home: Home, part: str) -> None:
    """Refuse a ledger or an archive that is not where it is on record, wherever the other one is."""
    on_record = read_places(home.folder) or home.places
    refuse_other_places(home.folder, {**on_record, part: home.places[part]})


def _exists(home: Home) -> bool:
    try:
        open_ledger(home, "read").dispose()
    except LedgerMissing:
        return False
    return True
