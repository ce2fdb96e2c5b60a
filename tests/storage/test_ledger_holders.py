"""People split over holders: what a charge to one of them counts for, and for whom."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpbayes_core.errors import BudgetExceeded, StudyInvalid
from dpbayes_core.privacy.accounting import UNITS
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.ledger.entries import Entry
from storage.ledger.exposure import COUNTING
from storage.ledger.ledger import Ledger
from storage.ledger.request import AccountSpec, HolderSpec, Request
from storage.ledger.verify import verify
from tests.support.ledger_cases import (
    EXACT,
    STAMP,
    account,
    cap,
    coming,
    commit,
    commit_moving,
    design,
    gaussian,
    laplace,
    moving,
    new_ledger,
)
from tests.support.ledger_cases import request as asked_of

NOISE = OpenDPNoise()
BOTH: dict[str | None, Any] = {"north": EXACT, "south": EXACT}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with new_ledger(tmp_path) as made:
        yield made


def split(membership: Any, *names: str, by: str = "office") -> HolderSpec:
    return HolderSpec(by=by, names=names or ("north", "south"), membership=membership)


def held(membership: Any, *caps: Any, **others: Any) -> AccountSpec:
    return account(*(caps or (cap("1", measure="pure-epsilon"),)), holders=split(membership), **others)


def asked(spec: AccountSpec, holder: str | None, number: int = 0, **others: Any) -> Request:
    return asked_of(spec, release=f"release-{number}", holder=holder, **others)


def failures(ledger: Ledger) -> list[str]:
    return [check.detail for check in verify(ledger.entries()) if not check.ok]


def test_fixed_holders_have_the_cap_each_for_their_own_people(ledger: Ledger) -> None:
    spec = held("fixed")
    ledger.open_account(spec, STAMP)
    commit(ledger, asked(spec, "north"), laplace(0.7))
    commit(ledger, asked(spec, "south"), laplace(1.0))
    with pytest.raises(BudgetExceeded, match="release-1 of 2026-01 at north to the lifetime cap") as refused:
        commit(ledger, asked(spec, "north", 1), laplace(0.4))
    assert refused.value.largest_epsilon == Decimal("0.3")
    assert "epsilon 0.3 remains" in str(refused.value)
    with pytest.raises(BudgetExceeded):  # everybody includes the people of the south
        commit(ledger, asked(spec, None, 1), laplace(0.01))
    commit(ledger, asked(spec, "north", 1), laplace(0.3))
    [state] = ledger.accounts()
    assert state.caps[0].spent.epsilon == UNITS
    assert failures(ledger) == []


def test_a_release_about_everybody_counts_for_every_holder_also_for_those_not_charged_yet(ledger: Ledger) -> None:
    spec = held("fixed")
    commit(ledger, asked(spec, "north"), laplace(0.2))
    commit(ledger, asked(spec, None), laplace(0.6))
    for holder, left in (("north", "0.2"), ("south", "0.4")):
        with pytest.raises(BudgetExceeded) as refused:
            ledger.check(asked(spec, holder, 1), laplace(0.9))
        assert refused.value.largest_epsilon == Decimal(left)


def test_each_holders_people_may_be_protected_by_another_route(ledger: Ledger) -> None:
    """Gaussian releases of one holder close the pure route for its own people only."""
    spec = held("fixed", cap("1"))
    commit(ledger, asked(spec, "north"), gaussian(1.0))
    commit(ledger, asked(spec, "south"), laplace(1.0))
    [state] = ledger.accounts()
    assert state.caps[0].spent.epsilon is None
    assert state.caps[0].epsilon_at_delta == 1.0
    for holder in ("north", "south", None):
        with pytest.raises(BudgetExceeded, match="and nothing remains"):
            ledger.check(asked(spec, holder, 1), laplace(0.01))
    assert failures(ledger) == []


def test_undeclared_holders_add_up_and_so_do_those_of_an_account_that_names_none(ledger: Ledger) -> None:
    for number, spec in enumerate((held("undeclared"), account(cap("1", measure="pure-epsilon"), population="b"))):
        commit(ledger, asked(spec, "north", study=f"s{number}"), laplace(0.7))
        with pytest.raises(BudgetExceeded) as refused:
            commit(ledger, asked(spec, "south", study=f"s{number}"), laplace(0.7))
        assert refused.value.largest_epsilon == Decimal("0.3")
    assert {e.payload["counting"] for e in ledger.entries() if e.kind == "charge"} == {COUNTING["undeclared"]}
    assert failures(ledger) == []


def test_movable_people_count_twice_in_epsilon_and_four_times_in_rho(ledger: Ledger) -> None:
    spec = held("movable", cap("2", measure="pure-epsilon"), cap("1.5", "per-period", measure="pure-epsilon"))
    ledger.open_account(spec, STAMP)
    commit_moving(ledger, asked(spec, None), coming(laplace(0.5)))  # at both: nobody is in two places at once
    [state] = ledger.accounts()
    lifetime, period = (cap.spent for cap in state.caps)
    assert lifetime.epsilon == period.epsilon == UNITS
    assert lifetime.rho == period.rho == 4 * coming(laplace(0.5)).cost().rho
    with pytest.raises(BudgetExceeded, match="per-period") as refused:
        ledger.check(asked(spec, "south", 1), coming(laplace(0.5)))
    assert refused.value.largest_epsilon == Decimal("0.25")
    commit_moving(ledger, asked(spec, None, 1, period="2026-02"), coming(laplace(0.5)))  # elsewhere, next month
    [state] = ledger.accounts()
    assert state.caps[0].spent.epsilon == 2 * UNITS
    with pytest.raises(BudgetExceeded, match="lifetime"):
        ledger.check(asked(spec, "north", 2, period="2026-03"), coming(laplace(0.01)))
    assert failures(ledger) == []


def test_a_programme_grows_by_what_its_accounts_totals_grow(ledger: Ledger) -> None:
    shared = cap("1", "programme", measure="pure-epsilon", programme="labour")
    staff = held("fixed", shared)
    pupils = account(shared, population="pupils")
    commit(ledger, asked(staff, "north"), laplace(0.6))
    commit(ledger, asked(staff, "south"), laplace(0.5))
    ledger.open_account(pupils, STAMP)
    with pytest.raises(BudgetExceeded) as refused:
        ledger.check(asked(pupils, None, study="schools"), laplace(0.5))
    assert refused.value.largest_epsilon == Decimal("0.4")
    commit(ledger, asked(pupils, None, study="schools"), laplace(0.3))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.check(asked(staff, "south", 1), laplace(0.9))
    assert refused.value.largest_epsilon == Decimal("0.2")  # 0.1 to reach the north, and 0.1 that remains
    assert failures(ledger) == []


def test_every_charge_to_a_holder_says_by_which_rule_it_counts(ledger: Ledger) -> None:
    spec = held("fixed")
    first = commit(ledger, asked(spec, "north"), laplace(0.5))
    second = commit(ledger, asked(spec, "south"), laplace(0.2))
    assert second.payload["counting"] == first.payload["counting"] == COUNTING["fixed"]
    lifetime = second.payload["debits"][0]
    assert lifetime["tally"]["holders"].keys() == {"north", "south"}
    assert lifetime["total"] == first.payload["debits"][0]["total"] == lifetime["before"]
    plain = commit(ledger, asked(account(population="pupils"), None, study="schools"), laplace(0.5))
    assert "counting" not in plain.payload
    assert plain.payload["debits"][0].keys() == {"cap", "scope", "total"}


def test_one_population_is_split_in_one_way_only(ledger: Ledger) -> None:
    """By office and again by sex, a person would be in two groups that are each counted by themselves."""
    ledger.open_account(held("fixed"), STAMP)
    for other in (split("fixed", "m", "f", by="sex"), split("movable"), split("undeclared"), split("fixed", "north")):
        with pytest.raises(StudyInvalid, match="another split over holders"):
            ledger.open_account(replace(held("fixed"), holders=other), STAMP)
    silent = replace(held("fixed"), holders=None)  # a study that releases everybody at once need not know
    assert commit(ledger, asked(silent, None), laplace(0.1)).payload["counting"] == COUNTING["fixed"]
    with pytest.raises(StudyInvalid, match="opened with other holders"):
        ledger.check(asked(silent, "west"), laplace(0.1))
    ledger.open_account(account(population="pupils"), STAMP)
    with pytest.raises(StudyInvalid, match="another split over holders"):
        ledger.open_account(held("fixed", cap("1"), population="pupils"), STAMP)
    ledger.open_account(held("undeclared", cap("1"), population="pupils"), STAMP)
    for names in ((), ("north", "north")):
        empty = HolderSpec(by="office", names=names, membership="fixed")
        with pytest.raises(StudyInvalid, match="holders are none, or one is named twice"):
            ledger.open_account(account(population="none", holders=empty), STAMP)


def test_the_count_of_a_holder_whose_people_move_is_never_released(ledger: Ledger) -> None:
    spec = held("movable")
    with pytest.raises(StudyInvalid, match="made for replace-one neighbours"):
        commit(ledger, asked(spec, "north"), laplace(0.1))
    ledger.open_account(spec, STAMP)
    with pytest.raises(StudyInvalid, match="made for replace-one neighbours"):
        ledger.commit_all(asked(replace(spec, holders=None), None), design(laplace(0.1)), BOTH, NOISE, stamp=STAMP)
    assert commit(ledger, asked(spec, None), laplace(0.1)).payload["neighbours"] == "replace-one"


def commit_both(ledger: Ledger, wanted: Request, made: Any, noise: OpenDPNoise = NOISE) -> list[bool]:
    """Which of them this commit charged."""
    return [answer.made for answer in ledger.commit_all(wanted, design(made), BOTH, noise, stamp=STAMP)]


def test_one_commit_charges_every_holder_or_none(ledger: Ledger) -> None:
    """The first would fit by itself."""
    spec = held("undeclared")
    ledger.open_account(spec, STAMP)
    with pytest.raises(BudgetExceeded, match="release-0 of 2026-01 at north, south to the lifetime cap") as refused:
        commit_both(ledger, asked(spec, None), laplace(0.6))
    assert refused.value.largest_epsilon == Decimal("0.5")
    assert [entry.kind for entry in ledger.entries()] == ["genesis", "account"]
    assert commit_both(ledger, asked(spec, None), laplace(0.5)) == [True, True]
    assert [entry.payload["holder"] for entry in ledger.entries() if entry.kind == "charge"] == ["north", "south"]
    assert failures(ledger) == []


@pytest.mark.parametrize("membership", ["fixed", "undeclared"])
def test_where_nobody_moves_what_another_charged_stands_and_only_the_rest_is_made(
    ledger: Ledger, membership: Any
) -> None:
    spec = held(membership)
    alone = commit(ledger, asked(spec, "south"), laplace(0.5))
    answers = ledger.commit_all(asked(spec, None), design(laplace(0.5)), BOTH, NOISE, stamp=STAMP)
    assert [answer.made for answer in answers] == [True, False]
    assert answers[1].entry == alone
    assert commit_both(ledger, asked(spec, None), laplace(0.5)) == [False, False]
    assert ledger.count("charge") == 2
    assert failures(ledger) == []


def test_a_holder_whose_people_move_is_not_charged_without_the_others(ledger: Ledger) -> None:
    """Also where only the account knows that they move."""
    spec, made = held("movable"), moving(coming(laplace(0.1)))
    for stated, each in ((spec, made), (replace(spec, holders=None), design(laplace(0.1)))):
        with pytest.raises(StudyInvalid, match=r"all holders are released together\. Ask for north, south\."):
            ledger.commit(asked(stated, "north"), each, EXACT, NOISE, stamp=STAMP)
        ledger.open_account(spec, STAMP)
    with pytest.raises(StudyInvalid, match="all holders are released together"):
        ledger.commit_all(asked(spec, None), made, {**BOTH, "west": EXACT}, NOISE, stamp=STAMP)
    assert ledger.count("charge") == 0


def test_a_release_of_moving_people_that_stands_in_part_is_neither_completed_nor_answered(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a version left it that charged holder by holder; the next revision is of all of them."""
    spec, made = held("movable"), moving(coming(laplace(0.1)))
    ledger.open_account(spec, STAMP)
    with monkeypatch.context() as older:
        older.setattr(AccountSpec, "released_together", ())
        ledger.commit(asked(spec, "south"), made, EXACT, NOISE, stamp=STAMP)
    wanted = [asked(spec, holder) for holder in BOTH]
    for ask in (lambda: ledger.stored(wanted), lambda: commit_moving(ledger, asked(spec, None), coming(laplace(0.1)))):
        with pytest.raises(StudyInvalid, match=r"released at south only: .* Give the next --revision and --reason"):
            ask()
    third = asked(spec, None, revision=3, reason="cut off")
    with pytest.raises(StudyInvalid, match="no revision before it to supersede"):
        commit_moving(ledger, third, coming(laplace(0.1)))
    commit_moving(ledger, replace(third, revision=2), coming(laplace(0.1)))
    commit_moving(ledger, third, coming(laplace(0.1)))
    assert ledger.count("charge") == 5
    assert failures(ledger) == []


def test_where_nobody_moves_a_revision_of_what_was_never_released_is_refused(ledger: Ledger) -> None:
    spec = held("fixed")
    commit(ledger, asked(spec, "south"), laplace(0.1))
    with pytest.raises(StudyInvalid, match="no revision before it to supersede"):
        commit_both(ledger, asked(spec, None, revision=2, reason="cut off"), laplace(0.1))
    assert ledger.count("charge") == 1


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda payload: payload.update(counting=COUNTING["undeclared"]), "counts holders by another rule"),
        (lambda payload: payload.pop("counting"), "counts holders by another rule"),
        (lambda payload: payload.update(holder="west"), "its holder is none of its account's"),
        (lambda payload: payload["debits"][0]["tally"]["holders"]["north"].update(epsilon="1"), "lifetime total"),
        (lambda payload: payload["debits"][0].pop("tally"), "lifetime total"),
        (lambda payload: payload["debits"][0].update(before={"epsilon": "0", "rho": "0"}), "lifetime total"),
    ],
)
def test_a_charge_that_counts_holders_otherwise_is_found(ledger: Ledger, change: Any, found: str) -> None:
    spec = held("fixed")
    commit(ledger, asked(spec, "north"), laplace(0.5))
    commit(ledger, asked(spec, "south"), laplace(0.2))
    records = [entry.to_record() for entry in ledger.entries()]
    change(records[-1]["payload"])
    forged: list[Entry] = []
    for record in records:
        entry = Entry.from_record(record)
        forged.append(
            Entry.following(
                forged[-1] if forged else None,
                kind=entry.kind,
                key=entry.key,
                payload=entry.payload,
                release=entry.release,
            )
        )
    details = [check.detail for check in verify(forged) if not check.ok]
    assert any(found in detail and detail.startswith("entry 4 (charge)") for detail in details), details
