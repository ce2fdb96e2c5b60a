"""What a cap admits, to the last integer, and what it says when it refuses."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpbayes_core.errors import BudgetExceeded, StudyInvalid
from dpbayes_core.privacy.accounting import UNITS, Cost, cap_rho_units
from storage.ledger.caps import admits, remaining
from storage.ledger.exposure import Total
from storage.ledger.ledger import Ledger
from storage.ledger.refusal import largest_fitting
from storage.ledger.request import AccountSpec, CapSpec, Request
from storage.ledger.verify import verify
from tests.support.accounts import open_where_missing
from tests.support.ledger_cases import (
    STAMP,
    account,
    cap,
    commit,
    gaussian,
    gaussian_of_rho,
    laplace,
    new_ledger,
    request,
)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with new_ledger(tmp_path) as made:
        yield made


@pytest.fixture
def on_either(ledger_url: str) -> Iterator[Ledger]:
    """A ledger on each database in turn, for what is found by asking it and not by arithmetic."""
    with Ledger.open(ledger_url) as made:
        yield made


FULL_RHO = cap_rho_units(Decimal(1), Decimal("1e-6"))


@pytest.mark.parametrize(
    ("limit", "full", "over"),
    [
        (cap("1", measure="pure-epsilon"), Total(UNITS, 10 * UNITS), Total(UNITS + 1, 0)),
        (cap("1", measure="pure-epsilon"), Total(0, 0), Total(None, 0)),
        (cap("1", measure="rho"), Total(None, UNITS), Total(0, UNITS + 1)),
        (cap("1"), Total(UNITS, FULL_RHO + 1), Total(UNITS + 1, FULL_RHO + 1)),
        (cap("1"), Total(UNITS + 1, FULL_RHO), Total(None, FULL_RHO + 1)),
        (cap("1"), Total(None, FULL_RHO), Total(None, FULL_RHO + 1)),
    ],
)
def test_a_cap_holds_to_the_last_integer(limit: CapSpec, full: Total, over: Total) -> None:
    assert admits(limit, full)
    assert not admits(limit, over)


def test_a_charge_without_pure_epsilon_closes_the_pure_route_for_good() -> None:
    total = Total(5, 5).plus(Cost(None, 7)).plus(Cost(3, 3))
    assert total == Total(None, 15)
    assert remaining(cap("1"), total).epsilon is None
    assert Total.from_record(total.to_record()) == total


def spend(ledger: Ledger, spec: AccountSpec, mechanisms: list[Any]) -> list[bool]:
    admitted: list[bool] = []
    for number, mechanism in enumerate(mechanisms):
        try:
            commit(ledger, request(spec, study=spec.population, release=f"release-{number}"), mechanism)
            admitted.append(True)
        except BudgetExceeded:
            admitted.append(False)
    return admitted


@pytest.mark.parametrize("epsilon", [8.0, 1.0, 0.5, 0.1, 0.01])
def test_a_cap_admits_exactly_one_gaussian_release_of_its_own_epsilon(ledger: Ledger, epsilon: float) -> None:
    spec = account(cap(str(epsilon)))
    assert spend(ledger, spec, [gaussian(epsilon), gaussian(0.001), laplace(0.01)]) == [True, False, False]


def test_a_cap_admits_two_pure_halves_or_ten_tenths_and_nothing_more(ledger: Ledger) -> None:
    halves, tenths = account(cap("1")), account(cap("1"), population="students")
    assert spend(ledger, halves, [laplace(0.5), laplace(0.5), laplace(0.001)]) == [True, True, False]
    assert spend(ledger, tenths, [laplace(0.1)] * 10 + [laplace(0.9)]) == [True] * 10 + [False]


def test_a_pure_cap_refuses_a_gaussian_release_and_a_rho_cap_takes_both(ledger: Ledger) -> None:
    pure, rho = account(cap("1", measure="pure-epsilon")), account(cap("0.2", measure="rho"), population="students")
    assert spend(ledger, pure, [gaussian(0.01), laplace(1.0)]) == [False, True]
    assert spend(ledger, rho, [gaussian_of_rho(0.1), laplace(0.5), gaussian_of_rho(0.1)]) == [True, True, False]


def test_each_period_has_its_own_window_and_the_lifetime_adds_them_up(on_either: Ledger) -> None:
    spec = account(cap("1", measure="pure-epsilon"), cap("0.4", "per-period", measure="pure-epsilon"))
    commit(on_either, request(spec, period="2026-01"), laplace(0.4))
    with pytest.raises(BudgetExceeded, match="the per-period cap of employees"):
        commit(on_either, request(spec, period="2026-01", release="hours"), laplace(0.1))
    commit(on_either, request(spec, period="2026-02"), laplace(0.4))
    with pytest.raises(BudgetExceeded, match="the lifetime cap of employees") as refused:
        commit(on_either, request(spec, period="2026-03"), laplace(0.4))
    assert refused.value.largest_epsilon == Decimal("0.2")


def test_the_lifetime_adds_periods_up_even_where_people_are_declared_disjoint(ledger: Ledger) -> None:
    spec = account(cap("1", measure="pure-epsilon"), people="disjoint")
    commit(ledger, request(spec, period="2026-01"), laplace(0.6))
    with pytest.raises(BudgetExceeded):
        commit(ledger, request(spec, period="2026-02"), laplace(0.6))


def test_a_programme_is_one_cap_over_several_populations(on_either: Ledger) -> None:
    shared = cap("1", "programme", measure="pure-epsilon", programme="labour")
    own = cap("5", measure="pure-epsilon")
    staff, students = account(own, shared), account(own, shared, population="students")
    commit(on_either, request(staff, release="tenure"), laplace(0.7))
    on_either.open_account(students, STAMP)
    with pytest.raises(BudgetExceeded, match="the cap of programme labour") as refused:
        on_either.check(request(students, study="schools"), laplace(0.7))
    assert refused.value.largest_epsilon == Decimal("0.3")
    commit(on_either, request(students, study="schools"), laplace(0.3))
    on_either.raise_cap("students", "programme labour", Decimal(2), reason="decided", stamp=STAMP)
    commit(on_either, request(staff, release="hours"), laplace(1.0))
    with pytest.raises(BudgetExceeded):
        on_either.check(request(students, study="schools", release="hours"), laplace(0.001))


def test_a_programme_is_stated_alike_by_all_its_populations(on_either: Ledger) -> None:
    shared = cap("1", "programme", programme="labour")
    on_either.open_account(account(shared), STAMP)
    on_either.raise_cap("employees", "programme labour", Decimal(3), reason="decided", stamp=STAMP)
    other = cap("2", "programme", programme="labour")
    with pytest.raises(StudyInvalid, match="programme labour was opened with another cap"):
        on_either.open_account(account(other, population="students"), STAMP)
    with pytest.raises(StudyInvalid, match="programme labour counts replace-one"):
        on_either.open_account(account(shared, population="students", neighbours="add-remove"), STAMP)
    raised = cap("3", "programme", programme="labour")
    assert on_either.open_account(account(raised, population="students"), STAMP).kind == "account"
    assert on_either.open_account(account(shared, population="pupils"), STAMP).kind == "account"


def test_an_account_that_joins_a_raised_programme_is_counted_by_the_raised_cap(on_either: Ledger) -> None:
    shared = cap("1", "programme", measure="pure-epsilon", programme="labour")
    on_either.open_account(account(shared), STAMP)
    on_either.raise_cap("employees", "programme labour", Decimal(2), reason="decided", stamp=STAMP)
    newcomer = account(shared, population="students")
    on_either.open_account(newcomer, STAMP)
    on_either.check(request(newcomer), laplace(1.5))
    commit(on_either, request(newcomer), laplace(1.5))
    assert [check.detail for check in verify(on_either.entries()) if not check.ok] == []


def refused(ledger: Ledger, asked: Request, mechanism: Any) -> BudgetExceeded:
    open_where_missing(ledger, asked.account)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.check(asked, mechanism)
    return caught.value


@pytest.mark.parametrize("spent", [[], [0.3], [0.3, 0.07]])
@pytest.mark.parametrize(
    ("limit", "make"),
    [
        (cap("1"), laplace),
        (cap("1"), gaussian),
        (cap("0.02", measure="rho"), laplace),
        (cap("0.02", measure="rho"), gaussian),
        (cap("1", measure="pure-epsilon"), laplace),
    ],
)
def test_the_largest_epsilon_of_a_refusal_fits_and_the_next_does_not(
    ledger: Ledger, limit: CapSpec, spent: list[float], make: Any
) -> None:
    spec = account(limit)
    if limit.measure == "rho":
        spent = [epsilon / 10 for epsilon in spent]
    spend(ledger, spec, [make(epsilon) for epsilon in spent])
    largest = refused(ledger, request(spec), make(5.0)).largest_epsilon
    assert largest > 0
    assert largest == Decimal(f"{largest:.4g}")
    next_one = largest + Decimal(1).scaleb(largest.adjusted() - 3)
    refused(ledger, request(spec), make(float(next_one)))
    assert commit(ledger, request(spec), make(float(largest))).kind == "charge"


def test_a_laplace_release_may_take_whichever_route_admits_more(ledger: Ledger) -> None:
    spec = account(cap("1"))
    commit(ledger, request(spec), gaussian(0.5))  # the pure route is closed from here on
    by_rho = refused(ledger, request(spec, release="hours"), laplace(1.0))
    assert Decimal("0.2") < by_rho.largest_epsilon < Decimal(1)
    assert "remains" in str(by_rho)
    assert "rho 0.01771 (epsilon" in str(by_rho)


def test_a_refusal_is_one_sentence_in_the_terms_of_its_cap(ledger: Ledger) -> None:
    spec = account(cap("1"))
    commit(ledger, request(spec), gaussian(0.5))
    assert str(refused(ledger, request(spec, release="hours"), gaussian(0.9))) == (
        "cannot charge hours of 2026-01 to the lifetime cap of employees (epsilon 1 at delta 1e-6): it asks "
        "rho 0.02001 (epsilon 0.9 at delta 1e-6) and rho 0.01771 (epsilon 0.8434 at delta 1e-6) remains. "
        "Ask for epsilon 0.8434 or less, or raise the cap."
    )
    pure = account(cap("1", measure="pure-epsilon"), population="students")
    assert "asks rho 0.02436 without any pure epsilon and epsilon 1 remains. Nothing more fits" in str(
        refused(ledger, request(pure, study="schools"), gaussian(1.0))
    )
    fresh = account(cap("1"), population="pupils")
    assert "asks epsilon 2 (rho 0.5" in (words := str(refused(ledger, request(fresh, study="tests"), laplace(2.0))))
    assert "and epsilon 1 (or rho 0.02435) remains. Ask for epsilon 1 or less" in words
    rho = account(cap("0.02", measure="rho"), population="teachers")
    words = str(refused(ledger, request(rho, study="teaching"), gaussian(1.0)))
    assert "(rho 0.02): it asks rho 0.02436 and rho 0.02 remains" in words


def test_a_route_that_is_used_up_is_not_spoken_of(ledger: Ledger) -> None:
    spec = account(cap("1"))
    for number in range(8):
        commit(ledger, request(spec, release=f"wage-{number}"), laplace(0.125))  # the whole of the pure route
    words = str(refused(ledger, request(spec, release="hours"), laplace(0.5)))
    assert "epsilon 0 " not in words
    assert " and rho 0." in words


def test_a_refusal_names_the_cap_that_leaves_least(ledger: Ledger) -> None:
    spec = account(cap("1", measure="pure-epsilon"), cap("0.4", "per-period", measure="pure-epsilon"))
    both = refused(ledger, request(spec), laplace(2.0))
    assert "per-period" in str(both)
    assert both.largest_epsilon == Decimal("0.4")


def test_a_quote_says_what_each_cap_would_without_asking(ledger: Ledger) -> None:
    spec = account(cap("1", measure="pure-epsilon"), cap("0.4", "per-period", measure="pure-epsilon"))
    ledger.open_account(spec, STAMP)
    lifetime, per_period = ledger.quote(request(spec), laplace(0.5))
    assert (lifetime.debit.fits, per_period.debit.fits) == (True, False)
    assert (lifetime.largest_epsilon, per_period.largest_epsilon) == (Decimal(1), Decimal("0.4"))
    assert lifetime.debit.after.epsilon == UNITS // 2
    assert ledger.head.kind == "account"


@pytest.mark.parametrize("edge", ["0.000001", "0.00123", "0.999", "1", "99.9", "1230", "987000", "1000000"])
def test_the_search_for_the_largest_epsilon_ends_at_the_edge(edge: str) -> None:
    found = largest_fitting(lambda epsilon: epsilon <= Decimal(edge))
    assert found == Decimal(edge)
    assert "E" not in str(found).upper() or found < Decimal("1e-5")


def test_the_search_finds_nothing_where_nothing_fits() -> None:
    assert largest_fitting(lambda epsilon: False) == 0


@pytest.mark.parametrize("mechanism", [laplace(0.5), gaussian(0.5)])
def test_a_mechanism_costs_at_its_own_epsilon_what_it_costs(mechanism: Any) -> None:
    assert mechanism.at(Decimal("0.5"), Decimal("1e-6")) == mechanism.cost()
    assert mechanism.at(Decimal("0.6"), Decimal("1e-6")).rho > mechanism.cost().rho
