"""The ledger opened together with its anchors: it is checked against them, and each new entry is anchored."""

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
from storage.ledger.notices import Status, crates_to_mark, notice_body, write_notices, wrong_files

_UNFINISHED = 2
"""The making of a ledger with so few entries may have been interrupted before the first anchor."""


@dataclass(frozen=True)
class AnchoredLedger:
    """A home's ledger, and the archive with its signed anchors."""

    home: Home
    ledger: Ledger
    archive: Archive

    @classmethod
    @contextmanager
    def open(cls, near: str | Path) -> Generator["AnchoredLedger"]:
        """Open the ledger of the home near a study, and anchor pending entries; refused if it lacks an anchored one."""
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
        """Make the home's ledger, or open the one that exists."""
        if _exists(home):
            with open_ledger(home) as ledger:  # also by a second home of the same ledger, with its own key and anchors
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
        """The anchors with the current signing key, which is loaded each time: another process may have changed it."""
        return Anchors(self.archive, self.home.signer())

    def refuse_strange_archive(self) -> None:
        """Refuse an archive without anchors of a ledger with entries, where an older version recorded no places."""
        if not self.home.is_recorded and self.ledger.head.seq > _UNFINISHED and not self.anchors.newest():
            raise IntegrityFailure(
                "cannot use the archive: it holds no anchor of this ledger. Correct DPBAYES_ARCHIVE_URL, or restore "
                "the archive from a copy."
            )

    def anchor_pending(self) -> None:
        """Check the newest anchor, then complete what killed runs left: anchors, a change of key, notices."""
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
            self._complete_notices(entry, entry.payload["withdraws"], retired)

    def mark(self, act: Entry, release: str, status: Status) -> None:
        """Write signed notices next to a release's crate and the posteriors drawn from it; safe to repeat.

        A foreign file under the name of a notice is refused after everything else was written.
        """
        charge = self.ledger.find(release)
        if charge is None:
            return
        about, record = charge.to_record(), act.to_record()
        write_notices(self.archive, self.home.signer(), about, record, status)
        retired = self.ledger.retirements()
        for crate in crates_to_mark(self.archive, about):
            body = notice_body(crate, status, charge.key, record)
            if found := wrong_files(self.archive, body, self.home.trusted(), retired):
                raise IntegrityFailure(
                    f"cannot mark {crate} as {status}: ledger entry {act.seq} records it, but the notice could not be "
                    f"written since {found[0]} is there already and is not ours. Move that file away and run again."
                )

    def _complete_notices(self, act: Entry, release: str, retired: Mapping[str, int]) -> None:
        """Write the notices that a killed run did not; a foreign file under such a name raises no error."""
        charge = self.ledger.find(release)
        if charge is None:
            return
        body = notice_body(release_path(charge.to_record()), "withdrawn", release, act.to_record())
        if wrong_files(self.archive, body, self.home.trusted(), retired):
            write_notices(self.archive, self.home.signer(), charge.to_record(), act.to_record(), "withdrawn")

    def anchor(self, entry: Entry) -> None:
        """Write a signed copy of `entry` to the archive; safe to repeat."""
        if flaw := strange_key(entry, self.home.trusted()):  # our signature would vouch for that key
            raise IntegrityFailure(
                f"cannot use the ledger: {flaw}. Find out who writes to the database, and run `dpbayes ledger recover "
                "--set-aside`."
            )
        anchors = Anchors(self.archive, self._signer_of(entry))
        changes = entry.kind == "key" and entry.payload["public_key"] == pending_key(self.home.keys)
        # the new key signs too: that proves that the home has it, and leads auditors from it to the old one
        anchors.write(entry.to_record(), cosigner=next_signer(self.home.keys) if changes else None)

    def rotate_key(self, *, reason: str, stamp: Stamp) -> Entry:
        """Sign with a new key from now on; the entry of this change is the last that the old key anchors."""
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
    """Open the home's ledger; if its database is gone but anchors exist, the error asks for recovery."""
    try:
        return Ledger.open(home.ledger_url, purpose)
    except LedgerMissing:
        _refuse_unrecorded(home, "ledger")
        if not Anchors(home.archive(), None).newest():
            raise
    raise IntegrityFailure(
        "cannot open the ledger: its database is gone and its anchors stand. Run `dpbayes ledger recover`."
    )


def refuse_empty_archive(home: Home) -> None:
    """Refuse an archive that is not the recorded one, unless it has anchors: a copy may be read."""
    try:
        _refuse_unrecorded(home, "archive")
    except PlaceChanged:
        if not Anchors(home.archive(), None).newest():
            raise


def _refuse_unrecorded(home: Home, part: str) -> None:
    """Refuse a ledger, or an archive, that is not at its recorded address; the other one is not checked."""
    on_record = read_places(home.folder) or home.places
    refuse_other_places(home.folder, {**on_record, part: home.places[part]})


def _exists(home: Home) -> bool:
    try:
        open_ledger(home, "read").dispose()
    except LedgerMissing:
        return False
    return True
