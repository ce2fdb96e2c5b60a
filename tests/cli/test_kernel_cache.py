"""numba runs the machine code that it finds: what others may write is not where it looks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from tasks.kernel_cache import PACKAGES, SETTING, keep_kernels_private
from tests.support.command import ROOT, clean_environment, dpbayes

WHERE = "import flows; from numba import config; from dpbayes_core import siphash; print(config.CACHE_DIR)"


@pytest.fixture(autouse=True)
def numba_keeps_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test here tells numba ends with it: later tests of this process would compile every kernel anew."""
    monkeypatch.setattr(config, "CACHE_DIR", config.CACHE_DIR)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    root = tmp_path / "installed"
    for package in PACKAGES:
        (root / package / "__pycache__").mkdir(parents=True)
    return root


def test_kernels_stay_where_their_user_alone_can_write(installed: Path, home: Path) -> None:
    settings = {"HOME": str(home)}
    assert keep_kernels_private(settings, installed) is None
    assert SETTING not in settings
    named = {"HOME": str(home), SETTING: str(home / "kernels")}
    assert keep_kernels_private(named, installed) is None
    assert named[SETTING] == str(home / "kernels")


@pytest.mark.parametrize("place", ["dpbayes_core", "dpbayes_core/__pycache__", "storage/__pycache__/x.nbi", "."])
def test_kernels_that_others_could_write_are_not_looked_for(installed: Path, home: Path, place: str) -> None:
    (installed / "storage/__pycache__/x.nbi").touch()
    (installed / place).chmod(0o777)
    settings = {"HOME": str(home)}
    told = keep_kernels_private(settings, installed)
    kept = home / ".cache" / "dpbayes" / "kernels"
    assert told is not None
    assert told.startswith(f"Compiled kernels are kept in {kept}: others could write those in {installed}")
    assert settings[SETTING] == str(kept)
    assert kept.stat().st_mode & 0o777 == 0o700
    assert keep_kernels_private(settings, installed) is None


@pytest.mark.parametrize("name", ["open", "not-there", "open/not-there"])
def test_a_setting_that_others_could_write_is_not_followed(installed: Path, home: Path, name: str) -> None:
    shared = installed.parent / "shared"
    (shared / "open").mkdir(parents=True)
    (shared / "open").chmod(0o777)
    shared.chmod(0o777)
    settings = {"HOME": str(home), SETTING: str(shared / name)}
    assert keep_kernels_private(settings, installed) is not None
    assert Path(settings[SETTING]).is_relative_to(home)


def test_a_link_to_kernels_of_somebody_else_is_not_followed(installed: Path, home: Path) -> None:
    planted = installed.parent / "planted"
    planted.mkdir()
    planted.chmod(0o777)
    (home / "kernels").symlink_to(planted)
    settings = {"HOME": str(home), SETTING: str(home / "kernels")}
    assert keep_kernels_private(settings, installed) is not None


@pytest.mark.slow
def test_the_command_keeps_its_kernels_to_itself(home: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    told = dpbayes("--version", cwd=tmp_path, HOME=str(home), XDG_CACHE_HOME="", **{SETTING: str(shared)})
    kept = f"{home}/.cache/dpbayes/kernels"
    assert told.stderr == f"Compiled kernels are kept in {kept}: others could write those in {shared}.\n"
    environment = clean_environment(HOME=str(home), XDG_CACHE_HOME="", **{SETTING: str(shared)})
    seen = subprocess.run([sys.executable, "-c", WHERE], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert seen.stdout == f"{kept}\n"
    assert not list(shared.iterdir())
    assert os.listdir(home / ".cache" / "dpbayes") == ["kernels"]
