"""Disks of the home that are full or read-only, through the command: a sentence, and a second try that works."""

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.surroundings import known
from tests.support.command import dpbayes
from tests.support.desk import PERIOD, Desk
from tests.support.disks import Disk
from tests.support.faults import assert_fault, fault


@pytest.fixture
def disk() -> Iterator[Disk]:
    with Disk.mounted(8) as mounted:
        yield mounted


@pytest.mark.slow
@fault(
    "The disk of the home's `work` folder is full",
    "cannot write .../work...: the disk is full. Free some space and run again.",
    exit_code=1,
    within=30,
)
@pytest.mark.usefixtures("workers")
def test_a_full_disk_under_the_checkpoints(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_HOME", str(disk.folder / "home"))
    monkeypatch.setenv("DPBAYES_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", str(tmp_path / "archive"))
    desk = Desk.set_up(tmp_path)
    desk.release()
    disk.fill()
    result = desk.run("analyse", desk.study, "--period", PERIOD)
    done = subprocess.CompletedProcess[str]([], result.exit_code, result.stdout, result.stderr)
    assert_fault(done, test_a_full_disk_under_the_checkpoints)
    disk.free()
    assert desk.document("analyse", desk.study, "--period", PERIOD)["analyses"][0]["status"] == "converged"


@pytest.mark.slow
@fault(
    "The home is on a disk that is read-only",
    "cannot start Prefect's server: Read-only file system. See that ... can be written.",
    exit_code=1,
    within=30,
)
def test_a_home_that_cannot_be_written(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_HOME", str(disk.folder / "home"))
    desk = Desk.set_up(tmp_path)
    disk.make_read_only()
    done = dpbayes("release", desk.study, "--period", PERIOD, cwd=tmp_path, DPBAYES_HOME=str(disk.folder / "home"))
    assert_fault(done, test_a_home_that_cannot_be_written)
    disk.make_writable()
    assert desk.release()["releases"][0]["status"] == "released"


def test_what_the_system_refuses_is_said_with_its_place_and_its_remedy() -> None:
    denied = known(PermissionError(errno.EACCES, "Permission denied", "/srv/archive/anchors"))
    assert str(denied) == "cannot write /srv/archive/anchors: permission denied. Let its owner write and run again."
    assert "too many files open" in str(known(OSError(errno.EMFILE, "Too many open files")))
    assert "no memory left" in str(known(MemoryError()))
    assert known(ValueError("1.5 is not 2")) is None
