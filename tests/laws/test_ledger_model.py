"""The ledger against a model of twenty lines, under any order of charges, retries, raises, closings and reopenings."""

import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dpbayes_core.accounting import UNITS, cap_rho_units
from dpbayes_core.errors import BudgetExceeded, RequestChanged, StudyInvalid
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from storage.ledger.refusal import PeriodClosed
from storage.ledger.verify import verify
from tests.storage.ledger_cases import STAMP, account, cap, commit, gaussian, laplace, new_ledger, request, url

CAPS = {
    "lifetime": cap("1.5"),
    "per-period": cap("0.8"),
    "programme": cap("2", "programme", measure="rho", programme="x"),
}
PERIODS, POPULATIONS, NAMES = ("2026-01", "2026-02"), ("staff", "students"), ("a", "b", "c", "d")
MECHANISMS = tuple(laplace(e) for e in (0.05, 0.3, 0.8)) + tuple(gaussian(e) for e in (0.05, 0.3, 0.8))


def holds(limit: Fraction, costs: list[Any], *, delta: bool) -> bool:
    pure = [cost.epsilon for cost in costs]
    rho = sum(cost.rho for cost in costs)
    if not delta:
        return rho <= limit * UNITS
    return (None not in pure and sum(pure) <= limit * UNITS) or rho <= cap_rho_units(limit, Decimal("1e-6"))


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = new_ledger(Path(self.folder.name))
        self.limits = {(p, "lifetime"): Fraction(3, 2) for p in POPULATIONS}
        self.charged: dict[tuple[str, str, str, int], tuple[Entry, Any]] = {}
        self.closed: set[tuple[str, str]] = set()

    @initialize()
    def open_accounts(self) -> None:
        for population in POPULATIONS:
            self.ledger.open_account(self.account(population), STAMP)

    def account(self, population: str) -> Any:
        return account(CAPS["lifetime"], cap("0.8", "per-period"), CAPS["programme"], population=population)

    def request(self, population: str, period: str, name: str, revision: int = 1) -> Any:
        reason = "better source" if revision > 1 else None
        spec = self.account(population)
        return request(spec, study=population, period=period, release=name, revision=revision, reason=reason)

    def admitted(self, population: str, period: str, mechanism: Any) -> bool:
        new = mechanism.cost()
        costs = {key: made.cost() for key, (_, made) in self.charged.items()}
        life = [cost for key, cost in costs.items() if key[0] == population]
        month = [cost for key, cost in costs.items() if key[:2] == (population, period)]
        return (
            holds(self.limits[population, "lifetime"], [*life, new], delta=True)
            and holds(Fraction(4, 5), [*month, new], delta=True)
            and holds(Fraction(2), [*costs.values(), new], delta=False)
        )

    @rule(
        population=st.sampled_from(POPULATIONS),
        period=st.sampled_from(PERIODS),
        name=st.sampled_from(NAMES),
        revision=st.sampled_from((1, 1, 2)),
        mechanism=st.sampled_from(MECHANISMS),
    )
    def charge(self, population: str, period: str, name: str, revision: int, mechanism: Any) -> None:
        key = (population, period, name, revision)
        asked = self.request(*key)
        if key in self.charged:
            assert commit(self.ledger, asked, mechanism) == self.charged[key][0]
        elif revision > 1 and (population, period, name, revision - 1) not in self.charged:
            with pytest.raises(StudyInvalid):
                commit(self.ledger, asked, mechanism)
        elif (population, period) in self.closed:
            with pytest.raises(PeriodClosed):
                commit(self.ledger, asked, mechanism)
        elif not self.admitted(population, period, mechanism):
            with pytest.raises(BudgetExceeded) as refused:
                commit(self.ledger, asked, mechanism)
            self.check_largest(population, period, mechanism, refused.value.largest_epsilon)
        else:
            self.charged[key] = (commit(self.ledger, asked, mechanism), mechanism)

    def check_largest(self, population: str, period: str, mechanism: Any, largest: Decimal) -> None:
        if largest > 0:
            make = laplace if mechanism.name == "laplace" else gaussian
            assert self.admitted(population, period, make(float(largest)))
            assert not self.admitted(population, period, make(float(largest) * 1.02))

    @rule(population=st.sampled_from(POPULATIONS), period=st.sampled_from(PERIODS), name=st.sampled_from(NAMES))
    def restate(self, population: str, period: str, name: str) -> None:
        if (population, period, name, 1) in self.charged:
            asked = request(self.account(population), study=population, period=period, release=name, definition={})
            with pytest.raises(RequestChanged):
                commit(self.ledger, asked, laplace(0.05))

    @rule(population=st.sampled_from(POPULATIONS), more=st.sampled_from((1, 2, 3)))
    def raise_cap(self, population: str, more: int) -> None:
        limit = Decimal("1.5") + more
        if Fraction(limit) < self.limits[population, "lifetime"]:
            with pytest.raises(StudyInvalid):
                self.ledger.raise_cap(population, "lifetime", limit, reason="decided", stamp=STAMP)
        else:
            self.ledger.raise_cap(population, "lifetime", limit, reason="decided", stamp=STAMP)
            self.limits[population, "lifetime"] = Fraction(limit)

    @rule(population=st.sampled_from(POPULATIONS), period=st.just(PERIODS[0]))
    def close(self, population: str, period: str) -> None:
        if len(self.charged) > 3:
            self.ledger.close(population, period, reason="published", stamp=STAMP)
            self.closed.add((population, period))

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if self.charged:
            entry, _ = data.draw(st.sampled_from(list(self.charged.values())))
            self.ledger.withdraw(entry.key, reason="wrong", stamp=STAMP)

    @rule()
    def reopen(self) -> None:
        self.ledger.dispose()
        self.ledger = Ledger.open(url(Path(self.folder.name)))

    @invariant()
    def nothing_is_lost_or_double(self) -> None:
        assert self.ledger.count("charge") == len(self.charged)

    def teardown(self) -> None:
        assert [check for check in verify(self.ledger.entries()) if not check.ok] == []
        self.ledger.dispose()
        self.folder.cleanup()


TestLedgerAgainstModel = LedgerMachine.TestCase
TestLedgerAgainstModel.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
