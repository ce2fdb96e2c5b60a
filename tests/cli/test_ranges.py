"""A range of periods of which one fails: what was done is shown, the failure named, the rest tried or not as asked."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from tests.support.command import DPBAYES, clean_environment
from tests.support.desk import PERIOD, Desk, people

pytestmark = pytest.mark.usefixtures("workers")
SECOND, THIRD, FOURTH = "2026-02", "2026-03", "2026-04"
RANGE = f"{PERIOD}..{FOURTH}"


@pytest.fixture
def months(desk: Desk) -> Desk:
    """Tables of the first, third and fourth month; that of the second is missing."""
    desk.edit_study("epsilon: 8}", "epsilon: 20}")
    shutil.rmtree(desk.home)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    for period in (THIRD, FOURTH):
        desk.write_table(people(300), period)
    return desk


def tried(document: dict[str, object]) -> list[tuple[str, int, int, str | None]]:
    """Of each run its period, how many releases and analyses it made, and the kind of its error."""
    runs = document["runs"]
    assert isinstance(runs, list)
    return [
        (run["period"], len(run["releases"]), len(run["analyses"]), run.get("error", {}).get("kind")) for run in runs
    ]


@pytest.mark.slow
def test_what_was_done_before_a_failure_is_kept_and_the_rest_is_named(months: Desk) -> None:
    document = months.document("run", months.study, "--period", RANGE, exit_code=4)
    assert tried(document) == [(PERIOD, 1, 1, None), (SECOND, 0, 0, "shape-mismatch")]
    assert document["not_tried"] == [THIRD, FOURTH]
    assert document["error"] == document["runs"][1]["error"]
    assert (document["study"], document["account"]) == ("pay", "staff")
    assert months.document("ledger", "show", months.study)["charges"] == 1


@pytest.mark.slow
def test_the_terminal_shows_every_period_then_what_failed_and_what_to_do(months: Desk) -> None:
    done = months.run("run", months.study, "--period", RANGE)
    assert done.exit_code == 4
    assert f"Released pay-regression for {PERIOD} (study pay, account staff), revision 1." in done.stdout
    assert f"pay-posterior for {PERIOD} (study pay, account staff): " in done.stdout
    assert done.stdout.splitlines()[-1] == f"{SECOND} (study pay, account staff): FAILED (shape-mismatch)."
    said = [line for line in done.stderr.splitlines() if SECOND in line or THIRD in line or "spends nothing" in line]
    assert said[0].startswith(f"{SECOND}: cannot read table pay-2026-02.parquet: no such file")
    assert "charged and stored" in said[1]
    assert said[2].startswith(f"Not tried: {THIRD} to {FOURTH}.")


@pytest.mark.slow
def test_the_rest_is_tried_where_asked_and_done_once(months: Desk) -> None:
    document = months.document("run", months.study, "--period", RANGE, "--keep-going", exit_code=4)
    done = [(PERIOD, 1, 1, None), (SECOND, 0, 0, "shape-mismatch"), (THIRD, 1, 1, None), (FOURTH, 1, 1, None)]
    assert tried(document) == done
    assert document["not_tried"] == []
    months.write_table(people(300), SECOND)
    again = months.document("run", months.study, "--period", RANGE)
    assert [run["releases"][0]["status"] for run in again["runs"]] == [
        "already-released",
        "released",
        "already-released",
        "already-released",
    ]
    assert "error" not in again


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_first_failure(months: Desk) -> None:
    months.edit_study("draws: 500", "draws: 10")  # which does not converge, and is no failure of a period
    months.write_table(people(300), SECOND)
    closed = months.run("ledger", "close", months.study, "--period", THIRD, "--reason", "published")
    assert closed.exit_code == 0, closed.output
    months.table(FOURTH).unlink()
    document = months.document("run", months.study, "--period", RANGE, "--keep-going", exit_code=3)
    assert [kind for *_, kind in tried(document)] == [None, None, "period-closed", "shape-mismatch"]
    assert document["error"]["kind"] == "period-closed"
    assert months.document("run", months.study, "--period", f"{PERIOD}..{SECOND}", exit_code=6)["not_tried"] == []


@pytest.mark.slow
def test_a_release_is_shown_though_its_analysis_fails(desk: Desk) -> None:
    desk.release()
    (posteriors := desk.home / "archive" / "posteriors").parent.mkdir(exist_ok=True)
    posteriors.write_text("in the way")
    failed = desk.run("run", desk.study, "--period", PERIOD, "--json")
    assert failed.exit_code not in (0, 6)
    document = json.loads(failed.stdout)
    assert document["error"]["message"]
    assert [one["release"] for one in document["releases"]] == ["pay-regression"]
    assert (document["study"], document["account"], document["period"]) == ("pay", "staff", PERIOD)
    told = desk.run("run", desk.study, "--period", PERIOD)
    assert f"Already released: pay-regression for {PERIOD} (study pay, account staff)" in told.stdout
    assert "is charged and stored: the same command again shows it and spends nothing" in told.stderr


@pytest.mark.slow
def test_a_charge_is_shown_though_its_crate_cannot_be_written(desk: Desk) -> None:
    (desk.home / "archive" / "releases").write_text("in the way")
    failed = desk.run("release", desk.study, "--period", PERIOD)
    assert failed.exit_code != 0
    assert f"Charged and stored: pay-regression for {PERIOD} (study pay, account staff)." in failed.stdout
    document = json.loads(desk.run("run", desk.study, "--period", PERIOD, "--json").stdout)
    assert document["unpublished"] == [{"release": "pay-regression", "status": "already-released"}]
    assert document["error"]["message"]
    (desk.home / "archive" / "releases").unlink()
    assert desk.release()["releases"][0]["status"] == "already-released"
    assert desk.document("ledger", "show", desk.study)["charges"] == 1


def test_one_release_of_a_study_is_shown_though_the_next_is_refused(desk: Desk) -> None:
    desk.edit_study(
        "analyses:",
        "  again: {kind: regression, response: pay, covariates: [age], mechanism: gaussian, epsilon: 1.9}\nanalyses:",
    )
    document = desk.release(exit_code=3)
    assert [one["release"] for one in document["releases"]] == ["pay-regression"]
    assert document["error"]["kind"] == "budget-exceeded"


@pytest.mark.slow
def test_what_was_done_is_shown_when_somebody_stops_the_command(months: Desk) -> None:
    months.write_table(people(300), SECOND)
    months.edit_study("draws: 500", "draws: 20000")  # so that there is time to stop the second month's chains
    process = subprocess.Popen(
        [*DPBAYES, "run", str(months.study), "--period", RANGE, "--json"],
        cwd=months.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    steps = (line for line in process.stderr if line.strip() == "sampling")
    assert [next(steps), next(steps)]  # of the first month, then of the second
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    document = json.loads(said)
    assert process.returncode == 1
    assert document["error"]["kind"] == "stopped"
    assert tried(document) == [(PERIOD, 1, 1, None), (SECOND, 1, 0, None)]
    assert document["not_tried"] == [THIRD, FOURTH]
