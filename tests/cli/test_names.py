"""Whatever a command shows says which study, whose account and which period it is about, in its first line too."""

from typing import Any

import pytest

from tests.support.desk import PERIOD, Desk

pytestmark = pytest.mark.usefixtures("workers")
WHOSE = "(study pay, account staff)"


def first_line(desk: Desk, *arguments: Any) -> str:
    done = desk.run(*arguments)
    assert done.exit_code in (0, 6), done.output
    return done.stdout.splitlines()[0]


def named(document: dict[str, Any]) -> tuple[str, str, str]:
    return document["study"], document["account"], document["period"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["inspect", "release", "analyse", "run"])
def test_what_is_done_for_a_period_names_it_all(shared_desk: Desk, command: str) -> None:
    shared_desk.release()
    asked = (command, shared_desk.study, "--period", PERIOD)
    assert named(shared_desk.document(*asked)) == ("pay", "staff", PERIOD)
    assert f"for {PERIOD} {WHOSE}" in first_line(shared_desk, *asked)


@pytest.mark.slow
def test_looking_ahead_names_it_all(shared_desk: Desk) -> None:
    checked = ("check", shared_desk.study, "--source", "--period", PERIOD)
    assert named(shared_desk.document(*checked)) == ("pay", "staff", PERIOD)
    assert "a valid study: pay, account staff" in first_line(shared_desk, *checked)
    planned = shared_desk.document("plan", shared_desk.study, "--period", PERIOD)
    assert (planned["study"], planned["population"], planned["period"]) == ("pay", "staff", PERIOD)
    assert f"Plan for {PERIOD} {WHOSE}" in first_line(shared_desk, "plan", shared_desk.study, "--period", PERIOD)


@pytest.mark.slow
def test_what_is_done_to_the_ledger_names_it_all(desk: Desk) -> None:
    desk.release()
    desk.document("ledger", "raise", desk.study, "lifetime", "9", "--reason", "decided")
    why = ("--period", PERIOD, "--reason", "decided")
    acts = (("close", desk.study, *why), ("withdraw", desk.study, "pay-regression", *why))
    for act in acts:
        assert named(desk.document("ledger", *act)) == ("pay", "staff", PERIOD)
        assert WHOSE in first_line(desk, "ledger", *act)
    lines = {line["kind"]: line for line in desk.document("ledger", "history", desk.study)["entries"]}
    assert named(lines["charge"]) == ("pay", "staff", PERIOD)
    assert (lines["close"]["account"], lines["close"]["period"]) == ("staff", PERIOD)
    assert lines["account"]["account"] == lines["raise"]["account"] == "staff"
    shown = desk.run("ledger", "history", desk.study).stdout
    assert next(line for line in shown.splitlines() if " charge " in line).split()[4:6] == ["staff", "pay"]
    assert first_line(desk, "ledger", "show", desk.study).startswith("account staff")


@pytest.mark.slow
def test_an_audit_names_the_accounts_of_a_ledger_and_what_a_crate_is_of(desk: Desk) -> None:
    crate = desk.release()["releases"][0]["crate"]
    assert desk.document("audit", desk.study)["accounts"] == ["staff"]
    assert first_line(desk, "audit", desk.study) == "Audit of the ledger of staff."
    alone = ("audit", desk.study, "--crate", crate)
    assert named(desk.document(*alone)) == ("pay", "staff", PERIOD)
    assert first_line(desk, *alone) == f"Audit of a crate for {PERIOD} {WHOSE}."


@pytest.mark.slow
def test_what_is_made_of_a_crate_alone_names_it_all(desk: Desk) -> None:
    crate = desk.document("run", desk.study, "--period", PERIOD)["releases"][0]["crate"]
    asked = ("analyse", "--from", crate, "--chains", "2", "--to", desk.folder / "own")
    made = desk.document(*asked)
    assert named(made) == ("pay", "staff", PERIOD)
    assert made["sources"][0]["account"] == "staff"
    assert f"for {PERIOD} {WHOSE}" in first_line(desk, *asked)
    predicted = ("predict", made["analyses"][0]["crate"], "--at", "age=40,female=yes,region=north")
    assert named(desk.document(*predicted)) == ("pay", "staff", PERIOD)
    first = first_line(desk, *predicted)
    assert first.startswith(f"pay by reanalysis of pay for {PERIOD}")
    assert first.endswith("Account staff.")
