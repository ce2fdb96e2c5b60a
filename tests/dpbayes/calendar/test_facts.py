"""What ledger and archive have of a period, on a real ledger and a real archive."""

from pathlib import Path

import pytest

from dpbayes.calendar.facts import PeriodFacts, StudyFacts, facts_of
from dpbayes.study.load import load_study
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Entry
from tasks.stamp import stamp_of
from tests.support.charged import charge, publish
from tests.support.desk import PERIOD, Desk
from tests.support.ledger_cases import publication

FOLDER = f"posteriors/pay/{PERIOD}/pay-posterior"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk.set_up(tmp_path)


def facts(desk: Desk) -> StudyFacts:
    with AnchoredLedger.open(desk.study) as anchored:
        return facts_of(load_study(desk.study), anchored.ledger, anchored.archive)


def archived(desk: Desk, entry: Entry, *, status: str = "converged", key: str = "a" * 64, crate: bool = True) -> None:
    """A posterior on record, with something in the place of its crate."""
    path = f"{FOLDER}{'' if status == 'converged' else '-not-converged'}-{key[:16]}"
    with AnchoredLedger.open(desk.study) as anchored:
        signer = anchored.home.signer().fingerprint
        about = {"study": "pay", "period": PERIOD, "analysis": "pay-posterior", "status": status, "key": key}
        one = publication(entry, path=path, signed_by=signer, content=key, statement=key, **about)
        anchored.ledger.publish("staff", one, (), stamp=stamp_of("tester"))
        if crate:
            anchored.archive.write_folder(path, {"posterior.json": b"{}"})


def test_a_period_is_done_once_crate_and_posterior_are_in_the_archive(desk: Desk) -> None:
    assert facts(desk).first_entry is None
    assert facts(desk).of(PERIOD) == PeriodFacts()
    entry = charge(desk.study)
    assert facts(desk).first_entry == PERIOD
    assert facts(desk).of(PERIOD) == PeriodFacts(charged=True, stored=True)
    publish(desk.study)
    assert facts(desk).of(PERIOD) == PeriodFacts(charged=True, stored=True, released=True)
    archived(desk, entry, crate=False)
    assert not facts(desk).of(PERIOD).done  # a run was killed between ledger and archive
    archived(desk, entry)
    assert facts(desk).of(PERIOD) == PeriodFacts(charged=True, stored=True, released=True, analysed="converged")
    assert facts(desk).of(PERIOD).done
    assert not facts(desk).of("2026-02").done


def test_an_analysis_counts_for_the_newest_revision_alone(desk: Desk) -> None:
    first = charge(desk.study)
    publish(desk.study)
    archived(desk, first)
    charge(desk.study, revision=2)
    assert facts(desk).of(PERIOD) == PeriodFacts(charged=True, stored=True)  # its crate is not written yet
    with AnchoredLedger.open(desk.study) as anchored:
        entry = anchored.ledger.head
        from tasks.answers import store_crate

        store_crate(anchored, entry, load_study(desk.study))
    assert facts(desk).of(PERIOD) == PeriodFacts(charged=True, stored=True, released=True)
    archived(desk, entry, status="not-converged", key="b" * 64)
    assert facts(desk).of(PERIOD).analysed == "not-converged"
    with AnchoredLedger.open(desk.study) as anchored:
        anchored.ledger.withdraw(entry.key, reason="wrong", stamp=stamp_of("tester"))
    assert facts(desk).of(PERIOD).withdrawn


def test_posteriors_of_versions_before_entries_named_them_count_by_their_folder(desk: Desk) -> None:
    charge(desk.study)
    publish(desk.study)
    with AnchoredLedger.open(desk.study) as anchored:
        anchored.archive.write_folder(f"{FOLDER}-of-others-{'a' * 16}", {"posterior.json": b"{}"})
        assert not facts(desk).of(PERIOD).done
        anchored.archive.write_folder(f"{FOLDER}-{'a' * 16}", {"posterior.json": b"{}"})
    assert facts(desk).of(PERIOD).analysed == "converged"


def test_a_period_that_was_closed_without_a_charge_is_done(desk: Desk) -> None:
    with AnchoredLedger.open(desk.study) as anchored:
        anchored.ledger.close("staff", "2026-03", reason="never delivered", stamp=stamp_of("tester"))
    assert facts(desk).of("2026-03") == PeriodFacts(closed=True)
    assert facts(desk).of("2026-03").done
    assert not facts(desk).of(PERIOD).done
    assert facts(desk).first_entry is None


def test_charges_of_other_studies_are_no_business_of_this_one(desk: Desk) -> None:
    charge(desk.study)
    other = desk.folder / "other" / "study.yaml"
    other.parent.mkdir()
    other.write_text(desk.study.read_text().replace("study: pay", "study: pay-2"))
    with AnchoredLedger.open(other) as anchored:
        assert facts_of(load_study(other), anchored.ledger, anchored.archive).first_entry is None


def test_what_a_study_declares_later_is_not_charged_for_earlier_periods(desk: Desk) -> None:
    for period in (PERIOD, "2026-02"):
        charge(desk.study, period=period)
    desk.edit_study("pay-regression", "pay-renamed")
    assert facts(desk).of(PERIOD).done
    assert not facts(desk).of("2026-02").done  # of the newest one it is: a run may have died between two releases
    assert not facts(desk).of("2026-03").done


def test_a_period_that_was_passed_over_is_owed_only_where_the_study_says_so(desk: Desk) -> None:
    for period in (PERIOD, "2026-03"):
        charge(desk.study, period=period)
    assert facts(desk).of("2026-02") == PeriodFacts(passed=True)
    assert facts(desk).of("2026-02").done
    desk.edit_study('cron: "0 2 1 * *"', f'cron: "0 2 1 * *", first: {PERIOD}')
    assert not facts(desk).of("2026-02").done


def test_closing_frees_a_period_that_was_charged_in_part(desk: Desk) -> None:
    charge(desk.study)
    desk.edit_study("analyses:", RIDGE + "analyses:")
    assert not facts(desk).of(PERIOD).done
    with AnchoredLedger.open(desk.study) as anchored:
        anchored.ledger.close("staff", PERIOD, reason="never delivered", stamp=stamp_of("tester"))
    assert facts(desk).of(PERIOD).done


RIDGE = """\
  second:
    kind: regression
    response: pay
    covariates: [age]
    mechanism: gaussian
    epsilon: 0.5
"""
