"""Small studies with a home and a ledger, planned and really charged."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.plans.document import plan_document
from dpbayes.plans.plan import Plan, plan
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import BudgetExceeded
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.exposure import NOTHING, Total
from storage.ledger.ledger import Ledger
from storage.ledger.reading import AccountSnapshot
from tests.support.accounts import open_where_missing
from tests.support.ledger_cases import STAMP
from tests.support.sums import sums_of

STUDY = """\
study: pay
population: staff
source: {path: "data/pay-{period}.parquet", rows: 2000, unit: person}
period: {grain: month, people: same}
columns:
  pay: {bounds: [0, 10]}
  age: {bounds: [16, 80]}
privacy:
  delta: 1e-6
  budget: BUDGET
releases: RELEASES
schedule: {cron: "0 2 1 * *", timezone: Europe/Amsterdam}
"""


def regression(loss: str, mechanism: str = "gaussian") -> str:
    """A release in YAML's flow style."""
    return f"{{kind: regression, response: pay, covariates: [age], mechanism: {mechanism}, {loss}}}"


@dataclass(frozen=True)
class Bureau:
    """A study in a folder without any data, and the ledger it charges."""

    folder: Path
    budget: str
    releases: tuple[str, ...]
    edits: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, folder: Path, budget: str, *releases: str) -> "Bureau":
        """A study of these releases with a home and an empty ledger."""
        with AnchoredLedger.create(Home.create(folder, {}), STAMP):
            return cls(folder, budget, releases)

    def asking(self, epsilon: Decimal) -> "Bureau":
        """The same bureau, its last release asking for another epsilon."""
        *others, last = self.releases
        return replace(self, releases=(*others, re.sub(r"epsilon: [0-9.]+", f"epsilon: {epsilon:f}", last)))

    def edited(self, old: str, new: str) -> "Bureau":
        """The same bureau with another text in its study file."""
        return replace(self, edits=(*self.edits, (old, new)))

    @property
    def study(self) -> Study:
        """The study file as it reads now."""
        named = ", ".join(f"r{number}: {release}" for number, release in enumerate(self.releases, 1))
        text = STUDY.replace("BUDGET", self.budget).replace("RELEASES", f"{{{named}}}")
        for old, new in self.edits:
            assert old in text
            text = text.replace(old, new)
        path = self.folder / "study.yaml"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        return load_study(path)

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """The real ledger."""
        with AnchoredLedger.open(self.folder) as anchored:
            yield anchored.ledger

    @contextmanager
    def snapshot(self) -> Iterator[AccountSnapshot]:
        """What planning sees of it."""
        study = self.study
        with AccountSnapshot.near(study.path, study.account()) as snapshot:
            yield snapshot

    def plan(self, period: str = "2026-01") -> Plan:
        """The plan of a period."""
        with self.snapshot() as snapshot:
            return plan(self.study, snapshot, self.study.parse_period(period))

    def document(self, period: str = "2026-01") -> dict[str, Any]:
        """The plan as programs read it."""
        with self.snapshot() as snapshot:
            study = self.study
            return plan_document(study, snapshot, plan(study, snapshot, study.parse_period(period)))

    def run(self, *periods: str) -> list[str | None]:
        """What real runs do: every release in turn; for each period the name of the one that is refused, if one is."""
        with self.ledger() as ledger:
            return [self.run_with(ledger, period) for period in periods]

    def run_with(self, ledger: Ledger, period: str) -> str | None:
        """One period, in a ledger that is open."""
        return next((name for name in self.study.releases if not self.charge(ledger, name, period)), None)

    def charge(self, ledger: Ledger, name: str, period: str) -> bool:
        """Whether the ledger took the charge; no table is needed, for the exact statistics are all 0."""
        study = self.study
        design = study.design(name)
        asked, zeros = study.request(name, period), sums_of(np.zeros(len(design.schema.entries)), 2000)
        try:
            open_where_missing(ledger, study.account())
            ledger.commit(asked, design, zeros, OpenDPNoise(), stamp=STAMP)
        except BudgetExceeded:
            return False
        return True

    def totals(self, ledger: Ledger, period: str) -> dict[str, Total]:
        """The ledger's own totals by cap; nothing before its first charge."""
        found = {cap.name: NOTHING for cap in self.study.account().caps}
        for account in ledger.accounts():
            found |= {state.cap.name: state.spent for state in account.caps if state.period in (None, period)}
        return found
