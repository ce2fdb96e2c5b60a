"""Everything that is due is worked off in order, each exactly once, whatever came between."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dpbayes.calendar.look import states_near
from dpbayes.study.load import load_study
from tests.support.calendars import charged, last_months, owing
from tests.support.canaries import finds, forms_of, places
from tests.support.command import DPBAYES, ROOT, clean_environment, dpbayes
from tests.support.desk import Desk, people

MONTHS = last_months(3)
IN_ORDER = pytest.mark.usefixtures("workers")


@pytest.fixture
def months(tmp_path: Path) -> Desk:
    """Three months down: all tables are there, nothing is released."""
    return owing(tmp_path, MONTHS)


def of(document: dict[str, Any], part: str = "runs") -> list[Any]:
    """The runs, or the periods that are left, of the only study."""
    (study,) = document["studies"]
    return study[part]


def states(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["period"], one["state"]) for one in of(document, "periods")]


@IN_ORDER
@pytest.mark.slow
def test_three_months_are_released_in_order_and_each_once(months: Desk) -> None:
    document = months.document("catch-up", months.study)
    assert [run["period"] for run in of(document)] == MONTHS
    assert [run["analyses"][0]["status"] for run in of(document)] == ["converged"] * 3
    assert states(document) == []
    assert charged(months) == MONTHS
    again = months.document("catch-up", months.study)
    assert (of(again), states(again), charged(months)) == ([], [], MONTHS)
    assert months.run("catch-up", months.study).stdout == "Nothing is due (study pay, account staff).\n"
    assert months.document("audit", months.study)["ok"]


def test_where_nothing_is_due_prefect_is_not_even_imported(months: Desk) -> None:
    months.edit_study(f"first: {MONTHS[0]}", "first: 9000-01")
    program = "import sys; from typer.testing import CliRunner; from cli.commands import app; "
    program += f"done = CliRunner().invoke(app, ['catch-up', {str(months.study)!r}]); "
    program += "print(done.stdout, done.exit_code, 'prefect' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split("\n")[:2] == ["Nothing is due (study pay, account staff).", " 0 False"]


@IN_ORDER
@pytest.mark.slow
def test_a_table_that_is_not_there_is_waited_for_and_then_late_and_released_once_it_comes(tmp_path: Path) -> None:
    desk = owing(tmp_path, MONTHS, "{after: 366d, retry: 2h}")
    desk.table(MONTHS[0]).rename(tmp_path / "later")
    document = desk.document("catch-up", desk.study)
    assert states(document) == [(MONTHS[0], "waiting"), (MONTHS[1], "due"), (MONTHS[2], "due")]
    assert of(document, "periods")[0]["sentence"].startswith("Its table is not there yet. It is looked for every 2h")
    assert of(document, "periods")[1]["sentence"].endswith(f"after {MONTHS[0]}, which is waiting.")
    assert (of(document), charged(desk)) == ([], [])
    desk.edit_study("after: 366d, retry: 2h", "after: 1d, retry: 1h")
    document = desk.document("catch-up", desk.study, exit_code=4)
    assert states(document)[0] == (MONTHS[0], "late")
    assert document["error"]["kind"] == "table-late"
    assert document["error"]["message"].startswith(f"pay: the table of {MONTHS[0]} is late: cannot read table pay-")
    assert charged(desk) == []
    (tmp_path / "later").rename(desk.table(MONTHS[0]))
    assert [run["period"] for run in of(desk.document("catch-up", desk.study))] == MONTHS
    assert charged(desk) == MONTHS


@pytest.mark.slow
def test_without_a_rule_a_missing_table_is_an_error_at_once(months: Desk) -> None:
    months.table(MONTHS[0]).unlink()
    document = months.document("catch-up", months.study, exit_code=4)
    assert document["error"]["kind"] == "shape-mismatch"
    assert [(run["period"], run["error"]["kind"]) for run in of(document)] == [(MONTHS[0], "shape-mismatch")]
    assert states(document)[0] == (MONTHS[0], "shape-differs")
    assert of(document, "periods")[0]["who"] == "steward"
    assert charged(months) == []


@IN_ORDER
@pytest.mark.slow
def test_a_refusal_stops_its_study_names_itself_and_is_over_once_the_cap_is_raised(months: Desk) -> None:
    months.edit_study("epsilon: 1\n", "epsilon: 3\n")
    document = months.document("catch-up", months.study, exit_code=3)
    assert document["error"]["message"].startswith("pay: cannot charge pay-regression of ")
    assert states(document)[0] == (MONTHS[0], "refused")
    assert of(document, "periods")[0]["sentence"] == of(document)[0]["error"]["message"]
    told = months.run("catch-up", months.study)
    assert told.exit_code == 3
    assert f"{MONTHS[1]} (study pay, account staff): due. It is due since" in told.stdout
    months.run("ledger", "raise", months.study, "per-period", "4", "--reason", "decided")
    months.run("ledger", "raise", months.study, "lifetime", "20", "--reason", "decided")
    assert [run["period"] for run in of(months.document("catch-up", months.study))] == MONTHS
    assert charged(months) == MONTHS


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["before-commit", "after-commit", "while-archiving"])
def test_a_killed_run_is_seen_to_be_dead_and_its_period_is_done_once(months: Desk, boundary: str) -> None:
    command = [sys.executable, "-m", "tests.support.killed", boundary, "catch-up", str(months.study)]
    killed = subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, check=False, timeout=200)
    assert killed.returncode == -signal.SIGKILL
    left = sorted((months.home / "runs" / "pay").glob("*.json"))
    assert [path.stem for path in left] == [MONTHS[0], "due"]
    assert [json.loads(path.read_text())["outcome"] for path in left] == ["running"] * 2
    first, *_ = states_near(load_study(months.study), datetime.now(UTC))
    assert (first.state, first.exit_code) == ("due", 0)
    assert "died before its end. It is due again." in first.sentence
    document = months.document("catch-up", months.study)
    assert [run["period"] for run in of(document)] == MONTHS
    assert charged(months) == MONTHS
    assert months.document("audit", months.study)["ok"]


@pytest.mark.slow
def test_two_workers_at_once_release_everything_once(months: Desk) -> None:
    command = [*DPBAYES, "catch-up", str(months.study), "--json"]
    both = [
        subprocess.Popen(command, cwd=months.folder, env=clean_environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        said = [json.loads(process.communicate(timeout=300)[0]) for process in both]
    finally:
        for process in both:
            process.kill()
    assert [process.returncode for process in both] == [0, 0], said
    ran = sorted(run["period"] for document in said for run in of(document))
    assert ran == MONTHS
    assert charged(months) == MONTHS
    assert months.document("audit", months.study)["ok"]


@IN_ORDER
@pytest.mark.slow
def test_what_is_run_by_hand_is_on_record_too_and_what_is_done_is_not_run_again(months: Desk) -> None:
    months.document("run", months.study, "--period", MONTHS[0])
    record = json.loads((months.home / "runs" / "pay" / f"{MONTHS[0]}.json").read_text())
    assert (record["outcome"], record["flow_run_id"], record["pid"]) == ("done", None, os.getpid())
    assert [run["period"] for run in of(months.document("catch-up", months.study))] == MONTHS[1:]
    months.write_table(people(10), MONTHS[0])
    assert charged(months) == MONTHS


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a study that the budget refuses, one without fault and one that is broken."""
    refused = owing(tmp_path / "a-refused", MONTHS[2:])
    refused.edit_study("epsilon: 1\n", "epsilon: 3\n")
    refused.edit_study("study: pay", "study: asks-too-much")
    owing(tmp_path / "sound", MONTHS[2:])
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "study.yaml").write_text("study: torn\n")
    return tmp_path


@IN_ORDER
@pytest.mark.slow
def test_what_is_refused_or_broken_in_a_folder_stops_no_other_study(project: Path) -> None:
    desk = Desk(project / "sound")
    document = desk.document("catch-up", project, exit_code=3)
    first, second = document["studies"]
    assert [first["study"], second["study"]] == ["asks-too-much", "pay"]
    assert first["periods"][0]["state"] == "refused"
    assert (second["runs"][0]["releases"][0]["status"], second["periods"]) == ("released", [])
    assert [one["file"] for one in document["broken"]] == [str(project / "torn" / "study.yaml")]
    assert document["error"]["kind"] == "budget-exceeded"  # more serious than a file that cannot be used
    assert document["error"]["message"].startswith("asks-too-much: cannot charge pay-regression")
    assert charged(desk) == MONTHS[2:]


@pytest.mark.slow
def test_no_value_of_a_table_is_in_what_catch_up_says_or_keeps(months: Desk) -> None:
    outlier, name = 90817.26354, "Zebulon-Quirk-Canary"
    columns = people(300)
    columns["pay"][11], columns["person"][12] = outlier, name
    months.write_table(columns, MONTHS[0])
    columns["age"] = columns["person"]  # a shape that differs
    months.write_table(columns, MONTHS[1])
    done = dpbayes("catch-up", months.study, "--json", "--debug", cwd=months.folder)
    assert done.returncode == 4, done.stderr
    assert states(json.loads(done.stdout))[0] == (MONTHS[1], "shape-differs")
    needles = {form for value in (outlier, name) for form in forms_of(value)}
    assert not finds((done.stdout + done.stderr).encode(), needles)
    assert places(months.folder, (outlier, name), skip=[months.table().parent]) == []
    assert (months.home / "runs" / "pay" / f"{MONTHS[1]}.json").exists()
