"""What a steward and a flow rely on: one charge per name, accounts that cannot be restated, entries that stay."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from sqlalchemy.exc import OperationalError

from dpbayes_core.errors import (
    AccountMissing,
    BudgetExceeded,
    DpbayesError,
    LedgerMissing,
    RequestChanged,
    StudyInvalid,
)
from dpbayes_core.privacy.mechanisms import laplace_for
from dpbayes_core.privacy.noise import OpenDPNoise, SeededNoise
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from storage.ledger.cap_document import cap_document
from storage.ledger.entries import Entry, Stamp
from storage.ledger.ledger import Ledger
from storage.ledger.refusal import PeriodClosed
from storage.ledger.store import plain_failures
from storage.ledger.verify import verify
from tests.support.ledger_cases import (
    EXACT,
    GRID,
    ROWS,
    SCHEMA,
    STAMP,
    account,
    cap,
    commit,
    design,
    gaussian,
    laplace,
    request,
)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.open(ledger_url) as made:
        yield made


def test_a_release_asked_for_twice_is_charged_once_and_answers_the_same_bytes(ledger: Ledger) -> None:
    first = commit(ledger, request(), laplace(0.4))
    second = commit(ledger, request(), laplace(0.4))
    assert second == first
    assert ledger.count("charge") == 1
    assert first.release is not None


def test_the_same_name_with_another_definition_is_refused(ledger: Ledger) -> None:
    commit(ledger, request(), laplace(0.4))
    changed = request(definition={"population": "employees", "release": "wage", "bounds": [0, 6]})
    with pytest.raises(RequestChanged, match="revision 1 was defined otherwise"):
        commit(ledger, changed, laplace(0.4))
    with pytest.raises(RequestChanged):
        ledger.known(changed)


def test_a_charge_holds_its_release_and_everything_to_price_it_again(ledger: Ledger) -> None:
    import json

    entry = commit(ledger, request(), gaussian(0.5))
    assert entry.release is not None
    release = Release.from_record(json.loads(entry.release))
    assert release.digest == entry.payload["digest"]
    assert release.mechanism.to_record() == entry.payload["mechanism"]
    assert (release.rows, release.schema) == (ROWS, SCHEMA)
    assert entry.payload["cost"]["readable"] == {"epsilon": None, "rho": "0.006642"}
    assert entry.payload["date"] == "2026-11-18"
    assert "seed" not in entry.release.decode()


def test_an_entry_survives_its_record() -> None:
    entry = Entry.following(None, kind="note", key="k", payload={"reason": "é"}, release=b'{"a":1}')
    assert Entry.from_record(entry.to_record()) == entry


def test_noise_made_for_tests_is_refused(ledger: Ledger) -> None:
    double = SeededNoise(1, i_know_this_is_not_private=True)
    with pytest.raises(DpbayesError, match="protects nobody"):
        ledger.commit(request(), design(laplace(0.4)), EXACT, double, stamp=STAMP)
    assert ledger.head.kind == "genesis"


def test_a_refusal_leaves_no_trace(ledger: Ledger) -> None:
    opening = ledger.open_account(account(), STAMP)
    with pytest.raises(BudgetExceeded):
        ledger.check(request(), laplace(1.1))
    with pytest.raises(BudgetExceeded):
        commit(ledger, request(), laplace(1.1))
    assert ledger.head == opening


def test_no_charge_opens_an_account(ledger: Ledger) -> None:
    for attempt in (
        lambda: ledger.check(request(), laplace(0.4)),
        lambda: ledger.commit(request(), design(laplace(0.4)), EXACT, OpenDPNoise(), stamp=STAMP),
    ):
        with pytest.raises(AccountMissing, match=r"employees has no account in this ledger \(it has no account yet\)"):
            attempt()
    assert ledger.head.kind == "genesis"


def test_a_study_is_charged_to_one_population_however_studies_take_turns(ledger: Ledger) -> None:
    students = account(population="students")
    ledger.open_account(students, STAMP, ["lessons"])
    commit(ledger, request(release="first"), laplace(0.1))
    commit(ledger, request(study="other", release="first"), laplace(0.1))
    commit(ledger, request(release="second"), laplace(0.1))  # its own charge is not the account's last
    for study, known in (("wages", "employees"), ("other", "employees")):
        for attempt in (
            lambda study=study: ledger.commit(
                request(students, study=study), design(laplace(0.1)), EXACT, OpenDPNoise(), stamp=STAMP
            ),
            lambda study=study: ledger.open_account(students, STAMP, [study]),
            lambda study=study: ledger.open_account(account(population="pupils"), STAMP, [study]),
        ):
            with pytest.raises(StudyInvalid, match=f"knows it under the population {known}"):
                attempt()
    with pytest.raises(StudyInvalid, match="knows it under the population students"):
        commit(ledger, request(study="lessons"), laplace(0.1))
    assert commit(ledger, request(students, study="other-1"), laplace(0.1)).kind == "charge"
    assert all(check.ok for check in verify(ledger.entries()))


def test_a_study_that_an_older_version_charged_to_two_populations_may_go_on_with_both(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    students = account(population="students")
    with monkeypatch.context() as older:
        older.setattr("storage.ledger.accounts.refuse_other_population", lambda *_: None)
        commit(ledger, request(), laplace(0.1))
        commit(ledger, request(students, release="slip"), laplace(0.1))
    assert commit(ledger, request(release="later"), laplace(0.1)).payload["account"] == "employees"
    assert commit(ledger, request(students, release="later-slip"), laplace(0.1)).payload["account"] == "students"


def test_an_early_check_passes_where_the_commit_will(ledger: Ledger) -> None:
    opening = ledger.open_account(account(), STAMP)
    ledger.check(request(), laplace(1.0))
    assert ledger.head == opening
    assert commit(ledger, request(), laplace(1.0)).seq == 3


def test_the_account_belongs_to_the_population_whatever_the_study_is_called(ledger: Ledger) -> None:
    commit(ledger, request(), laplace(0.6))
    with pytest.raises(BudgetExceeded):
        commit(ledger, request(study="renamed"), laplace(0.6))
    assert commit(ledger, request(account(population="students"), study="renamed"), laplace(0.6)).kind == "charge"


def test_one_populations_release_never_answers_for_another(ledger: Ledger) -> None:
    definition = {"careless": "without the population"}
    commit(ledger, request(definition=definition), laplace(0.1))
    with pytest.raises(StudyInvalid, match="the ledger knows it under the population employees"):
        commit(ledger, request(account(population="students"), definition=definition), laplace(0.1))


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ({"unit": "household_id"}, "another unit of privacy"),
        ({"neighbours": "add-remove"}, "another neighbour relation"),
        ({"people": "disjoint"}, "another declaration of people"),
        ({"caps": (cap("2"),)}, "another lifetime cap"),
        ({"caps": (cap("1", measure="rho"),)}, "another lifetime cap"),
        ({"caps": (cap("1"), cap("1", "per-period"))}, "another per-period cap"),
        ({"caps": (cap("1"), cap("1"))}, "without any twice"),
        ({"unit": "row", "caps": ()}, "another unit of privacy and lifetime cap"),
    ],
)
def test_an_account_cannot_be_restated(ledger: Ledger, others: dict[str, object], named: str) -> None:
    opening = ledger.open_account(account(), STAMP)
    restated = replace(account(), **others)
    with pytest.raises(StudyInvalid, match=named):
        ledger.open_account(restated, STAMP)
    with pytest.raises(StudyInvalid, match=named):
        ledger.check(request(restated), laplace(0.1))
    assert ledger.open_account(account(cap("1.0")), STAMP) == opening == ledger.head


@pytest.mark.parametrize(
    ("caps", "fault"),
    [
        ((), "it has no cap"),
        ((cap("1"), cap("1", measure="rho")), "two caps of one window"),
        ((cap("0"),), "not positive"),
        ((cap("NaN"),), "not positive"),
        ((replace(cap("1"), delta=None),), "needs a delta"),
        ((replace(cap("1"), delta=Decimal(1)),), "needs a delta"),
        ((replace(cap("1", measure="rho"), delta=Decimal("0.1")),), "needs a delta"),
        ((cap("1", "programme"),), "needs a programme's name"),
    ],
)
def test_an_impossible_account_is_not_opened(ledger: Ledger, caps: tuple[object, ...], fault: str) -> None:
    with pytest.raises(StudyInvalid, match=fault):
        ledger.open_account(replace(account(), caps=caps), STAMP)


def test_a_row_bound_is_each_releases_own(ledger: Ledger) -> None:
    commit(ledger, request(), laplace(0.1))
    asked = request(replace(account(), max_rows_per_unit=3), release="visits")
    with pytest.raises(DpbayesError, match="made for less than its statistics can move"):
        commit(ledger, asked, laplace(0.1))  # noise for one row of each person
    due = regression_sensitivity(SCHEMA, "replace-one", 3)
    mechanism = laplace_for(due, epsilon=0.1, grid=GRID, entries=len(due.weights))
    several = RegressionDesign(schema=SCHEMA, mechanism=mechanism, max_rows_per_unit=3)
    other = ledger.commit(asked, several, EXACT, OpenDPNoise(), stamp=STAMP)
    assert other.payload["max_rows_per_unit"] == 3
    assert all(check.ok for check in verify(ledger.entries()))


def test_the_audit_finds_noise_for_fewer_rows_than_a_person_may_have(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as careless:
        careless.setattr("storage.ledger.charging.covers_rows", lambda release, rows: True)
        commit(ledger, request(replace(account(), max_rows_per_unit=3)), laplace(0.1))
    [failed] = [check for check in verify(ledger.entries()) if not check.ok]
    assert "less than its statistics can move" in failed.detail


def test_a_revision_pays_again_and_says_why(ledger: Ledger) -> None:
    spec = account(cap("1", measure="pure-epsilon"))
    with pytest.raises(StudyInvalid, match="no revision before it"):
        commit(ledger, request(spec, revision=2, reason="source was wrong"), laplace(0.5))
    first = commit(ledger, request(spec), laplace(0.5))
    with pytest.raises(StudyInvalid, match="needs its reason"):
        commit(ledger, request(spec, revision=2, reason=" "), laplace(0.5))
    second = commit(ledger, request(spec, revision=2, reason="source was wrong"), laplace(0.5))
    assert second.payload["supersedes"] == first.key
    assert second.release != first.release
    with pytest.raises(BudgetExceeded):
        commit(ledger, request(spec, revision=3, reason="again"), laplace(0.5))
    with pytest.raises(StudyInvalid, match="counted from 1"):
        commit(ledger, request(spec, revision=0), laplace(0.5))


def test_a_closed_period_takes_no_charge_but_still_answers_what_it_released(ledger: Ledger) -> None:
    stored = commit(ledger, request(), laplace(0.1))
    closed = ledger.close("employees", "2026-01", reason="published", stamp=STAMP)
    assert ledger.close("employees", "2026-01", reason="again", stamp=STAMP) == closed
    assert commit(ledger, request(), laplace(0.1)) == stored
    with pytest.raises(PeriodClosed, match="the period was closed") as refused:
        commit(ledger, request(release="hours"), laplace(0.1))
    assert refused.value.exit_code == 3
    assert commit(ledger, request(period="2026-02"), laplace(0.1)).kind == "charge"


def test_a_period_must_have_its_canonical_name(ledger: Ledger) -> None:
    ledger.open_account(account(), STAMP)
    with pytest.raises(StudyInvalid, match="canonical name"):
        ledger.close("employees", "2026-1", reason="published", stamp=STAMP)
    with pytest.raises(StudyInvalid, match="canonical name"):
        commit(ledger, request(period="January"), laplace(0.1))


def test_a_withdrawn_release_stays_paid_for(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.6))
    assert ledger.withdrawn(charge.key) is None
    withdrawal = ledger.withdraw(charge.key, reason="wrong table", stamp=STAMP)
    assert ledger.withdrawn(charge.key) == withdrawal
    with pytest.raises(BudgetExceeded):
        commit(ledger, request(release="hours"), laplace(0.6))
    with pytest.raises(StudyInvalid, match="nothing was released"):
        ledger.withdraw("unheard of", reason="wrong table", stamp=STAMP)


def test_a_raised_cap_admits_more_and_only_goes_up(ledger: Ledger) -> None:
    commit(ledger, request(), laplace(1.0))
    raised = ledger.raise_cap("employees", "lifetime", Decimal(2), reason="council decision 7", stamp=STAMP)
    assert ledger.raise_cap("employees", "lifetime", Decimal("2.0"), reason="retry", stamp=STAMP) == raised
    assert commit(ledger, request(release="hours"), laplace(1.0)).kind == "charge"
    assert commit(ledger, request(account(cap("2")), release="wage"), laplace(1.0)).seq == 3
    ledger.raise_cap("employees", "lifetime", Decimal(3), reason="council decision 8", stamp=STAMP)
    for limit in (Decimal(2), Decimal("1.5")):
        with pytest.raises(StudyInvalid, match="is 3 now and only goes up"):
            ledger.raise_cap("employees", "lifetime", limit, reason="regret", stamp=STAMP)
    with pytest.raises(StudyInvalid, match="no such cap"):
        ledger.raise_cap("employees", "per-period", Decimal(2), reason="wish", stamp=STAMP)
    with pytest.raises(StudyInvalid, match="never opened"):
        ledger.raise_cap("nobody", "lifetime", Decimal(2), reason="wish", stamp=STAMP)
    with pytest.raises(StudyInvalid, match="no reason"):
        ledger.raise_cap("employees", "lifetime", Decimal(4), reason="", stamp=STAMP)


def test_notes_and_keys_are_entries(ledger: Ledger) -> None:
    assert ledger.note("held by hand", STAMP).key != ledger.note("held by hand", STAMP).key
    rotated = ledger.rotate_key("abc", retires="xyz", reason="yearly", stamp=STAMP)
    assert ledger.rotate_key("abc", retires="xyz", reason="yearly", stamp=STAMP) == rotated == ledger.head


def test_order_is_by_number_when_a_clock_is_set_back(ledger: Ledger) -> None:
    spec = account(cap("1", measure="pure-epsilon"))
    yesterday = Stamp("tester", date(2026, 11, 17), {})
    commit(ledger, request(spec, release="first"), laplace(0.6))
    second = commit(ledger, request(spec, release="second"), laplace(0.3), yesterday)
    assert second.payload["date"] < (ledger.entry_at(second.seq - 1) or second).payload["date"]
    assert ledger.head == second
    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.1 remains"):  # the last number's totals, not the last day's
        commit(ledger, request(spec, release="third"), laplace(0.2))
    ledger.note("the day before", Stamp("tester", date(2026, 11, 16), {}))
    assert [entry.seq for entry in ledger.entries()] == [1, 2, 3, 4, 5]
    assert [check for check in verify(ledger.entries()) if not check.ok] == []


def test_people_see_what_each_cap_has_left(ledger: Ledger) -> None:
    spec = account(cap("1"), cap("0.3", "per-period", measure="pure-epsilon"))
    commit(ledger, request(spec), laplace(0.2))
    commit(ledger, request(spec, period="2026-02"), laplace(0.1))
    [state] = ledger.accounts()
    records = [cap_document(cap) for cap in state.caps]
    totals = [record["totals"] for record in records]
    assert [(r["cap"], r["period"]) for r in records] == [
        ("lifetime", None),
        ("per-period", "2026-01"),
        ("per-period", "2026-02"),
    ]
    assert [t["spent"]["epsilon"] for t in totals] == pytest.approx([0.3, 0.2, 0.1])
    assert [t["remaining"]["epsilon"] for t in totals] == pytest.approx([0.7, 0.1, 0.2])
    assert totals[0]["limit"] == {"epsilon": 1.0, "rho": pytest.approx(0.02435597), "delta": 1e-6}


def test_a_ledger_is_made_once_and_never_by_opening_it(new_url: Callable[[], str]) -> None:
    place = new_url()
    for _ in range(2):
        with pytest.raises(LedgerMissing, match=r"no file|never made"):
            Ledger.open(place)
    Ledger.create(place, STAMP, public_key="abc").dispose()
    with pytest.raises(StudyInvalid, match="there is one already"):
        Ledger.create(place, STAMP)
    with Ledger.open(place) as ledger:
        assert ledger.head.payload["public_key"] == "abc"


def test_a_ledger_of_a_later_version_is_left_alone(new_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    place = new_url()
    monkeypatch.setattr("storage.ledger.ledger.SCHEMA_VERSION", 2)
    Ledger.create(place, STAMP).dispose()
    monkeypatch.undo()
    with pytest.raises(DpbayesError, match="a later dpbayes wrote it"):
        Ledger.open(place)


@pytest.mark.parametrize("address", ["mysql://somewhere/ledger", "no url"])
def test_a_database_of_another_kind_is_refused(address: str) -> None:
    with pytest.raises(StudyInvalid, match="neither sqlite nor postgresql"):
        Ledger.open(address)


def test_a_database_error_carries_no_noisy_value_away() -> None:
    secret = "12.8152"
    with pytest.raises(DpbayesError, match="its database failed") as failed, plain_failures():
        raise OperationalError(f"INSERT {secret}", {"release": secret}, Exception(secret))
    assert secret not in str(failed.value)
    assert failed.value.__context__ is None


def test_requests_are_made_without_the_database_library() -> None:
    program = "import sys, storage.ledger.request; sys.exit('sqlalchemy' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
