"""After a revision: `run` shows the newest one by its number, and says what to type where that was withdrawn."""

from pathlib import Path

import pytest

from dpbayes.study.load import load_study
from tests.support.charged import charge
from tests.support.desk import PERIOD, Desk

NAME = ("pay-regression", "--period", PERIOD)
pytestmark = pytest.mark.usefixtures("workers")


def withdraw(desk: Desk, revision: int) -> None:
    desk.document("ledger", "withdraw", desk.study, *NAME, "--revision", str(revision), "--reason", "a wrong column")


@pytest.mark.slow
def test_a_run_after_a_revision_shows_the_newest_release_and_names_its_revision(desk: Desk, prefect_home: Path) -> None:
    first = desk.release()["releases"][0]
    withdraw(desk, 1)
    second = desk.release("--revision", "2", "--reason", "the column was corrected")["releases"][0]
    ran = desk.run("run", desk.study, "--period", PERIOD)
    assert ran.exit_code == 0, ran.output
    shown = ran.stdout
    assert f"Already released: pay-regression for {PERIOD} (study pay, account staff), revision 2." in shown
    assert second["digest"] in shown
    assert first["digest"] not in shown
    assert "WITHDRAWN" not in shown
    assert f"  of:     pay-regression of {PERIOD}, revision 2" in shown
    assert desk.release()["releases"][0]["digest"] == first["digest"]  # it asks for revision 1


@pytest.mark.slow
def test_a_run_whose_newest_revision_was_withdrawn_says_what_to_type(desk: Desk, prefect_home: Path) -> None:
    charge(desk.study)
    charge(desk.study, revision=2)
    withdraw(desk, 2)
    before = desk.document("ledger", "show", desk.study)
    refused = desk.document("run", desk.study, "--period", PERIOD, exit_code=2)
    assert refused["releases"][0]["revision"] == 2
    command = f"dpbayes release {desk.study} --period {PERIOD} --revision 3 --reason"
    assert f"was withdrawn, revision 2. Release the next one: `{command} " in refused["error"]["message"]
    assert desk.document("ledger", "show", desk.study) == before


def test_a_run_never_charges_under_a_later_revision(desk: Desk, prefect_home: Path) -> None:
    """The next one is asked for by a person, with a reason."""
    charge(desk.study)
    desk.edit_study("epsilon: 1\n", "epsilon: 0.5\n")
    refused = desk.document("run", desk.study, "--period", PERIOD, exit_code=2)["error"]
    assert refused["kind"] == "request-changed"
    assert load_study(desk.study).study == "pay"
    assert desk.document("ledger", "show", desk.study)["charges"] == 1
