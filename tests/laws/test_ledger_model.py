"""The ledger against a small model: charges, retries, crashes, raises, closings, revisions, holders and grains."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dpbayes_core.errors import BudgetExceeded, RequestChanged, StudyInvalid
from dpbayes_core.privacy.accounting import UNITS, cap_rho_units
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from storage.ledger.page import Page
from storage.ledger.refusal import PeriodClosed
from storage.ledger.verify import verify
from tests.storage.test_ledger_holders import split
from tests.support.ledger_cases import (
    ENTRIES,
    STAMP,
    account,
    cap,
    coming,
    commit,
    commit_moving,
    gaussian,
    laplace,
    new_ledger,
    request,
    url,
)
from tests.support.postgres import Server

CAPS = {
    "lifetime": cap("1.5"),
    "per-period": cap("0.9", "per-period"),
    "programme": cap("0.5", "programme", measure="rho", programme="x"),
}
MONTHS = ("2026-01", "2026-02")  # the grain of every account
WINDOWS = {month: (month,) for month in MONTHS} | {
    "2026-02-28": ("2026-02",),
    "2026-Q1": ("2026-01", "2026-02", "2026-03"),
    "2026": tuple(f"2026-{month:02}" for month in range(1, 13)),
}
GRAINS: dict[int, Any] = {4: "year", 7: "month", 10: "day"}
PERIODS, NAMES, HOLDERS = (*MONTHS, *WINDOWS), ("a", "b"), ("north", "south")  # months more often than others
MEMBERSHIPS: dict[str, Any] = {"staff": None, "students": "undeclared", "branches": "fixed", "movers": "movable"}
POPULATIONS = tuple(MEMBERSHIPS)
MECHANISMS = tuple(laplace(e) for e in (0.05, 0.2, 0.4, 0.8)) + tuple(gaussian(e) for e in (0.05, 0.3, 0.6))


Key = tuple[str, str, str, str | None, int]  # population, period, name, holder, revision
Charge = tuple[str, str | None, Any]  # period, holder, cost
Exposure = tuple[int | float, int]  # pure epsilon, infinite without one; rho


def total(costs: list[Any]) -> Exposure:
    return sum(inf if c.epsilon is None else c.epsilon for c in costs), sum(c.rho for c in costs)


def exposures(membership: str | None, charges: list[Charge]) -> list[Exposure]:
    """What there can be of people, by what they were exposed to."""
    if membership == "fixed":
        return [total([cost for _, holder, cost in charges if holder in (None, home)]) for home in HOLDERS]
    if membership == "movable":
        parts = [total([cost for _, holder, cost in charges if holder is None])]
        for month in MONTHS:
            own = [total([c for period, holder, c in charges if (period, holder) == (month, home)]) for home in HOLDERS]
            parts.append((2 * max(pure for pure, _ in own), 4 * max(rho for _, rho in own)))
        for pure, rho in (total([c]) for period, holder, c in charges if holder is not None and period not in MONTHS):
            parts.append((2 * pure, 4 * rho))
        return [(sum(pure for pure, _ in parts), sum(rho for _, rho in parts))]
    return [total([cost for _, _, cost in charges])]


def holds(limit: Fraction, people: list[Exposure]) -> bool:
    """An (epsilon, delta) cap, for everybody."""
    full = cap_rho_units(limit, Decimal("1e-6"))
    return all(pure <= limit * UNITS or rho <= full for pure, rho in people)


KEYS = st.tuples(
    st.sampled_from((*POPULATIONS, "branches", "movers")),
    st.sampled_from(PERIODS),
    st.sampled_from(NAMES),
    st.sampled_from((None, *HOLDERS, *HOLDERS)),
    st.sampled_from((1, 1, 1, 2)),
)


class Killed(BaseException):
    """Nothing after this happens."""


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.place = self.new_place()
        self.ledger = Ledger.open(self.place)
        self.limits = {(p, "lifetime"): Fraction(3, 2) for p in POPULATIONS}
        self.charged: dict[Key, tuple[Entry, Any]] = {}
        self.closed: set[tuple[str, str]] = set()

    def new_place(self) -> str:
        memory = Path("/dev/shm")  # nothing here is about the disk
        self.folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        new_ledger(Path(self.folder.name)).dispose()
        return url(Path(self.folder.name))

    @initialize()
    def open_accounts(self) -> None:
        for population in POPULATIONS:
            self.ledger.open_account(self.account(population), STAMP)

    def account(self, population: str) -> Any:
        membership = MEMBERSHIPS[population]
        spec = account(*CAPS.values(), population=population)
        return replace(spec, holders=None if membership is None else split(membership, *HOLDERS))

    def request(self, key: Key) -> Any:
        population, period, name, holder, revision = key
        reason = "better source" if revision > 1 else None
        named = {"study": population, "period": period, "release": name, "holder": holder}
        stated = replace(self.account(population), grain="quarter" if "Q" in period else GRAINS[len(period)])
        return request(stated, **named, revision=revision, reason=reason)

    def commit(self, key: Key, mechanism: Any, asked: Any = None) -> Entry:
        asked = asked or self.request(key)
        if not self.moves(key):
            return commit(self.ledger, asked, mechanism)
        entries = commit_moving(self.ledger, asked, self.made(key, mechanism))
        return next(entry for entry in entries if entry.payload["holder"] == key[3])

    def together(self, key: Key) -> list[Key]:
        """What one commit charges: where people move, all holders."""
        population, period, name, holder, revision = key
        return [(population, period, name, one, revision) for one in (HOLDERS if self.moves(key) else (holder,))]

    def moves(self, key: Key) -> bool:
        return MEMBERSHIPS[key[0]] == "movable" and key[3] is not None

    def made(self, key: Key, mechanism: Any) -> Any:
        """The noise of this loss that the key's neighbours call for."""
        counted = len(mechanism.scales) > ENTRIES
        return coming(mechanism) if self.moves(key) and not counted else mechanism

    def charges(self, population: str) -> list[Charge]:
        return [(key[1], key[3], made.cost()) for key, (_, made) in self.charged.items() if key[0] == population]

    def admitted(self, key: Key, mechanism: Any) -> bool:
        population, period, *_ = key
        new = [(period, one[3], mechanism.cost()) for one in self.together(key)]
        membership, charges = MEMBERSHIPS[population], self.charges(population) + new
        programme = 0
        for other, kind in MEMBERSHIPS.items():
            all_of_it = charges if other == population else self.charges(other)
            programme += max(rho for _, rho in exposures(kind, all_of_it))
        return (
            holds(self.limits[population, "lifetime"], exposures(membership, charges))
            and all(self.window_holds(membership, charges, window) for window in WINDOWS[period])
            and programme <= UNITS // 2
        )

    def window_holds(self, membership: str | None, charges: list[Charge], window: str) -> bool:
        return holds(Fraction(9, 10), exposures(membership, [each for each in charges if window in WINDOWS[each[0]]]))

    @rule(asked=st.lists(st.tuples(KEYS, st.sampled_from(MECHANISMS)), min_size=1, max_size=6))
    def charge(self, asked: list[tuple[Key, Any]]) -> None:
        for key, mechanism in asked:
            self.charge_one(key, self.made(key, mechanism))

    def charge_one(self, key: Key, mechanism: Any) -> None:
        population, period, name, holder, revision = key
        if key in self.charged:
            assert self.commit(key, mechanism) == self.charged[key][0]
        elif revision > 1 and (population, period, name, holder, revision - 1) not in self.charged:
            with pytest.raises(StudyInvalid):
                self.commit(key, mechanism)
        elif any((population, window) in self.closed for window in WINDOWS[period]):
            with pytest.raises(PeriodClosed):
                self.commit(key, mechanism)
        elif not self.admitted(key, mechanism):
            with pytest.raises(BudgetExceeded) as refused:
                self.commit(key, mechanism)
            self.check_largest(key, mechanism, refused.value.largest_epsilon)
        else:
            for one in self.together(key):
                self.charged[one] = (self.commit(one, mechanism), mechanism)

    def check_largest(self, key: Key, mechanism: Any, largest: Decimal) -> None:
        if largest > 0:
            make = laplace if mechanism.name == "laplace" else gaussian
            assert self.admitted(key, self.made(key, make(float(largest))))
            assert not self.admitted(key, self.made(key, make(float(largest) * 1.02)))

    @rule(key=KEYS, mechanism=st.sampled_from(MECHANISMS), late=st.booleans())
    def crash(self, key: Key, mechanism: Any, late: bool) -> None:
        """Dying after the first insert or the last, and before the commit, is as if nothing had been asked."""
        left = len(self.together(key)) if late else 1

        def dying(page: Page, entry: Entry) -> None:
            nonlocal left
            write(page, entry)
            left -= 1
            if not left:
                raise Killed

        write, before = Page.restore, self.ledger.head
        with pytest.MonkeyPatch.context() as patched, suppress(Killed, BudgetExceeded, PeriodClosed, StudyInvalid):
            patched.setattr(Page, "restore", dying)
            assert self.commit(key, mechanism) == self.charged[key][0]
        assert self.ledger.head == before

    @rule(key=KEYS)
    def restate(self, key: Key) -> None:
        if key in self.charged:
            with pytest.raises(RequestChanged):
                self.commit(key, laplace(0.05), replace(self.request(key), definition={}))

    @rule(population=st.sampled_from(POPULATIONS), more=st.sampled_from((1, 2, 3)))
    def raise_cap(self, population: str, more: int) -> None:
        limit = Decimal("1.5") + more
        if Fraction(limit) < self.limits[population, "lifetime"]:
            with pytest.raises(StudyInvalid):
                self.ledger.raise_cap(population, "lifetime", limit, reason="decided", stamp=STAMP)
        else:
            self.ledger.raise_cap(population, "lifetime", limit, reason="decided", stamp=STAMP)
            self.limits[population, "lifetime"] = Fraction(limit)

    @rule(population=st.sampled_from(POPULATIONS), period=st.just(MONTHS[0]))
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
        self.ledger = Ledger.open(self.place)

    @invariant()
    def nothing_is_lost_or_double(self) -> None:
        assert self.ledger.count("charge") == len(self.charged)

    def teardown(self) -> None:
        assert [check for check in verify(self.ledger.entries()) if not check.ok] == []
        self.ledger.dispose()
        self.remove_place()

    def remove_place(self) -> None:
        self.folder.cleanup()


TestLedgerAgainstModel = LedgerMachine.TestCase
TestLedgerAgainstModel.settings = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
def test_the_model_holds_on_postgresql_too(postgresql: Server) -> None:
    class OnPostgresql(LedgerMachine):
        def new_place(self) -> str:
            place = postgresql.new_schema()
            Ledger.create(place, STAMP).dispose()
            return place

        def remove_place(self) -> None:
            pass  # it goes with the server

    few = settings(TestLedgerAgainstModel.settings, max_examples=5, stateful_step_count=25)
    run_state_machine_as_test(OnPostgresql, settings=few)
