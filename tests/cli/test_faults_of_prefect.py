"""A Prefect server that is named and cannot be used, or goes away under a run: a sentence, within its time."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tasks.prefect_server import OwnServer
from tests.support.command import DPBAYES, clean_environment, dpbayes
from tests.support.desk import PERIOD, Desk
from tests.support.disks import Disk
from tests.support.faults import assert_fault, fault, faults_of

Test = Callable[..., None]
WORD = "dpbayes:of-this-test"


@contextmanager
def prefect_server(folder: Path, environment: pytest.MonkeyPatch) -> Iterator[OwnServer]:
    """A real server with its database in the folder; commands find it by what is set here."""
    environment.setenv("PREFECT_HOME", str(folder))
    environment.delenv("PREFECT_API_URL", raising=False)
    server = OwnServer(folder / "server.log", WORD)
    server.wait()
    try:
        yield server
    finally:
        server.stop()


def environment_of(server: OwnServer, word: str = WORD) -> dict[str, str]:
    return clean_environment(PREFECT_API_URL=server.url, PREFECT_API_AUTH_STRING=word)


def run(desk: Desk, server: OwnServer, step: str, fail: Callable[[], object], test: Test) -> None:
    """The command says what the test's decorator does, so many seconds at most after the failure in that step."""
    began = float("inf")
    with subprocess.Popen(
        [*DPBAYES, "run", desk.study, "--period", PERIOD, "--json"],
        env=environment_of(server),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith(step):
                fail()
            began = time.monotonic() if line.startswith("writing the report") or step != "sampling" else began
        said = process.stdout.read()
    assert time.monotonic() - began < faults_of(test)[0].within
    assert_fault(subprocess.CompletedProcess([], process.returncode, said, "".join(lines)), test)


GONE = "cannot go on: Prefect's server does not answer. Start it, or correct PREFECT_API_URL, and run again; "
KEPT = "what was released or archived is kept."


@pytest.mark.slow
@fault(
    "Prefect's server goes away, or hangs, while chains are drawn: they are drawn and archived first",
    GONE + KEPT,
    1,
    60,
)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_goes_away_while_chains_are_drawn(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    with prefect_server(tmp_path, monkeypatch) as server:
        test = test_a_server_that_goes_away_while_chains_are_drawn
        run(desk, server, "sampling", lambda: os.kill(server.pid, how), test)
    monkeypatch.undo()
    again = desk.document("run", desk.study, "--period", PERIOD)
    assert again["releases"][0]["status"] == "already-released"
    assert again["analyses"][0]["already_analysed"]


@pytest.mark.slow
@fault(
    "The disk of Prefect's server is full",
    "cannot go on: Prefect's server fails. See its log and its disk and run again; " + KEPT,
    exit_code=1,
    within=60,
)
def test_a_server_whose_disk_is_full(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with Disk.mounted(16) as disk, prefect_server(disk.folder, monkeypatch) as server:
        run(desk, server, "reading the table", disk.fill, test_a_server_whose_disk_is_full)
    assert desk.document("ledger", "show", desk.study)["charges"] == 1


@pytest.mark.slow
@fault("No Prefect server where PREFECT_API_URL points", GONE + KEPT, exit_code=1, within=30)
@fault(
    "Prefect's server does not know the password",
    "cannot go on: Prefect's server refuses the password. Correct PREFECT_API_AUTH_STRING and run again; " + KEPT,
    exit_code=1,
    within=30,
)
def test_a_server_that_is_not_there_or_does_not_know_us(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = test_a_server_that_is_not_there_or_does_not_know_us
    asked = ("release", desk.study, "--period", PERIOD)
    with prefect_server(tmp_path, monkeypatch) as server:
        for place, environment in enumerate([environment_of(server), environment_of(server, "dpbayes:mistyped")]):
            if place == 0:
                environment["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
            began = time.monotonic()
            found = {name: value for name, value in environment.items() if name.startswith("PREFECT_API")}
            assert_fault(dpbayes(*asked, cwd=desk.folder, **found), test, place)
            assert time.monotonic() - began < faults_of(test)[place].within
    assert desk.document("ledger", "show", desk.study)["charges"] == 0
