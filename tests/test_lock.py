"""`make lock`: anybody may run it again; it says what changed, and upgrades nothing that it was not asked to."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT
from tests.support.index import Index, Package
from tools.lock import changes, entries

OFFERED = [
    Package("teapot", "1.0", ("lid", "leaves>=1")),
    Package("teapot", "1.1", ("lid", "leaves>=1")),
    Package("lid", "2.0"),
    Package("lid", "2.1"),
    Package("leaves", "1.0"),
    Package("spoon", "3.0"),
]


class Checkout:
    """A folder in which `make lock` works, with a set-up that is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = Index(folder / "index", OFFERED)
        shutil.copy(ROOT / "Makefile", folder)
        shutil.copytree(ROOT / "tools", folder / "tools")
        self.ask("teapot<2")
        (folder / ".venv").mkdir()

    @property
    def lock_file(self) -> Path:
        return self.folder / "requirements.lock"

    def ask(self, product: str, *, dev: str = "") -> None:
        """What the product needs, and what its development needs besides."""
        wanted = "[project]\nname = 'cup'\nversion = '1'\n"
        extra = f"[project.optional-dependencies]\ndev = {dev.split()}\n"
        (self.folder / "pyproject.toml").write_text(f"{wanted}dependencies = {product.split()}\n{extra}")

    def write_lock(self, **versions: str) -> None:
        self.lock_file.write_text(self.index.lock(versions.items()))

    def pins(self) -> dict[str, str]:
        return {name: version for name, (version, _) in entries(self.lock_file.read_text()).items()}

    def lock(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / ".venv" / ".ready").touch()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
        place = {"UV_DEFAULT_INDEX": self.index.url, "UV_NO_CONFIG": "1", "UV_CACHE_DIR": str(self.folder / "cache")}
        return subprocess.run(
            ["make", "--silent", "lock", f"BIN={Path(sys.executable).parent}", *arguments],
            cwd=self.folder,
            env=kept | place | {"MAKEFLAGS": ""},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    made.write_lock(leaves="1.0", lid="2.0", teapot="1.0")
    return made


def test_a_lock_made_again_is_the_same_although_there_are_newer_versions(checkout: Checkout) -> None:
    before = checkout.lock_file.read_bytes(), checkout.lock_file.stat().st_mtime_ns
    done = checkout.lock()
    assert done.stdout == "requirements.lock is as it was: 3 packages.\n", done.stderr
    assert (checkout.lock_file.read_bytes(), checkout.lock_file.stat().st_mtime_ns) == before


def test_what_is_named_is_upgraded_and_nothing_else(checkout: Checkout) -> None:
    assert checkout.lock("UPGRADE=lid").stdout == "lid: 2.0 -> 2.1\n"
    assert checkout.pins() == {"leaves": "1.0", "lid": "2.1", "teapot": "1.0"}


def test_all_is_upgraded_where_all_is_asked_for(checkout: Checkout) -> None:
    assert checkout.lock("UPGRADE=1").stdout == "lid: 2.0 -> 2.1\nteapot: 1.0 -> 1.1\n"


def test_what_comes_and_goes_is_said(checkout: Checkout) -> None:
    checkout.ask("lid", dev="spoon")
    assert checkout.lock().stdout.splitlines() == [
        "leaves: 1.0 -> gone",
        "spoon: not there -> 3.0",
        "teapot: 1.0 -> gone",
    ]


def test_a_version_whose_files_are_others_is_said() -> None:
    before = "lid==2.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
    assert list(changes(before, before.replace("aa", "cc"))) == ["lid 2.0: other files, 1 came and 1 went"]


def test_a_lock_that_cannot_be_made_leaves_the_old_one(checkout: Checkout) -> None:
    before = checkout.lock_file.read_bytes()
    checkout.ask("teapot>5")
    done = checkout.lock()
    assert done.returncode == 2
    assert "cannot compile pyproject.toml" in done.stderr
    assert checkout.lock_file.read_bytes() == before
    assert not list(checkout.folder.glob(".lock-*"))


def test_a_misspelt_upgrade_is_refused(checkout: Checkout) -> None:
    done = checkout.lock("UPGRADE=taepot")
    assert done.returncode == 2
    assert "cannot upgrade taepot" in done.stderr
    assert checkout.pins()["teapot"] == "1.0"
