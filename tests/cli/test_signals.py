"""Ctrl-C and SIGTERM on the real command: over within seconds, nobody left behind, chains kept."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from distributed import Client

from cli.ending import Stopped
from tests.support.command import DPBAYES, ROOT, clean_environment
from tests.support.dask_cluster import DaskCluster
from tests.support.desk import PERIOD, Desk
from tests.support.faults import assert_fault, fault, faults_of

MARK = "TEST_OF_SIGNALS"
STEP = 180.0  # seconds that a loaded machine may take until the command is where it is to be stopped


@contextmanager
def running(desk: Desk, *arguments: str | Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a terminal starts it: in a process group of its own, which Ctrl-C goes to."""
    process = subprocess.Popen(
        [*DPBAYES, *map(str, arguments)],
        cwd=desk.folder,
        env=clean_environment(**{MARK: str(desk.folder)}, **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for one in left(desk):
            os.kill(one, signal.SIGKILL)
        process.communicate()


def left(desk: Desk) -> list[int]:
    """Processes that the command started, and itself, by what they have in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={desk.folder}".encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def wait_until(ready: Callable[[], object]) -> None:
    deadline = time.monotonic() + STEP
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def stopped(desk: Desk, process: subprocess.Popen[str], *signals: Callable[[int], None]) -> None:
    """It ends as documented, and so does everything it started."""
    test = test_a_command_that_is_stopped_is_over_soon_and_keeps_its_chains
    for number, send in enumerate(signals):
        time.sleep(0.3 * number)
        send(process.pid)
    began = time.monotonic()
    said, told = process.communicate(timeout=60)
    wait_until(lambda: not left(desk) or time.monotonic() - began > faults_of(test)[0].within)
    assert left(desk) == []
    assert_fault(subprocess.CompletedProcess([], process.returncode, said, told), test)
    assert [line for line in told.splitlines() if "Warning" in line or "ERROR" in line] == []


def interrupt(group: int) -> None:
    os.killpg(group, signal.SIGINT)


def terminate(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)


@pytest.mark.slow
@fault(
    "Ctrl-C or SIGTERM, at any moment",
    "cannot go on: stopped by Ctrl-C or a signal. Run the same command again: it goes on from what is kept and spends "
    "nothing twice.",
    exit_code=1,
    within=5,
)
def test_a_command_that_is_stopped_is_over_soon_and_keeps_its_chains(desk: Desk) -> None:
    desk.edit_study("chains: 2\n    draws: 500", "chains: 32\n    draws: 60000")
    asked = ("run", desk.study, "--period", PERIOD)
    server = desk.home / "prefect" / "server.log"
    with running(desk, *asked) as process:
        wait_until(server.exists)
        stopped(desk, process, interrupt, interrupt)
    with running(desk, *asked) as process:
        wait_until(lambda: list(desk.home.glob("work/*/chain-0.bin")))
        stopped(desk, process, interrupt)
    kept = {path: path.stat().st_mtime_ns for path in desk.home.glob("work/*/chain-*.bin")}
    assert kept
    with running(desk, *asked, "--json") as process:
        wait_until(lambda: any(path.stat().st_mtime_ns != kept[path] for path in kept))
        stopped(desk, process, terminate)
    assert all(path.exists() for path in kept)
    assert desk.document("ledger", "show", desk.study)["charges"] == 1


def chains(desk: Desk) -> dict[Path, int]:
    """The checkpoints, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in desk.home.glob("work/*/chain-*.bin")}


def wait_until_sampling(desk: Desk) -> None:
    """Wait until a checkpoint is written that was not there."""
    before = chains(desk)
    wait_until(lambda: chains(desk) != before)


@pytest.mark.slow
def test_a_command_on_a_cluster_of_the_users_is_stopped_and_leaves_the_cluster_as_it_was(desk: Desk) -> None:
    desk.edit_study("chains: 2\n    draws: 500", "chains: 32\n    draws: 60000")
    desk.release()
    with DaskCluster(desk.folder / "dask") as cluster:
        cluster.work()
        for send in (interrupt, terminate):
            with running(desk, "analyse", desk.study, "--period", PERIOD, DPBAYES_DASK=cluster.address) as process:
                wait_until_sampling(desk)
                stopped(desk, process, send)
        assert chains(desk)
        with Client(cluster.address, set_as_default=False) as client:
            wait_until(lambda: not any(client.processing().values()))
            assert client.submit(abs, -1).result(timeout=60) == 1


FACTORY = """
import logging
from distributed import LocalCluster

def adaptive():
    settings = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    cluster = LocalCluster(n_workers=0, threads_per_worker=1, **settings)
    cluster.adapt(minimum=0, maximum=2, interval="200ms")
    return cluster
"""


@pytest.mark.slow
def test_a_command_whose_cluster_a_function_makes_is_stopped_and_leaves_no_worker(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "agency_clusters.py").write_text(FACTORY)
    desk.edit_study("chains: 2\n    draws: 500", "chains: 32\n    draws: 60000")
    desk.release()
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    for send in (interrupt, terminate):
        named = {"DPBAYES_DASK_FACTORY": "agency_clusters:adaptive", "PYTHONPATH": path}
        with running(desk, "analyse", desk.study, "--period", PERIOD, **named) as process:
            wait_until_sampling(desk)
            stopped(desk, process, send)
        assert chains(desk)


IMPORTING = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, *_):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["dpbayes", "check", "study.yaml", "--json"]
from cli.main import main
main()
"""


@pytest.mark.parametrize("module", ["cli.commands", "cli.check", "dpbayes.study.load"])
def test_a_command_that_is_stopped_while_it_imports_says_so_without_a_traceback(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING.format(module=module)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=STEP,
        check=False,
    )
    said = done.stderr if module == "cli.commands" else json.loads(done.stdout)["error"]["message"]
    assert (done.returncode, said.strip()) == (1, str(Stopped()))
    assert "Traceback" not in done.stderr
