"""docs/newcomer.md is walked as it is written: README's commands are CI's first steps, the rest is run here."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import ROOT, clean_environment
from tests.support.others import open_environment, open_folder, require_another_user
from tests.support.prefect import free_port
from tests.test_docs import FENCE, script

PAGE = ROOT / "docs" / "newcomer.md"
PORT = "4200"
LOOKS = ("prefect deployment ls", "prefect flow-run ls")


def blocks() -> list[str]:
    return FENCE.findall(PAGE.read_text())


def test_the_walk_begins_with_the_commands_of_the_readme_which_ci_runs_first() -> None:
    begun = blocks()[0].split("\n")[:-1]
    readme = (ROOT / "README.md").read_text()
    assert begun == re.findall(r"^    (make \w+) ", readme, re.MULTILINE) == ["make demo", "make test"]
    steps = re.findall(r'^step ".*" (.*)$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert [step for step in steps if step.startswith("make")][:2] == begun
    assert steps[0] == begun[0]


def test_the_schedules_of_the_operations_page_are_those_that_are_walked() -> None:
    page = (ROOT / "docs" / "operations.md").read_text().partition("## Schedules")[2].partition("\n## ")[0]
    written = [line.strip() for line in page.splitlines() if line.startswith("    ")]
    walked = "".join(blocks())
    assert len(written) > 10
    assert [line for line in written if line not in walked and line not in LOOKS] == []


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A folder that other users may look into, with an environment that they can run as its `.venv`."""
    require_another_user()
    with open_folder() as folder:
        (folder / ".venv").symlink_to(open_environment())
        (folder / "home").mkdir(mode=0o700)
        yield folder


@pytest.mark.slow
def test_the_walk_does_what_it_says(checkout: Path) -> None:
    lines = "".join(blocks()[1:]).replace(PORT, str(free_port())).splitlines()
    home = checkout / "home"
    environment = clean_environment(
        HOME=str(home), TMPDIR=str(checkout), LOGNAME="newcomer", PATH="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    )
    walk = subprocess.Popen(
        ["bash", "-c", script(lines)],
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = walk.communicate(timeout=500)
    except subprocess.TimeoutExpired:
        os.killpg(walk.pid, signal.SIGKILL)
        told, _ = walk.communicate()
    finally:
        _end_what_is_left(home, walk.pid)
    assert walk.returncode == 0, told + "\n".join(log.read_text() for log in checkout.rglob("worker.log"))
    assert "scheduler" in told


def _end_what_is_left(home: Path, group: int) -> None:
    """The worker where the walk stopped early, and the server, which is in a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    noted = home / ".prefect-dpbayes" / "server.pid"
    if noted.exists():
        with suppress(ProcessLookupError):
            os.kill(int(noted.read_text()), signal.SIGTERM)
