"""The schedule on real parts: a Prefect server, `prefect deploy --all`, a worker, and a run of the deployment."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.command import ROOT, clean_environment
from tests.support.desk import PERIOD, Desk

PREFECT = str(Path(sys.executable).parent / "prefect")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(*command: str, environment: dict[str, str], log: Path) -> Iterator[None]:
    """A process in a session of its own, ended with all it started."""
    with log.open("w") as sink:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=sink,
            stderr=sink,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            for how in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, how)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=15)


def wait_for(url: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.5)
    pytest.fail(f"{url} did not answer")


@pytest.mark.slow
def test_a_deployed_study_runs_when_it_is_triggered(desk: Desk, tmp_path: Path) -> None:
    port = free_port()
    environment = clean_environment(
        DO_NOT_TRACK="1",
        DPBAYES_FOLDER=str(ROOT),
        PREFECT_API_URL=f"http://127.0.0.1:{port}/api",
        PREFECT_HOME=str(tmp_path / "prefect"),
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
        PYTHONPATH=str(ROOT),
    )

    def prefect(*arguments: str) -> str:
        done = subprocess.run(
            [PREFECT, "--no-prompt", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    server = (PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(port))
    with running(*server, environment=environment, log=tmp_path / "server.log"):
        wait_for(f"http://127.0.0.1:{port}/api/health", 180)
        prefect("work-pool", "create", "dpbayes", "--type", "process")
        prefect("deploy", "--all")
        assert "run/wages" in prefect("deployment", "ls")
        worker = (PREFECT, "worker", "start", "--pool", "dpbayes")
        with running(*worker, environment=environment, log=tmp_path / "worker.log"):
            study = ("--param", f'study="{desk.study}"', "--param", f'period="{PERIOD}"')
            told = prefect("deployment", "run", "run/wages", *study, "--watch", "--watch-timeout", "400")
    assert "Completed" in told, told + (tmp_path / "worker.log").read_text()
    assert desk.document("ledger", "show", desk.study)["charges"] == 1
    assert list((desk.home / "archive" / "posteriors").rglob("report.html"))
