"""A whole run looks up no name and opens no connection beyond this machine, in none of its processes."""

from pathlib import Path

import pytest

from tests.support.command import dpbayes
from tests.support.desk import PERIOD, Desk

WATCH = """\
import os, sys

def watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = str(arguments[1][0])
    elif event == "socket.getaddrinfo":
        host = arguments[0].decode() if isinstance(arguments[0], bytes) else str(arguments[0])
    else:
        return
    with open(os.environ["WATCHED"], "a") as file:
        file.write(host + "\\n")

sys.addaudithook(watch)
"""
HERE = {"127.0.0.1", "::1", "localhost", "None", ""}


@pytest.fixture
def watched(tmp_path: Path) -> dict[str, str]:
    """An environment in which every Python process writes down whom it talks to."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH)
    return {"PYTHONPATH": f"{tmp_path / 'watch'}", "WATCHED": str(tmp_path / "hosts")}


@pytest.mark.slow
def test_a_run_talks_to_nobody_beyond_this_machine(desk: Desk, watched: dict[str, str]) -> None:
    done = dpbayes("run", desk.study, "--period", PERIOD, cwd=desk.folder, **watched)
    assert done.returncode == 0, done.stderr
    hosts = set(Path(watched["WATCHED"]).read_text().splitlines())
    assert "127.0.0.1" in hosts  # the watch works: Prefect and Dask talk on loopback
    assert hosts <= HERE
