"""The ledger and its anchors, opened read-only, also for users other than the steward."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpbayes_core.errors import DpbayesError, LedgerMissing, StudyInvalid
from storage.files.archive import Archive
from storage.home.home import Home
from storage.ledger.accounts import account_names, admit, refuse_other_population, total_of, with_raises
from storage.ledger.anchored import open_ledger, refuse_empty_archive
from storage.ledger.anchors import Anchors
from storage.ledger.caps import Scope
from storage.ledger.charging import closing_key, matching
from storage.ledger.entries import Entry
from storage.ledger.exposure import NOTHING, Tally
from storage.ledger.ledger import Ledger
from storage.ledger.offline_ledger import read_anchors, refuse_unspelled
from storage.ledger.page import Page
from storage.ledger.periods import Period, overlapped
from storage.ledger.request import AccountSpec, Request
from storage.ledger.store import Store


class KeyNeeded(DpbayesError):
    """The reader cannot read the home's keys, and named no fingerprint."""

    kind = "key-needed"
    exit_code = 2


@dataclass(frozen=True)
class Reading:
    """A home's ledger and archive, opened for reading only."""

    home: Home
    ledger: Ledger
    archive: Archive
    trusted: Mapping[str, bytes]
    unanchored: tuple[int, ...]
    """Numbers of entries that a killed run left without anchors; the steward's next command writes them."""

    @property
    def signed_by(self) -> str:
        """The fingerprint of a trusted key that signed the newest anchor."""
        return min(self.anchors.signers(self.anchors.newest(), self.trusted))

    @property
    def anchors(self) -> Anchors:
        """The anchors, read-only."""
        return Anchors(self.archive, None)


@contextmanager
def look(near: Path, keys: Sequence[str] = ()) -> Generator[Reading]:
    """Open the ledger near a study for reading, and check its newest anchor; `keys` are trusted fingerprints."""
    home = Home.look(near)
    refuse_empty_archive(home)
    with open_ledger(home, "read") as ledger:
        archive = home.archive()
        trusted = keys_of(home, archive, keys)
        anchors, numbers = Anchors(archive, None), Anchors(archive, None).numbers()
        anchors.check_newest(ledger.entry_at, ledger.retirements(), numbers, trusted)
        yield Reading(home, ledger, archive, trusted, tuple(anchors.unanchored(ledger.head.seq, numbers)))


def keys_of(home: Home, archive: Archive, keys: Sequence[str]) -> Mapping[str, bytes]:
    """The trusted public keys: the named ones and those they vouch for, else the home's if this user may read them."""
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


class AccountSnapshot:
    """An account as the next charge will find it; without a ledger, as stated and with nothing spent."""

    def __init__(self, stated: AccountSpec, page: Page | None = None) -> None:
        self._page, self._grain = page, stated.grain
        known = None if page is None else admit(page, stated)
        self.accounts = () if page is None else account_names(page)
        self.opened = known is not None
        self.account = known or (stated if page is None else with_raises(page, stated))  # its programme may be raised

    @classmethod
    @contextmanager
    def near(
        cls, study: Path, stated: AccountSpec, name: str | None = None, keys: Sequence[str] = ()
    ) -> Generator["AccountSnapshot"]:
        """The account in the ledger near a study; refused if the ledger knows it, or the study, with other terms."""
        url = _ledger_near(study, keys)
        if url is None:
            yield cls(stated)
            return
        store = Store(url, "read")
        try:
            with store.snapshot() as page:
                yield cls.on(page, stated, name)
        finally:
            store.engine.dispose()

    @classmethod
    def on(cls, page: Page, stated: AccountSpec, name: str | None = None) -> "AccountSnapshot":
        """The account on one view of a ledger; refused as by `near`."""
        snapshot = cls(stated, page)
        if name is not None:
            refuse_other_population(page, name, stated.population)
        return snapshot

    @property
    def head(self) -> Entry | None:
        """The ledger's last entry."""
        return None if self._page is None else self._page.head()

    def total(self, scope: Scope) -> Tally:
        """Everything charged in a scope."""
        return NOTHING if self._page is None else total_of(self._page, scope)

    def stored(self, request: Request) -> bool:
        """Whether a release is stored under the request's name."""
        return self._page is not None and self._page.find(request.key) is not None

    def known(self, request: Request) -> bool:
        """Whether the request's release is stored; refused if it has another definition."""
        if self._page is None or (entry := self._page.find(request.key)) is None:
            return False
        return matching(self._page, entry, request) is entry

    def closed(self, period: str) -> bool:
        """Whether a period takes no further charges."""
        page, account = self._page, self.account
        if page is None:
            return False
        return any(page.find(closing_key(account.population, name)) for name in overlapped(period, account.grain))

    def charged_periods(self) -> list[str]:
        """The periods of the study's own grain that any study charged to the account, in order."""
        names = [] if self._page is None else self._page.charged_periods(self.account.population)
        return [name for name in names if Period.named(name).grain == self._grain]


def _ledger_near(study: Path, keys: Sequence[str]) -> str | None:
    """The URL of the ledger near a study, checked against its newest anchor; None if there is no ledger."""
    try:
        with look(study, keys) as reading:
            return reading.home.ledger_url
    except LedgerMissing:
        return None
