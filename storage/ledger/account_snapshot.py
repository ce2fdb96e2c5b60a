"""Where an account stands, read in one look that writes nothing: what planning needs of the ledger."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dpbayes_core.errors import LedgerMissing
from storage.ledger.accounts import admit, standing, total_of
from storage.ledger.caps import NOTHING, Scope, Tally
from storage.ledger.charging import closing_key, matching
from storage.ledger.entries import Entry
from storage.ledger.opening import account_names, refuse_other_population
from storage.ledger.periods import Period, overlapped
from storage.ledger.reading import look
from storage.ledger.request import AccountSpec, Request
from storage.ledger.store import Page, Store


class AccountSnapshot:
    """An account as its next charge would find it; without a ledger, as stated and with nothing spent."""

    def __init__(self, stated: AccountSpec, page: Page | None = None) -> None:
        self._page, self._grain = page, stated.grain
        known = None if page is None else admit(page, stated)
        self.accounts = () if page is None else account_names(page)
        self.opened = known is not None
        self.account = known or (stated if page is None else standing(page, stated))  # its programme may be raised

    @classmethod
    @contextmanager
    def near(
        cls, study: Path, stated: AccountSpec, name: str | None = None, keys: Sequence[str] = ()
    ) -> Generator["AccountSnapshot"]:
        """The account in the ledger of the home near a study; refused where the account, or its study, differs."""
        url = _ledger_near(study, keys)
        if url is None:
            yield cls(stated)
            return
        store = Store(url, "read")
        try:
            with store.snapshot() as page:
                snapshot = cls(stated, page)
                if name is not None:
                    refuse_other_population(page, name, stated.population)
                yield snapshot
        finally:
            store.engine.dispose()

    @property
    def head(self) -> Entry | None:
        """The ledger's last entry."""
        return None if self._page is None else self._page.head()

    def total(self, scope: Scope) -> Tally:
        """Everything charged in a scope."""
        return NOTHING if self._page is None else total_of(self._page, scope)

    def stored(self, request: Request) -> bool:
        """Whether something is stored under the request's name."""
        return self._page is not None and self._page.find(request.key) is not None

    def known(self, request: Request) -> bool:
        """Whether the request was answered; refused if what is stored under its name was another one."""
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
    """The address of a ledger that is the one last anchored; None where there is none."""
    try:
        with look(study, keys) as reading:
            return reading.home.ledger_url
    except LedgerMissing:
        return None
