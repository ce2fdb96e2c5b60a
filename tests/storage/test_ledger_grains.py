"""Periods of another grain than the account's: each window that they overlap is debited, and guards them."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import BudgetExceeded, StudyInvalid
from dpbayes_core.privacy.accounting import UNITS
from storage.ledger.cap_document import account_document
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from storage.ledger.periods import Period, overlapped
from storage.ledger.refusal import PeriodClosed
from storage.ledger.request import Request
from storage.ledger.verify import verify
from tests.storage.test_ledger_holders import split
from tests.support.ledger_cases import (
    STAMP,
    account,
    cap,
    coming,
    commit,
    commit_moving,
    laplace,
    request,
)

CAPS = (cap("4", measure="pure-epsilon"), cap("1", "per-period", measure="pure-epsilon"))
MONTHLY = account(*CAPS)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    """With one account, by months."""
    with Ledger.open(ledger_url) as opened:
        opened.open_account(MONTHLY, STAMP)
        yield opened


def asked(period: str, release: str = "wage", **others: Any) -> Request:
    return request(replace(MONTHLY, grain=Period.named(period).grain), period=period, release=release, **others)


def windows(ledger: Ledger) -> dict[str, float]:
    [state] = ledger.accounts()
    return {cap.period: (cap.spent.epsilon or 0) / UNITS for cap in state.caps if cap.period is not None}


def failures(ledger: Ledger) -> list[str]:
    return [check.detail for check in verify(ledger.entries()) if not check.ok]


@pytest.mark.parametrize(
    ("period", "grain", "found"),
    [
        ("2026-Q1", "month", ("2026-01", "2026-02", "2026-03")),
        ("2026-02", "quarter", ("2026-Q1",)),
        ("2024-02-29", "month", ("2024-02",)),
        ("9999", "quarter", ("9999-Q1", "9999-Q2", "9999-Q3", "9999-Q4")),
        ("2026-12-31", "year", ("2026",)),
        ("2026-02", "month", ("2026-02",)),
    ],
)
def test_periods_overlap_by_the_calendar(period: str, grain: Any, found: tuple[str, ...]) -> None:
    assert overlapped(period, grain) == found


def test_a_year_overlaps_each_of_its_days_once() -> None:
    assert len(set(overlapped("2024", "day"))) == len(overlapped("2024", "day")) == 366
    with pytest.raises(StudyInvalid, match="canonical name of no"):
        overlapped("2026-1", "day")


def test_a_longer_period_debits_each_of_its_windows_and_a_shorter_one_the_window_around_it(ledger: Ledger) -> None:
    commit(ledger, asked("2026-02"), laplace(0.25))
    commit(ledger, asked("2026-Q1"), laplace(0.5))
    commit(ledger, asked("2026-02-14"), laplace(0.125))
    assert windows(ledger) == {"2026-01": 0.5, "2026-02": 0.875, "2026-03": 0.5}
    [state] = ledger.accounts()
    assert state.caps[0].spent.epsilon == int(0.875 * UNITS)  # for life it is counted once
    assert failures(ledger) == []


@pytest.mark.parametrize("last", ["2026-02", "2026-02-28", "2026-Q1", "2026"])
@pytest.mark.parametrize("before", ["2026-02", "2026-02-01", "2026-Q1", "2026"])
def test_no_grain_gets_past_what_another_spent(ledger: Ledger, before: str, last: str) -> None:
    commit(ledger, asked(before), laplace(0.75))
    with pytest.raises(BudgetExceeded, match="per-period") as refused:
        commit(ledger, asked(last, "hours"), laplace(0.5))
    assert refused.value.largest_epsilon == Decimal("0.25")
    commit(ledger, asked(last, "hours"), laplace(0.25))
    with pytest.raises(BudgetExceeded):
        ledger.check(asked("2026-02", "more"), laplace(0.01))
    ledger.check(asked("2027", "more"), laplace(1))
    assert failures(ledger) == []


def test_a_charge_that_overlaps_a_closed_window_is_refused(ledger: Ledger) -> None:
    ledger.close(MONTHLY.population, "2026-02", reason="published", stamp=STAMP)
    for period in ("2026-02", "2026-02-14", "2026-Q1", "2026"):
        with pytest.raises(PeriodClosed):
            commit(ledger, asked(period), laplace(0.1))
    commit(ledger, asked("2026-Q2"), laplace(0.1))


def test_closing_a_longer_period_closes_its_windows_and_no_day_closes_a_month(ledger: Ledger) -> None:
    ledger.close(MONTHLY.population, "2026-Q1", reason="published", stamp=STAMP)
    head = ledger.head
    ledger.close(MONTHLY.population, "2026-Q1", reason="again", stamp=STAMP)
    assert ledger.head == head
    with pytest.raises(PeriodClosed):
        ledger.check(asked("2026-03-31"), laplace(0.1))
    with pytest.raises(StudyInvalid, match="canonical name of a month"):
        ledger.close(MONTHLY.population, "2026-04-01", reason="published", stamp=STAMP)


def test_the_windows_of_a_period_are_shown_for_it(ledger: Ledger) -> None:
    commit(ledger, asked("2026-Q1"), laplace(0.5))
    commit(ledger, asked("2026-05"), laplace(0.5))
    document = account_document(ledger.accounts()[0], "2026-Q1")
    assert [cap["period"] for cap in document["caps"]] == [None, "2026-01", "2026-02", "2026-03"]


def test_an_auditor_misses_a_window_and_the_mark_of_another_grain(ledger: Ledger) -> None:
    commit(ledger, asked("2026-Q1"), laplace(0.5))
    commit(ledger, asked("2026-02-01"), laplace(0.125))
    entries = list(ledger.entries())
    debits = entries[-1].payload["debits"]
    assert debits[0]["grains"] == ["day", "quarter"]
    unmarked = [{name: value for name, value in debits[0].items() if name != "grains"}, *debits[1:]]
    for forged in (debits[:1], unmarked):
        payload = {**entries[-1].payload, "debits": forged}
        last = entries[-1]
        entry = Entry.following(entries[-2], kind="charge", key=last.key, payload=payload, release=last.release)
        found = {check.check for check in verify([*entries[:-1], entry]) if not check.ok}
        assert found == {"totals add up"}
    assert canonical_json(debits) == canonical_json(ledger.head.payload["debits"])


def test_another_processes_charge_counts_at_once(ledger: Ledger, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as other:
        commit(ledger, asked("2026-02"), laplace(0.5))
        commit(other, asked("2026-Q1"), laplace(0.25))
        with pytest.raises(BudgetExceeded):
            commit(ledger, asked("2026-02", "hours"), laplace(0.5))
        commit(ledger, asked("2026-02", "hours"), laplace(0.25))
        with pytest.raises(BudgetExceeded):
            commit(other, asked("2026-02", "more"), laplace(0.01))


def test_moving_people_may_be_elsewhere_in_a_period_of_another_grain(ledger: Ledger) -> None:
    caps = (cap("4", measure="pure-epsilon"), cap("2", "per-period", measure="pure-epsilon"))
    movers = replace(account(*caps, population="movers"), holders=split("movable", "north", "south"))
    ledger.open_account(movers, STAMP)
    quarterly = replace(movers, grain="quarter")
    commit_moving(ledger, request(quarterly, period="2026-Q1"), coming(laplace(0.25)))
    commit_moving(ledger, request(movers, period="2026-01"), coming(laplace(0.5)))
    state = next(state for state in ledger.accounts() if state.spec.population == "movers")
    spent = {cap.period: ((cap.spent.epsilon or 0) / UNITS, cap.spent.rho) for cap in state.caps}
    quarter, month = 2 * 4 * coming(laplace(0.25)).cost().rho, 4 * coming(laplace(0.5)).cost().rho
    # not the larger of both: who was in the north for the quarter may be in the south for the month
    assert spent[None] == spent["2026-01"] == (2.0, quarter + month)
    assert spent["2026-02"] == spent["2026-03"] == (1.0, quarter)
    assert failures(ledger) == []
