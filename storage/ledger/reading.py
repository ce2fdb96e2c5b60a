"""The ledger and its anchors, looked at by anybody who may read them: nothing is written, mended or left behind."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.files.archive import Archive
from storage.home.home import Home
from storage.ledger.anchored import open_ledger, refuse_empty_archive
from storage.ledger.anchors import Anchors, retirements
from storage.ledger.export import read_anchors
from storage.ledger.ledger import Ledger
from storage.ledger.offline_ledger import refuse_unspelled


class KeyNeeded(DpbayesError):
    """The reader may not see the home's own keys, and named none."""

    kind = "key-needed"
    exit_code = 2


@dataclass(frozen=True)
class Reading:
    """A home's ledger and archive as somebody sees them who changes nothing."""

    home: Home
    ledger: Ledger
    archive: Archive
    trusted: Mapping[str, bytes]
    unanchored: tuple[int, ...]
    """Entries that an unfinished run left without their anchors: the steward's next command writes them."""

    @property
    def signed_by(self) -> str:
        """The fingerprint of who signed the newest anchor, of those that count."""
        return min(self.anchors.signers(self.anchors.newest(), self.trusted))

    @property
    def anchors(self) -> Anchors:
        """The anchors, without a key to write any."""
        return Anchors(self.archive, None)


@contextmanager
def look(near: Path, keys: Sequence[str] = ()) -> Generator[Reading]:
    """The ledger of the home near a study, held against its newest anchor; `keys` are the fingerprints one trusts."""
    home = Home.look(near)
    refuse_empty_archive(home)
    with open_ledger(home, "read") as ledger:
        archive = home.archive()
        trusted = keys_of(home, archive, keys)
        anchors, numbers = Anchors(archive, None), Anchors(archive, None).numbers()
        changes = [entry.to_record() for entry in ledger.key_entries()]
        anchors.check_newest(ledger.entry_at, retirements(changes), numbers, trusted)
        yield Reading(home, ledger, archive, trusted, tuple(anchors.unanchored(ledger.head.seq, numbers)))


def keys_of(home: Home, archive: Archive, keys: Sequence[str]) -> Mapping[str, bytes]:
    """The public keys that count: those that the named ones vouch for, or the home's own for whoever may read them."""
    refuse_unspelled(keys)
    found = read_anchors(archive).trusted(keys) if keys else home.trusted()
    if not found and keys:
        raise StudyInvalid(
            f"cannot use the key {' or '.join(keys)}: it signed nothing in this archive. Check the fingerprint."
        )
    if not found:
        raise KeyNeeded(
            f"cannot tell whose ledger this is: the keys in {home.keys} belong to another user. Add --key FINGERPRINT, "
            "as the agency published it."
        )
    return found
