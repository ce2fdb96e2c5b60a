"""One pass over a table, as a release and an inspection make it; what it saw of the values goes to the vault alone."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dpbayes.secure.read_table import SecurePass, read_statistics
from dpbayes.secure.resume import PassCheckpoint
from dpbayes.secure.validation.checks import validate
from dpbayes.secure.validation.messages import INSPECTED, RELEASED
from dpbayes.secure.validation.page import Validation, validation_of
from dpbayes.secure.validation.suites import OwnExpectation
from dpbayes.study.study import Study
from dpbayes.study.table_source import TableSource
from dpbayes_core.confidential import Confidential
from storage.home.vault import Vault, VaultFailure
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.request import Request
from tasks.answers import table_place, validation_place
from tasks.progress import report


@dataclass(frozen=True)
class Stewardship:
    """Who acts, whose rows are here, and what they want to know of the table."""

    actor: str
    holder: str | None = None  # whose table is here, where others' are not
    expectations: tuple[OwnExpectation, ...] = ()


@dataclass(frozen=True)
class TablePass:
    """What a pass is to read, for which release, with the ledger of which home; it keeps nothing of what it reads."""

    study: Study
    request: Request
    anchored: AnchoredLedger
    by: Stewardship

    def release(self, checkpoint: PassCheckpoint) -> "ReleasePass":
        """The exact statistics of a release; its validation page has room in the vault before anything is charged."""
        done = self._read(checkpoint)
        found = self._found(
            done, validation_place(self.request, self.by.holder), RELEASED, {"revision": str(self.request.revision)}
        )
        vault = self.anchored.home.open_vault()
        return ReleasePass(done.statistics, found, vault, vault.room(found.name, found.size))

    def inspect(self, entry: int) -> Path:
        """The validation page of a pass like a release's, whose statistics go no further than here.

        `entry` is the ledger's note of the look.
        """
        home = self.anchored.home
        checkpoint = PassCheckpoint.nothing_kept(home.open_vault(), home.keys, self.request.key)
        try:
            place = f"{table_place(self.request, self.by.holder)}-inspected"
            found = self._found(self._read(checkpoint), place, INSPECTED, {"ledger entry": str(entry)})
            return found.keep(home.open_vault())
        finally:
            checkpoint.forget()

    @property
    def _source(self) -> TableSource:
        return self.study.table(self.request.release, self.request.period, holder=self.by.holder)

    def _read(self, checkpoint: PassCheckpoint) -> SecurePass:
        return read_statistics(
            self._source,
            self.study.statistic(self.request.release),
            key=self.anchored.home.contribution_key(),
            progress=lambda share: report("reading the table", share),
            checkpoint=checkpoint,
        )

    def _found(self, done: SecurePass, place: str, decides: str, more: Mapping[str, str]) -> Validation:
        """The page for that place in the vault, with what it says of decisions, and more of what it is about."""
        report("validating", 0.0)
        result = validate(done.profile, self._source, own=self.by.expectations)
        asked = self.request
        about = {"study": asked.study, "account": asked.account.population, "period": asked.period}
        about |= {"release": asked.release, **more} | ({"holder": self.by.holder} if self.by.holder else {})
        found = validation_of(done.profile, self._source, result, place=place, about=about, decides=decides)
        report("validating", 1.0)
        return found


@dataclass(frozen=True, repr=False)
class ReleasePass(Confidential):
    """What the pass of a release gave; nobody sees its validation page before the charge is on the ledger."""

    statistics: Any
    _found: Validation
    _vault: Vault
    room: IO[bytes]  # for the page, until it is closed

    def keep(self) -> None:
        """Put the page into the vault, once charged; the release goes on without it where that fails."""
        self.room.close()
        with suppress(VaultFailure):
            self._found.keep(self._vault)
