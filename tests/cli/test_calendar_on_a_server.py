"""The calendar with a real Prefect server and real workers: late runs, killed workers, and states that say so."""

import base64
import json
import os
import signal
import sqlite3
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.calendars import charged, last_months, owing
from tests.support.desk import Desk
from tests.support.prefect import PREFECT, Orchestrator, running, wait_until

MONTHS = last_months(3)
PATIENCE = 300
DEPLOYMENTS = """\
name: dpbayes
prefect-version: 3.8.8
pull: []
deployments:
  - name: pay
    entrypoint: flows.run.run_study
    tags: [dpbayes]
    parameters: {study: "{{ $PWD }}/study.yaml", period: due}
    schedules: [{cron: "* * * * *"}]
    work_pool: {name: dpbayes}
  - name: all
    entrypoint: flows.catch_up.catch_up
    tags: [dpbayes]
    parameters: {folder: "{{ $PWD }}"}
    work_pool: {name: dpbayes}
"""


@pytest.fixture
def orchestrator(tmp_path: Path) -> Iterator[Orchestrator]:
    folder = tmp_path / "orchestrator"
    folder.mkdir()
    made = Orchestrator(folder)
    with made.server():
        yield made


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = owing(tmp_path / "pay", MONTHS)
    (desk.folder / "prefect.yaml").write_text(DEPLOYMENTS)
    return desk


def runs(orchestrator: Orchestrator, *states: str) -> list[dict[str, Any]]:
    """The flow runs of a server that were started by a deployment and are in one of these states."""
    environment = orchestrator.environment
    word = base64.b64encode(environment["PREFECT_API_AUTH_STRING"].encode()).decode()
    asked = {"flow_runs": {"state": {"name": {"any_": list(states)}}, "deployment_id": {"is_null_": False}}}
    request = urllib.request.Request(
        f"{environment['PREFECT_API_URL']}/flow_runs/filter",
        json.dumps(asked).encode(),
        {"Authorization": f"Basic {word}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def events(orchestrator: Orchestrator) -> list[tuple[str, str]]:
    """Name and resource of each event of ours that the server keeps."""
    address = f"file:{orchestrator.folder / 'prefect' / 'prefect.db'}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as database:
        query = "SELECT event, resource_id FROM events WHERE event LIKE 'dpbayes.%' ORDER BY occurred"
        return list(database.execute(query).fetchall())


def stop_schedule(orchestrator: Orchestrator) -> None:
    orchestrator.prefect("deployment", "schedule", "clear", "run/pay", "-y")


def done(desk: Desk) -> bool:
    """Whether every month has its posterior."""
    posteriors = desk.home / "archive" / "posteriors" / "pay"
    return all(list((posteriors / month).rglob("MANIFEST.json")) for month in MONTHS)


@pytest.mark.slow
def test_after_months_without_a_worker_two_workers_release_everything_once_and_no_late_run_stays(
    orchestrator: Orchestrator, desk: Desk
) -> None:
    orchestrator.prefect("deploy", "--all", cwd=desk.folder)
    wait_until(lambda: len(runs(orchestrator, "Late")) >= 3, PATIENCE, "late runs")
    late = len(runs(orchestrator, "Late"))
    with orchestrator.worker(), second_worker(orchestrator):
        orchestrator.prefect("deployment", "run", "catch-up/all")
        wait_until(lambda: done(desk), PATIENCE, f"three months\n{orchestrator.log}")
        stop_schedule(orchestrator)
        wait_until(lambda: not runs(orchestrator, "Late", "Running", "Pending", "Scheduled"), PATIENCE, "the rest")
    assert late >= 3
    assert charged(desk) == MONTHS
    assert {run["state_name"] for run in runs(orchestrator, "Completed", "Failed", "Crashed")} == {"Completed"}
    assert desk.document("audit", desk.study)["ok"]


def second_worker(orchestrator: Orchestrator) -> Any:
    """One more worker of the same pool."""
    command = (PREFECT, "worker", "start", "--pool", "dpbayes", "--name", "second")
    log = orchestrator.folder / "second.log"
    return running(*command, environment=orchestrator.environment, cwd=orchestrator.folder, log=log)


@pytest.mark.slow
def test_a_run_that_was_killed_with_its_worker_is_crashed_for_prefect_too_and_its_months_are_released(
    orchestrator: Orchestrator, desk: Desk
) -> None:
    orchestrator.prefect("deploy", "--all", cwd=desk.folder)
    stop_schedule(orchestrator)
    crates = desk.home / "archive" / "releases" / "pay" / MONTHS[0]
    with orchestrator.worker():
        orchestrator.prefect("deployment", "run", "run/pay")
        wait_until(lambda: list(crates.rglob("MANIFEST.json")), PATIENCE, f"the first release\n{orchestrator.log}")
        attempt = json.loads((desk.home / "runs" / "pay" / "due.json").read_text())
        os.killpg(os.getpgid(attempt["pid"]), signal.SIGKILL)  # the worker is in the group of its runs
    (dead,) = runs(orchestrator, "Running")
    assert dead["id"] == attempt["flow_run_id"]
    began = time.monotonic()
    with orchestrator.worker():
        orchestrator.prefect("deployment", "run", "catch-up/all")
        wait_until(lambda: runs(orchestrator, "Crashed"), PATIENCE, f"the dead run\n{orchestrator.log}")
        print(f"seen to be dead after {time.monotonic() - began:.0f} seconds")
        wait_until(lambda: done(desk), PATIENCE, f"three months\n{orchestrator.log}")
        wait_until(lambda: not runs(orchestrator, "Running"), PATIENCE, "the end")
    (crashed,) = runs(orchestrator, "Crashed")
    assert crashed["id"] == dead["id"]
    assert "died before its end" in crashed["state"]["message"]
    assert charged(desk) == MONTHS


@pytest.mark.slow
def test_a_run_that_waits_for_a_table_and_one_that_waited_long_enough_say_so_in_their_states(
    orchestrator: Orchestrator, desk: Desk
) -> None:
    desk.edit_study("unit: person}", "unit: person, ready: {after: 366d}}")
    desk.table(MONTHS[0]).unlink()
    orchestrator.prefect("deploy", "--all", cwd=desk.folder)
    stop_schedule(orchestrator)
    with orchestrator.worker():
        orchestrator.prefect("deployment", "run", "run/pay")
        (waiting,) = wait_until(lambda: runs(orchestrator, "AwaitingTable"), PATIENCE, "a run that waits")
        assert waiting["state_type"] == "COMPLETED"
        assert waiting["state"]["message"].startswith("Its table is not there yet.")
        desk.edit_study("after: 366d", "after: 1h")
        orchestrator.prefect("deployment", "run", "run/pay")
        (late,) = wait_until(lambda: runs(orchestrator, "TableLate"), PATIENCE, "a run that is late")
        assert late["state_type"] == "FAILED"
        wait_until(lambda: events(orchestrator) == [("dpbayes.late", "dpbayes.study.pay")], 30, "one event of it")
        orchestrator.prefect("deployment", "run", "catch-up/all")  # not yet: the table is looked for once an hour
        wait_until(lambda: runs(orchestrator, "Completed"), PATIENCE, "a run that leaves it alone")
    assert charged(desk) == []
    assert "Traceback" not in orchestrator.log
