"""What an operator sees on a real Prefect server: names, log lines, artifacts, events; and what is nowhere in it."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.canaries import places
from tests.support.command import DPBAYES, ROOT, clean_environment, dpbayes
from tests.support.desk import PERIOD, STUDY, Desk, people
from tests.support.prefect import ADDRESS, Orchestrator, wait_until

OUTLIER = 90817.26354
NAME = "Zebulon-Quirk-Canary"
LEVEL = "atlantis-canary"
CANARIES = (OUTLIER, NAME, LEVEL)
PATIENCE = 400
DOCUMENT = ROOT / "docs" / "operations.md"
EXAMPLE = "https://chat.example/hook"


class Agency:
    """Three studies on one server: `wages` is released, `earnings` refused, `hours` does not converge."""

    def __init__(self, folder: Path, heard: list[dict[str, Any]]) -> None:
        self.folder, self.heard = folder, heard
        self.server = Orchestrator(folder, DPBAYES_FOLDER=str(ROOT))
        self.wages = self._study("wages")
        self.earnings = self._study("earnings", ("epsilon: 1\n", "epsilon: 3\n"))
        self.hours = self._study("hours", ("draws: 500", "draws: 10"))

    def _study(self, name: str, *edits: tuple[str, str]) -> Desk:
        desk = Desk(self.folder / name)
        desk.folder.mkdir()
        desk.study.write_text(STUDY.replace("study: pay", f"study: {name}"))
        columns = people()
        columns["pay"][11], columns["person"][12], columns["region"][13] = OUTLIER, NAME, LEVEL
        desk.write_table(columns)
        dpbayes("ledger", "create", desk.study, cwd=desk.folder, check=True)
        for old, new in edits:
            desk.edit_study(old, new)
        return desk

    def start(self, desk: Desk) -> None:
        """Have the worker run a study."""
        given = ("--param", f'study="{desk.study}"', "--param", f'period="{PERIOD}"')
        self.server.prefect("deployment", "run", "run/wages", *given)

    def await_end(self, desk: Desk, state: str) -> None:
        """Wait until the run of a study has ended in a state."""
        query = "SELECT state_name FROM flow_run WHERE name = ? ORDER BY created DESC LIMIT 1"
        name = f"run {desk.folder.name} {PERIOD}"
        wait_until(lambda: self.rows(query, name) == [(state,)], PATIENCE, f"{name}: {state}")

    def rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """What the server's database answers."""
        with closing(sqlite3.connect(f"file:{self.folder / 'prefect' / 'prefect.db'}?mode=ro", uri=True)) as database:
            return database.execute(query, values).fetchall()

    def events(self) -> list[tuple[str, str]]:
        """Name and resource of each event of ours."""
        return self.rows("SELECT event, resource_id FROM events WHERE event LIKE 'dpbayes.%' ORDER BY occurred")

    def artifacts(self) -> dict[str, tuple[str, str, str]]:
        """Type, description and data of each artifact that has a key."""
        found = self.rows("SELECT key, type, description, data FROM artifact WHERE key IS NOT NULL")
        return {key: (kind, description, data) for key, kind, description, data in found}


@contextmanager
def webhook(heard: list[dict[str, Any]]) -> Iterator[str]:
    """A server on loopback that keeps what is posted to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer((ADDRESS, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{ADDRESS}:{server.server_port}/hook"
    finally:
        server.shutdown()
        server.server_close()


def load_automations(agency: Agency, url: str) -> None:
    """Run the commands of docs/operations.md, with the address of this test's webhook."""
    (block,) = re.findall(r"^    BLOCK=.*?(?=^$)", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert EXAMPLE in block
    done = subprocess.run(
        ["bash", "-ec", block.replace(EXAMPLE, url)],
        cwd=ROOT,
        env=agency.server.environment | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agency]:
    """The server after the worker has run all three studies."""
    heard: list[dict[str, Any]] = []
    made = Agency(tmp_path_factory.mktemp("agency"), heard)
    with webhook(heard) as url, made.server.server():
        made.server.prefect("deploy", "--all", cwd=ROOT)
        load_automations(made, url)
        with made.server.worker():
            for desk, state in ((made.wages, "Completed"), (made.earnings, "Refused"), (made.hours, "NotConverged")):
                made.start(desk)
                made.await_end(desk, state)
            wait_until(lambda: len(made.events()) >= 5, 30, "the events")
            yield made


@pytest.mark.slow
def test_runs_and_tasks_are_named_by_study_and_period(agency: Agency) -> None:
    flows = {name for (name,) in agency.rows("SELECT name FROM flow_run WHERE start_time IS NOT NULL")}
    assert {f"{verb} {study} {PERIOD}" for verb in ("run", "release") for study in ("wages", "hours")} <= flows
    assert f"analyse wages {PERIOD}" in flows
    tasks = {name for (name,) in agency.rows("SELECT name FROM task_run")}
    assert f"release-statistics wages {PERIOD} pay-regression" in tasks
    assert f"sample-chains wages {PERIOD} pay-posterior" in tasks
    assert not [name for name in flows | tasks if "/" in name]


@pytest.mark.slow
def test_the_log_of_a_run_tells_each_step_and_its_result(agency: Agency) -> None:
    def said(name: str) -> list[str]:
        query = (
            "SELECT l.message FROM log l JOIN flow_run r ON r.id = l.flow_run_id WHERE r.name = ? ORDER BY l.timestamp"
        )
        start = f"{name} {PERIOD}: "
        found = (message for (message,) in agency.rows(query, f"run {name} {PERIOD}"))
        return [message.removeprefix(start) for message in found if message.startswith(start)]

    wait_until(lambda: len(said("wages")) > 6, 30, "the log")
    lines = said("wages")
    steps = ["reading the table", "validating", "charged pay-regression", "writing the crate"]
    assert lines[:4] == steps
    assert lines[4].startswith("published pay-regression (released) at epsilon 1 at delta 1e-06")
    assert lines[5] == "sampling"
    assert lines[-1].startswith("archived: pay-posterior converged")
    assert [line.partition(":")[0] for line in said("earnings")] == ["refused"]
    assert "has NOT converged" in said("hours")[-1]


@pytest.mark.slow
def test_artifacts_say_cost_result_and_what_next(agency: Agency) -> None:
    wait_until(lambda: len(agency.artifacts()) == 5, 30, "the artifacts")
    found = agency.artifacts()
    kind, heading, data = found["release-wages-pay-regression"]
    assert (kind, heading.startswith(f"**{PERIOD}: released** at epsilon 1")) == ("table", True)
    assert "remains in lifetime" in data
    assert "R-hat" in found["posterior-wages-pay-posterior"][2]
    assert f"**{PERIOD}: NOT converged**" in found["posterior-hours-pay-posterior"][1]
    kind, _, text = found["refused-earnings"]
    assert kind == "markdown"
    assert "Ask for epsilon 2 or less, or raise the cap." in text
    bars = agency.rows(
        "SELECT description, data FROM artifact WHERE type = 'progress' AND description LIKE 'wages%' ORDER BY created"
    )
    assert [float(share) for _, share in bars] == [100.0, 100.0]
    assert bars[0][0] == f"wages {PERIOD}: reading the table"
    assert re.match(rf"wages {PERIOD}: sampling: [\d,]+ of [\d,]+ draws", bars[1][0])


@pytest.mark.slow
def test_events_name_the_study_and_a_webhook_hears_of_those_that_need_a_person(agency: Agency) -> None:
    assert agency.events() == [
        ("dpbayes.released", "dpbayes.study.wages"),
        ("dpbayes.analysed", "dpbayes.study.wages"),
        ("dpbayes.refused", "dpbayes.study.earnings"),
        ("dpbayes.released", "dpbayes.study.hours"),
        ("dpbayes.not-converged", "dpbayes.study.hours"),
    ]
    wait_until(lambda: len(agency.heard) >= 2, 60, "the webhook")
    assert {(one["event"], one["study"]) for one in agency.heard} == {
        ("dpbayes.refused", "earnings"),
        ("dpbayes.not-converged", "hours"),
    }
    (refused,) = (one for one in agency.heard if one["study"] == "earnings")
    assert "Ask for epsilon 2 or less, or raise the cap." in refused["text"]
    assert refused["who"] == "steward"


@pytest.mark.slow
def test_crates_are_assets_with_the_crates_they_come_from(agency: Agency) -> None:
    query = "SELECT resource_id FROM events WHERE event = 'prefect.asset.materialization.succeeded' ORDER BY occurred"
    made = [name for (name,) in agency.rows(query)]
    assert made[:2] == [f"dpbayes://wages/{PERIOD}/pay-regression/r1", f"dpbayes://wages/{PERIOD}/pay-posterior"]
    query = "SELECT resource_id FROM events WHERE event = 'prefect.asset.referenced'"
    assert (made[0],) in agency.rows(query)


@pytest.mark.slow
def test_nothing_of_a_row_is_anywhere_in_what_prefect_keeps(agency: Agency) -> None:
    assert agency.rows("SELECT count(*) FROM events")[0][0] > 50
    assert places(agency.folder / "prefect", CANARIES) == []
    logs = [agency.folder / name for name in ("server.log", "worker.log")]
    assert not [log for log in logs if any(str(value) in log.read_text() for value in CANARIES)]


@pytest.mark.slow
def test_a_typed_command_shows_its_run_on_the_server_of_the_user_and_not_on_the_terminal(agency: Agency) -> None:
    desk = agency.wages
    desk.write_table(people(), "2026-02")
    command = [*DPBAYES, "release", str(desk.study), "--period", "2026-02", "--json"]
    done = subprocess.run(
        command,
        env=agency.server.environment | {"DPBAYES_LOG": "json"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines][-1] == "released"
    rest = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert set(rest) <= {"reading the table", "validating", "charged and released", "writing the crate"}
    query = "SELECT description FROM artifact WHERE key = 'release-wages-pay-regression' ORDER BY created DESC"
    wait_until(lambda: str(agency.rows(query)[0][0]).startswith("**2026-02: released**"), 30, "the artifact")
    published = "SELECT count(*) FROM log WHERE message LIKE 'wages 2026-02: published%'"
    wait_until(lambda: agency.rows(published) == [(1,)], 30, "the log line")


@pytest.mark.slow
def test_a_typed_command_writes_no_artifact_on_the_server_that_it_starts_for_itself(desk: Desk) -> None:
    done = subprocess.run(
        [*DPBAYES, "release", str(desk.study), "--period", PERIOD],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert "Released pay-regression" in done.stdout
    with closing(sqlite3.connect(f"file:{desk.home / 'prefect' / 'prefect.db'}?mode=ro", uri=True)) as database:
        assert database.execute("SELECT count(*) FROM artifact").fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM events WHERE event LIKE 'dpbayes.%'").fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM flow_run").fetchone() == (1,)


@pytest.mark.slow
def test_the_second_automation_pauses_a_deployment_whose_study_was_altered(agency: Agency) -> None:
    newest = sorted((agency.hours.home / "archive" / "anchors").glob("*.json"))[-1]
    newest.write_text("altered")
    agency.start(agency.hours)
    agency.await_end(agency.hours, "IntegrityFailure")
    paused = "SELECT paused FROM deployment WHERE name = 'wages'"
    wait_until(lambda: agency.rows(paused) == [(1,)], 60, "the pause")
    stored = ("dpbayes.integrity", "dpbayes.study.hours")
    wait_until(lambda: stored in agency.events(), 30, "the event")  # the server stores events in batches
