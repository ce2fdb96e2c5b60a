"""The schedule on real parts: a Prefect server, `prefect deploy --all` as docs/operations.md says, and a worker."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from storage.ledger.periods import Period
from tests.support.command import ROOT, document, dpbayes
from tests.support.desk import PERIOD, Desk
from tests.support.faults import assert_says, fault, faults_of
from tests.support.prefect import Orchestrator, wait_until

EACH_MINUTE = ('cron: "0 2 1 * *"', 'cron: "* * * * *"')
PATIENCE = 300  # at worst a run is due in a minute; and its processes start on a busy machine


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    made = Orchestrator(tmp_path_factory.mktemp("orchestrator"), DPBAYES_FOLDER=str(ROOT))
    with made.server():
        yield made


def last_month() -> str:
    return Period.previous(datetime.now(UTC), "month").name


def study_folder(folder: Path, *edits: tuple[str, str]) -> Path:
    """What `dpbayes init` makes, with a table of last month, due each minute."""
    dpbayes("init", folder, cwd=folder.parent, check=True)
    (folder / "data" / "wages-2026-03.parquet").rename(folder / "data" / f"wages-{last_month()}.parquet")
    schedule = folder / "prefect.yaml"
    text = schedule.read_text()
    for old, new in (EACH_MINUTE, *edits):
        assert old in text
        text = text.replace(old, new)
    schedule.write_text(text)
    return folder


def reports(folder: Path) -> list[Path]:
    return list((folder / ".dpbayes" / "archive" / "posteriors").rglob("report.html"))


@pytest.mark.slow
def test_two_studies_anywhere_run_when_they_are_due(orchestrator: Orchestrator, tmp_path: Path) -> None:
    studies = [study_folder(tmp_path / "wages"), study_folder(tmp_path / "wages of the north")]
    for study in studies:
        orchestrator.prefect("deploy", "--all", cwd=study)
    listed = json.loads(orchestrator.prefect("deployment", "ls", "--output", "json"))
    assert {each["name"] for each in listed} >= {"wages", "wages-of-the-north"}
    with orchestrator.worker():  # nobody triggers anything: the server's scheduler must
        for study in studies:
            wait_until(lambda study=study: reports(study), PATIENCE, f"the report of {study.name}")
        for study in studies:
            orchestrator.prefect("deployment", "schedule", "clear", f"run/{study.name.replace(' ', '-')}", "-y")
    for study in studies:
        history = document("ledger", "history", study, cwd=study)
        charged = [entry for entry in history["entries"] if entry["kind"] == "charge"]
        assert [(entry["period"], entry["actor"]) for entry in charged] == [(last_month(), "scheduler")]
        assert document("audit", study, cwd=study)["ok"]


@pytest.mark.slow
def test_the_deployment_of_the_checkout_runs_when_it_is_triggered(orchestrator: Orchestrator, desk: Desk) -> None:
    orchestrator.prefect("deploy", "--all", cwd=ROOT)
    with orchestrator.worker():
        study = ("--param", f'study="{desk.study}"', "--param", f'period="{PERIOD}"')
        told = orchestrator.prefect("deployment", "run", "run/wages", *study, "--watch", "--watch-timeout", "400")
    assert "Completed" in told, told + orchestrator.log
    assert desk.document("ledger", "show", desk.study)["charges"] == 1
    assert list((desk.home / "archive" / "posteriors").rglob("report.html"))


@pytest.mark.slow
def test_a_refusal_is_a_state_and_a_sentence_in_what_a_worker_prints(orchestrator: Orchestrator, desk: Desk) -> None:
    desk.edit_study("epsilon: 1\n", "epsilon: 3\n")
    orchestrator.prefect("deploy", "--all", cwd=ROOT)
    study = ("--param", f'study="{desk.study}"', "--param", f'period="{PERIOD}"')
    with orchestrator.worker():
        orchestrator.prefect("deployment", "run", "run/wages", *study)
        wait_until(
            lambda: f"'run pay {PERIOD}' - Finished in state Refused(" in orchestrator.log, PATIENCE, "the refusal"
        )
        time.sleep(3)  # its process ends without a word, or with what it has to say of an exception
    assert "cannot charge pay-regression of 2026-01 to the per-period cap" in orchestrator.log
    assert "Traceback" not in orchestrator.log


GONE = (
    "cannot go on: Prefect's server does not answer. Start it, or correct PREFECT_API_URL, and run again; what was "
    "released or archived is kept."
)


@contextmanager
def released_under(orchestrator: Orchestrator, desk: Desk) -> Iterator[None]:
    """Inside, a worker's run has just released, and has everything else before it."""
    orchestrator.prefect("deploy", "--all", cwd=ROOT)
    with orchestrator.worker():
        study = ("--param", f'study="{desk.study}"', "--param", f'period="{PERIOD}"')
        orchestrator.prefect("deployment", "run", "run/wages", *study)
        crates = desk.home / "archive" / "releases"
        wait_until(lambda: list(crates.rglob("MANIFEST.json")), PATIENCE, "the release")
        yield


@pytest.mark.slow
@fault(
    "Prefect's server goes away, or hangs, under a run that a worker started: work under way is finished first",
    GONE,
    exit_code=1,
    within=120,
)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_server_that_goes_away_under_a_run_of_a_worker(desk: Desk, tmp_path: Path, how: signal.Signals) -> None:
    test = test_a_server_that_goes_away_under_a_run_of_a_worker
    folder = tmp_path / "orchestrator"
    folder.mkdir()
    orchestrator = Orchestrator(folder, DPBAYES_FOLDER=str(ROOT))
    with orchestrator.server(), released_under(orchestrator, desk):
        orchestrator.signal_server(how)
        began = time.monotonic()
        wait_until(lambda: "exited with status code: 1" in orchestrator.log, PATIENCE, f"the end\n{orchestrator.log}")
        print(f"{how.name}: {time.monotonic() - began:.0f} seconds")
        assert time.monotonic() - began < faults_of(test)[0].within
        assert_says(orchestrator.log, faults_of(test)[0].sentence)
    again = desk.document("run", desk.study, "--period", PERIOD)
    assert again["releases"][0]["status"] == "already-released"
    assert desk.document("ledger", "show", desk.study)["charges"] == 1
    assert desk.document("audit", desk.study)["ok"]


@pytest.mark.slow
def test_a_run_of_a_worker_goes_on_where_its_server_is_back_soon(orchestrator: Orchestrator, desk: Desk) -> None:
    with released_under(orchestrator, desk):
        orchestrator.signal_server(signal.SIGSTOP)
        time.sleep(30)
        orchestrator.signal_server(signal.SIGCONT)
        ended = f"'run pay {PERIOD}' - Finished in state Completed("
        wait_until(lambda: ended in orchestrator.log, PATIENCE, "the end of a run whose server was away")
    assert list((desk.home / "archive" / "posteriors").rglob("report.html"))
    assert desk.document("ledger", "show", desk.study)["charges"] == 1


def test_the_schedule_that_init_writes_is_that_of_its_study() -> None:
    template = ROOT / "examples" / "wages"
    (deployment,) = YAML(typ="safe").load(template / "prefect.yaml")["deployments"]
    assert deployment["schedules"] == [YAML(typ="safe").load(template / "study.yaml")["schedule"]]
    assert EACH_MINUTE[0] in (template / "prefect.yaml").read_text()
