"""What a tally says of holders against every person there could be: never exceeded, and reached by somebody."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_core.privacy.accounting import Cost
from storage.ledger.caps import Scope, debits
from storage.ledger.exposure import NOTHING, Tally, Total
from tests.storage.test_ledger_holders import split
from tests.support.ledger_cases import account, cap

HOLDERS, PERIODS = ("north", "south", "west"), ("2026-01", "2026-02")
CHARGES = st.lists(
    st.tuples(
        st.sampled_from((None, *HOLDERS)),
        st.sampled_from(PERIODS),
        st.builds(Cost, st.one_of(st.integers(0, 100), st.integers(0, 100), st.none()), st.integers(0, 100)),
    ),
    max_size=12,
)
Charges = list[tuple[str | None, str, Cost]]


def tallied(membership: Any, charges: Charges) -> dict[Scope, Tally]:
    spec = account(cap("1"), holders=split(membership, *HOLDERS))
    kept: dict[Scope, Tally] = {}
    for holder, period, cost in charges:
        kept |= charged(kept, spec, period, cost, holder=holder)
    return kept


def charged(kept: dict[Scope, Tally], spec: Any, period: str, cost: Cost, *, holder: str | None) -> dict[Scope, Tally]:
    made = debits(spec, period, cost, lambda scope: kept.get(scope, NOTHING), holder=holder)
    return {debit.scope: debit.after for debit in made}


def of(kept: dict[Scope, Tally], window: str, period: str | None = None) -> Tally:
    return next((t for s, t in kept.items() if s.window == window and s.period == period), NOTHING)


def summed(costs: Iterator[Cost], times: tuple[int, int] = (1, 1)) -> Total:
    total = Total(0, 0)
    for cost in costs:
        pure = None if cost.epsilon is None else times[0] * cost.epsilon
        total = total.plus(Total(pure, times[1] * cost.rho))
    return total


def felt(charges: Charges, holder: str | None, period: str) -> Iterator[Cost]:
    return (cost for where, when, cost in charges if (where, when) == (holder, period))


def fixed_person(charges: Charges, home: str) -> Total:
    return summed(cost for where, _, cost in charges if where in (None, home))


def moved_person(charges: Charges, left: tuple[str, ...], entered: tuple[str, ...]) -> Total:
    """One person's whole history replaced by another: in each period out of one holder and into another, or the same.

    In the same one, two steps of add/remove: twice in pure epsilon and, by group privacy, four times in rho.
    """
    total = Total(0, 0)
    for period, out, into in zip(PERIODS, left, entered, strict=True):
        total = total.plus(summed(felt(charges, None, period)))
        if out == into:
            total = total.plus(summed(felt(charges, out, period), (2, 4)))
        else:
            total = total.plus(summed(felt(charges, out, period))).plus(summed(felt(charges, into, period)))
    return total


def covers(tally: Total, person: Total) -> bool:
    pure = tally.epsilon is None or (person.epsilon is not None and person.epsilon <= tally.epsilon)
    return pure and person.rho <= tally.rho


@given(charges=CHARGES)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_with_fixed_members_the_exposures_are_those_of_the_people_themselves(charges: Charges) -> None:
    lifetime = of(tallied("fixed", charges), "lifetime")
    people = {fixed_person(charges, home) for home in HOLDERS}
    everyone = fixed_person(charges, "nobody's")
    assert set(lifetime.exposures) | {everyone} == people | {everyone}
    assert lifetime.epsilon == (None if any(p.epsilon is None for p in people) else max(p.epsilon or 0 for p in people))
    assert lifetime.rho == max(person.rho for person in people)


@given(charges=CHARGES)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_movable_people_never_exceed_the_total_and_somebody_reaches_it(charges: Charges) -> None:
    lifetime = of(tallied("movable", charges), "lifetime")
    paths = list(itertools.product(HOLDERS, repeat=len(PERIODS)))
    people = [moved_person(charges, left, entered) for left in paths for entered in paths]
    assert all(covers(lifetime.most, person) for person in people)
    assert lifetime.rho == max(person.rho for person in people)
    if lifetime.epsilon is not None:
        assert lifetime.epsilon == max(person.epsilon or 0 for person in people)


@given(charges=CHARGES)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_where_nothing_is_declared_a_person_may_be_everywhere(charges: Charges) -> None:
    assert of(tallied("undeclared", charges), "lifetime").exposures == (summed(cost for _, _, cost in charges),)


@given(
    membership=st.sampled_from(("fixed", "movable", "undeclared")),
    charges=CHARGES,
    ahead=st.permutations(HOLDERS),
    cost=st.builds(Cost, st.one_of(st.integers(0, 100), st.none()), st.integers(0, 100)),
    period=st.sampled_from((*PERIODS, "2026-Q1")),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_looking_ahead_over_holders_is_charging_one_after_the_other(
    membership: Any, charges: Charges, ahead: list[str], cost: Cost, period: str
) -> None:
    kept = tallied(membership, charges)
    spec = account(cap("1"), cap("5", "programme", programme="labour"), holders=split(membership, *HOLDERS))
    first, *also = ahead
    look = debits(spec, period, cost, lambda s: kept.get(s, NOTHING), holder=first, also=tuple(also))
    for holder in ahead:
        kept |= charged(kept, spec, period, cost, holder=holder)
    assert {debit.scope: debit.after for debit in look} == {debit.scope: kept[debit.scope] for debit in look}


def test_the_sum_of_lifetimes_would_not_cover_somebody_who_moves_between_periods() -> None:
    """Why movable periods add up: twice the largest lifetime of a holder misses who is at the dear place each time."""
    charges: Charges = [("north", PERIODS[0], Cost(10, 10)), ("south", PERIODS[1], Cost(10, 10))]
    person = moved_person(charges, ("north", "south"), ("north", "south"))
    assert covers(of(tallied("movable", charges), "lifetime").most, person)
    assert not covers(Total(2 * 10, 4 * 10), person)


@pytest.mark.parametrize(("times", "enough"), [((2, 4), True), ((2, 2), False)])
def test_two_steps_in_one_holder_cost_four_times_the_rho(times: tuple[int, int], enough: bool) -> None:
    """Gaussian noise on a sum that a person enters with +1 or -1: replacing moves it twice as far as adding."""
    sigma, one_step, two_steps = 3.0, 1.0, 2.0
    rho, replaced = one_step**2 / (2 * sigma**2), two_steps**2 / (2 * sigma**2)
    assert (times[1] * rho >= replaced) is enough
