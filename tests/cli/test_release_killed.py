"""A release killed anywhere: running it again charges once, releases once, and gives the same bytes."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests.support.command import ROOT, clean_environment
from tests.support.desk import PERIOD, Desk
from tests.support.killed import BOUNDARIES, CHARGED


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """In a session of its own, ended afterwards: a killed command leaves its embedded Prefect server behind."""
    command = [sys.executable, "-m", "tests.support.killed", *map(str, arguments)]
    with TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, env=clean_environment(), stdout=out, stderr=errors, start_new_session=True
        )
        code = process.wait(timeout=300)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), errors.read())


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".tmp" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def assert_released_once(desk: Desk, charged_before: bool) -> None:
    """After a kill, the ledger holds a charge or none; after a re-run exactly one, and everything is published."""
    assert desk.document("ledger", "show", desk.study)["charges"] == int(charged_before)
    first = run("never", "alone", desk.study, PERIOD)
    assert first.returncode == 0, first.stderr
    assert not list((desk.home / "keys").glob("unfinished-*"))
    assert not list((desk.home / "vault").glob("unfinished/*")), list((desk.home / "vault").rglob("*"))
    published = files(desk.home / "archive")
    assert any(name.endswith("/MANIFEST.json") for name in published)
    second = run("never", "alone", desk.study, PERIOD)
    assert second.stdout == first.stdout
    assert files(desk.home / "archive") == published
    assert desk.document("ledger", "show", desk.study)["charges"] == 1
    entry = json.loads(next(data for name, data in published.items() if name.endswith("entry.json")))
    assert entry["payload"]["digest"] == first.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_release_killed_at_a_boundary_is_repaired_by_running_it_again(desk: Desk, boundary: str) -> None:
    killed = run(boundary, "alone", desk.study, PERIOD)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert_released_once(desk, charged_before=boundary in CHARGED)


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["during-pass", "after-commit", "while-archiving"])
def test_a_killed_command_is_repaired_by_running_it_again(desk: Desk, boundary: str) -> None:
    killed = run(boundary, "release", desk.study, "--period", PERIOD)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert_released_once(desk, charged_before=boundary in CHARGED)
