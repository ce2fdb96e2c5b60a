"""A release as the flow makes it, but without the orchestrator: the pass, the charge and the crate."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbayes.study.load import load_study
from dpbayes_core.errors import DpbayesError
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from storage.ledger.request import AccountSpec
from storage.ledger.verify import verify
from tasks.orders import ReleaseOrder
from tasks.publish_release import publish_once
from tasks.release_statistics import release_once
from tests.support.accounts import open_account_of
from tests.support.desk import PERIOD, STUDY, Desk, people
from tests.support.ledger_cases import STAMP


class HookedNoise(OpenDPNoise):
    """Real noise that calls `meanwhile` when it is drawn: after the sum, before the commit."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile = meanwhile

    def gaussian(self, values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        self.meanwhile()
        return super().gaussian(values, scale)


class Place:
    """A study with its table, home and ledger, and what a flow does with it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.desk = Desk(folder)
        self.desk.study.write_text(STUDY)
        self.desk.write_table(people(200))
        with AnchoredLedger.create(Home.create(folder), STAMP):
            open_account_of(self.desk.study)

    def release(self, meanwhile: Callable[[], object] = lambda: None, period: str = PERIOD) -> tuple[str, str]:
        """Release and publish; returns the status and the digest."""
        order = ReleaseOrder(study=str(self.desk.study), release="pay-regression", period=period)
        (status,) = release_once(order, HookedNoise(meanwhile))
        return status, str(publish_once(order, [status])[0]["digest"])

    @property
    def account(self) -> AccountSpec:
        """The account that pays, as the study states it."""
        return load_study(self.desk.study).request("pay-regression", PERIOD, 1, None).account

    def charges(self) -> list[Entry]:
        """The charges of a ledger that verifies."""
        with Ledger.open(Home.find(self.desk.folder).ledger_url) as ledger:
            assert [check for check in verify(ledger.entries()) if not check.ok] == []
            return [entry for entry in ledger.entries() if entry.kind == "charge"]

    def digests(self) -> list[str]:
        """The digests of all charges."""
        return [charge.payload["digest"] for charge in self.charges()]

    def refused(self, meanwhile: Callable[[], object] = lambda: None, *, exit_code: int = 1) -> str:
        """The message of a release that fails."""
        with pytest.raises(DpbayesError) as failed:
            self.release(meanwhile)
        assert failed.value.exit_code == exit_code
        return str(failed.value)

    def repaired(self, charged: list[str]) -> None:
        """Assert that a second run completes the release and a third changes nothing."""
        status, digest = self.release()
        assert status == ("already-released" if charged else "released")
        assert charged in ([], [digest])
        assert self.release() == ("already-released", digest)
        assert self.digests() == [digest]
