"""One pass over a table, for a release or an inspection; its findings about values go to the vault only."""

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
from tasks.sealed_pass import secure_cluster


@dataclass(frozen=True)
class Stewardship:
    """Who runs the pass, for which holder, and with which expectations of their own about the table."""

    actor: str
    holder: str | None = None  # only this one, where the others' tables are elsewhere
    expectations: tuple[OwnExpectation, ...] = ()


@dataclass(frozen=True)
class TablePass:
    """The inputs of a pass: study, request, ledger and steward. It stores nothing that it reads."""

    study: Study
    request: Request
    anchored: AnchoredLedger
    steward: Stewardship

    def release(self, checkpoint: PassCheckpoint) -> "ReleasePass":
        """The exact statistics of a release, with disk space reserved in the vault for its validation page."""
        secure_pass = self._read(checkpoint)
        page = self._validate(
            secure_pass,
            validation_place(self.request, self.steward.holder),
            RELEASED,
            {"revision": str(self.request.revision)},
        )
        vault = self.anchored.home.open_vault()
        return ReleasePass(secure_pass.statistics, page, vault, vault.room(page.name, page.size))

    def inspect(self, entry: int) -> Path:
        """Make a pass like a release's, discard its statistics, and write the validation page; returns its path.

        `entry` is the number of the ledger's note of the inspection.
        """
        home = self.anchored.home
        checkpoint = PassCheckpoint.without_resume(home.open_vault(), home.keys, self.request.key)
        try:
            place = f"{table_place(self.request, self.steward.holder)}-inspected"
            page = self._validate(self._read(checkpoint), place, INSPECTED, {"ledger entry": str(entry)})
            return page.keep(home.open_vault())
        finally:
            checkpoint.forget()

    @property
    def _source(self) -> TableSource:
        return self.study.table(self.request.release, self.request.period, holder=self.steward.holder)

    def _read(self, checkpoint: PassCheckpoint) -> SecurePass:
        with secure_cluster() as cluster:
            return read_statistics(
                self._source,
                self.study.statistic(self.request.release),
                key=self.anchored.home.contribution_key(),
                progress=lambda share: report("reading the table", share),
                checkpoint=checkpoint,
                cluster=cluster,
            )

    def _validate(self, secure_pass: SecurePass, place: str, decides: str, more: Mapping[str, str]) -> Validation:
        """Validate what the pass saw; the page for `place` in the vault, with `more` facts for its heading."""
        report("validating", 0.0)
        result = validate(secure_pass.profile, self._source, own=self.steward.expectations)
        request = self.request
        about = {"study": request.study, "account": request.account.population, "period": request.period}
        about |= {"release": request.release, **more} | ({"holder": self.steward.holder} if self.steward.holder else {})
        page = validation_of(secure_pass.profile, self._source, result, place=place, about=about, decides=decides)
        report("validating", 1.0)
        return page


@dataclass(frozen=True, repr=False)
class ReleasePass(Confidential):
    """The exact statistics and validation page of a release's pass; the page is written only after the charge."""

    statistics: Any
    _page: Validation
    _vault: Vault
    room: IO[bytes]  # reserves disk space for the page until it is closed

    def keep(self) -> None:
        """Write the page to the vault after the charge; the release goes on if that fails."""
        self.room.close()
        with suppress(VaultFailure):
            self._page.keep(self._vault)
