"""`dpbayes status`: what a person sees, what a monitor reads, and what a Prefect server adds."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from storage.home.attempts import Attempts
from storage.ledger.periods import Period
from tests.support.command import DPBAYES, ROOT
from tests.support.desk import Desk
from tests.support.prefect import Orchestrator, free_port, wait_until

GONE = 2**22 + 1  # no process has this number
PATIENCE = 120
DEPLOYMENT = """\
name: dpbayes
prefect-version: 3.8.8
pull: []
deployments:
  - name: pay
    entrypoint: flows.run.run_study
    parameters: {study: "{{ $PWD }}/study.yaml"}
    schedules: [{cron: "0 2 1 1 *"}]
    work_pool: {name: dpbayes}
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A study that owes nothing before this month is over; no server is configured."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    found = Desk.set_up(tmp_path)
    now = datetime.now(UTC)
    found.edit_study('cron: "0 2 1 * *"', f'cron: "0 2 1 * *", first: {Period.containing(now, "month").name}')
    return found


def last_month() -> str:
    return Period.previous(datetime.now(UTC), "month").name


def owe(desk: Desk, outcome: str, **said: Any) -> None:
    """Let the study owe the last month, tried with this outcome."""
    desk.edit_study(f"first: {Period.containing(datetime.now(UTC), 'month').name}", f"first: {last_month()}")
    now = datetime.now(UTC)
    running = Attempts(desk.home / "runs", "pay").begin(last_month(), now)
    assert running is not None
    running.end(outcome, now, **said)


def test_a_person_sees_studies_budgets_and_that_nothing_is_to_be_done(desk: Desk) -> None:
    done = desk.run("status", desk.folder)
    assert done.exit_code == 0, done.output
    assert "Nothing waits for a person." in done.stdout
    now = Period.containing(datetime.now(UTC), "month")
    assert f"{now.name}  {now.next().first_day}     0" in done.stdout
    assert "none up to" in done.stdout
    assert "Prefect" not in done.stdout


def test_a_refusal_comes_first_with_who_has_to_act_and_is_the_exit_code(desk: Desk) -> None:
    owe(desk, "refused", exit_code=3, message="cannot charge it: the cap is used up. Raise it.")
    done = desk.run("status", desk.folder)
    assert done.exit_code == 3
    first, second, *_ = done.stdout.splitlines()
    assert first.endswith("1 matter waits for a person: steward.")
    assert second.startswith(f"pay {last_month()}: REFUSED, for the steward. cannot charge it")
    assert desk.document("status", desk.study, exit_code=3)["waits"][0]["who"] == "steward"


def test_without_a_server_neither_prefect_nor_dask_is_imported(desk: Desk) -> None:
    program = "import sys; from typer.testing import CliRunner; from cli.commands import app; "
    program += f"done = CliRunner().invoke(app, ['status', {str(desk.folder)!r}]); "
    program += (
        "print(done.exit_code, sorted({'prefect', 'dask', 'distributed', 'numba', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "0 []\n"


def test_the_page_and_the_numbers_are_written_whole_and_can_be_read_by_others(desk: Desk) -> None:
    page, numbers = desk.folder / "status.html", desk.folder / "dpbayes.prom"
    for _ in range(2):  # the second time over the first
        assert desk.run("status", desk.folder, "--page", page, "--prometheus", numbers).exit_code == 0
    assert "Nothing waits for a person." in page.read_text()
    families = {family.name: family for family in parsed(numbers.read_text())}
    assert families["dpbayes_status_exit_code"].samples[0].value == 0
    assert stat.S_IMODE(numbers.stat().st_mode) & 0o444 == 0o444 & ~_umask()
    assert list(desk.folder.glob("*.part")) == []


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        ("--page", "status.txt", "its name does not end in .html"),
        ("--prometheus", "status.txt", "its name does not end in .prom"),
        ("--page", "nowhere/status.html", "No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_sentence(desk: Desk, option: str, name: str, words: str) -> None:
    done = desk.run("status", desk.folder, option, desk.folder / name)
    assert done.exit_code in (1, 2)
    assert words in done.stderr


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    made = Orchestrator(tmp_path_factory.mktemp("orchestrator"))
    with made.server():
        yield made


def status(desk: Desk, environment: dict[str, str], exit_code: int = 0) -> dict[str, Any]:
    """The document of the command in a process of its own."""
    done = subprocess.run(
        [*DPBAYES, "status", str(desk.folder), "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_server_that_is_not_there_or_refuses_the_password_is_a_sentence(
    desk: Desk, orchestrator: Orchestrator
) -> None:
    nobody = orchestrator.environment | {"PREFECT_API_URL": f"http://me:word@127.0.0.1:{free_port()}/api"}
    server = status(desk, nobody)["server"]
    assert (server["answers"], server["workers"], server["runs"]) == (False, [], [])
    assert server["sentence"].endswith("does not answer. What it knows of runs and workers is missing here.")
    assert "word" not in json.dumps(server)
    stranger = orchestrator.environment | {"PREFECT_API_AUTH_STRING": "somebody:else"}
    server = status(desk, stranger)["server"]
    assert "refuses the password" in server["sentence"]
    assert "else" not in json.dumps(server)


@pytest.mark.slow
def test_a_server_adds_what_is_deployed_when_it_runs_and_who_is_at_work(desk: Desk, orchestrator: Orchestrator) -> None:
    server = status(desk, orchestrator.environment)
    assert (server["server"]["answers"], server["studies"][0]["deployment"]) == (True, None)
    (desk.folder / "prefect.yaml").write_text(DEPLOYMENT)
    orchestrator.prefect("deploy", "--all", cwd=desk.folder)

    def found() -> dict[str, Any] | None:
        deployment = status(desk, orchestrator.environment)["studies"][0]["deployment"]
        return deployment if deployment["next_run"] else None

    deployment = wait_until(found, PATIENCE, "the next run")
    assert (deployment["name"], deployment["paused"], deployment["scheduled"]) == ("run/pay", False, True)
    assert deployment["next_run"].endswith("-01-01T02:00:00+00:00")
    with orchestrator.worker():
        (worker,) = wait_until(
            lambda: status(desk, orchestrator.environment)["server"]["workers"],
            PATIENCE,
            f"a worker\n{orchestrator.log}",
        )
    seen = datetime.fromisoformat(worker["seen"])
    assert abs((datetime.now(UTC) - seen).total_seconds()) < PATIENCE
    shown = subprocess.run(
        [*DPBAYES, "status", str(desk.folder)],
        env=orchestrator.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert "pay: deployed, next run" in shown
    assert "last sign of life" in shown


@pytest.mark.slow
def test_a_run_that_the_server_believes_running_is_alive_dead_or_unknown_by_its_attempt(
    desk: Desk, orchestrator: Orchestrator
) -> None:
    (desk.folder / "prefect.yaml").write_text(DEPLOYMENT)
    orchestrator.prefect("deploy", "--all", cwd=desk.folder)
    run = _believed_running(orchestrator)
    assert [one["life"] for one in status(desk, orchestrator.environment)["server"]["runs"]] == ["unknown"]
    now = datetime.now(UTC)
    running = Attempts(desk.home / "runs", "pay").begin(last_month(), now, run)
    assert running is not None
    (found,) = status(desk, orchestrator.environment)["server"]["runs"]
    assert (found["life"], found["flow_run_id"], found["deployment"]) == ("alive", run, "run/pay")
    running.end("stopped", now)
    record = desk.home / "runs" / "pay" / f"{last_month()}.json"
    text = record.read_text().replace('"stopped"', '"running"').replace(f'"pid": {os.getpid()}', f'"pid": {GONE}')
    record.write_text(text)
    (found,) = status(desk, orchestrator.environment)["server"]["runs"]
    assert found["life"] == "dead"
    assert f"(process {GONE}) died before its end." in found["sentence"]
    orchestrator.prefect("flow-run", "delete", run)


def _believed_running(orchestrator: Orchestrator) -> str:
    """The id of a run that is RUNNING for the server, and at which nobody works."""
    said = orchestrator.prefect("deployment", "run", "run/pay", "--param", 'period="2026-01"')
    run = next(line.split()[-1] for line in said.splitlines() if "UUID" in line)
    program = "import sys; from uuid import UUID; from prefect.client.orchestration import get_client; "
    program += "from prefect.states import Running; client = get_client(sync_client=True).__enter__(); "
    program += "client.set_flow_run_state(UUID(sys.argv[1]), Running(), force=True)"
    subprocess.run([sys.executable, "-c", program, run], env=orchestrator.environment, check=True, timeout=60)
    return run


@pytest.mark.slow
def test_a_server_that_hangs_holds_up_the_answer_for_seconds_only(desk: Desk, orchestrator: Orchestrator) -> None:
    began = time.monotonic()
    status(desk, orchestrator.environment)
    answered = time.monotonic() - began
    orchestrator.signal_server(signal.SIGSTOP)
    try:
        began = time.monotonic()
        server = status(desk, orchestrator.environment)["server"]
        waited = time.monotonic() - began
    finally:
        orchestrator.signal_server(signal.SIGCONT)
    assert not server["answers"]
    assert waited < answered + 12
