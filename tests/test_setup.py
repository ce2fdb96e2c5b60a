"""`make setup`: installs what requirements.lock names whatever else an index offers, and never half of it."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.command import ROOT
from tests.support.index import Index, Package
from tools.lock import entries

NOT_LOCKED = {"dpbayes", "pip"}
MACHINES = [
    {"python_version": "3.11", "python_full_version": full, "sys_platform": system, "platform_machine": machine}
    | {"platform_system": system.capitalize(), "os_name": "posix", "implementation_name": "cpython"}
    | {"platform_python_implementation": "CPython"}
    for full in ("3.11.0", "3.11.15")
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
]
Machine = dict[str, str]


def locked() -> dict[str, str]:
    return {name: version for name, (version, _) in entries((ROOT / "requirements.lock").read_text()).items()}


def installed() -> dict[str, Distribution]:
    return {canonicalize_name(each.metadata["Name"]): each for each in distributions(path=[_site_packages()])}


def _site_packages() -> str:
    return next(path for path in sys.path if path.endswith("site-packages") and path.startswith(sys.prefix))


def direct() -> list[Requirement]:
    """What the product needs, its extras but for `evaluation`, and its development."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = stated["optional-dependencies"]
    lines = [*stated["dependencies"], *(line for name in ("s3", "postgres", "dev") for line in extras[name])]
    return [Requirement(line) for line in lines if not line.startswith("dpbayes[")]


def unmet(asked: Iterable[Requirement], lock: dict[str, str], machine: Machine) -> Iterator[str]:
    """Requirements that the lock does not meet, of what is asked and of everything that it brings, extras included."""
    known = installed()
    waiting = [(requirement, "what is asked") for requirement in asked]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, asker = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in lock or not requirement.specifier.contains(lock[name], prereleases=True):
            yield f"{asker} asks for {requirement}"
            continue
        for extra in {"", *requirement.extras} - {extra for each, extra in seen if each == name}:
            seen.add((name, extra))
            for text in known[name].requires or []:
                wanted = Requirement(text)
                applies = wanted.marker is None or wanted.marker.evaluate(machine | {"extra": extra})
                if applies and (extra == "" or "extra" in str(wanted.marker)):
                    waiting.append((wanted, name))


def test_this_environment_is_what_the_lock_names() -> None:
    found = {name: each.version for name, each in installed().items() if name not in NOT_LOCKED}
    assert found == locked(), "run: make setup"


@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: "-".join(list(each.values())[1:4]))
def test_the_lock_meets_every_requirement_of_everything_in_it(machine: Machine) -> None:
    assert list(unmet(direct(), locked(), machine)) == []


def test_the_check_of_the_lock_sees_what_only_an_extra_asks_for() -> None:
    lock = locked()
    del lock["greenlet"]  # of sqlalchemy[asyncio], which Prefect asks for; `pip check` looks at no extra
    assert any("greenlet" in each for each in unmet(direct(), lock, MACHINES[0]))


def test_the_check_of_the_lock_sees_what_only_an_early_python_needs() -> None:
    lock = locked()
    del lock["async-timeout"]
    assert [list(unmet(direct(), lock, machine)) != [] for machine in MACHINES] == [True] * 3 + [False] * 3


def newer(version: str) -> str:
    return f"{Version(version).base_version}.post999"


OUTSIDE = ("PIP_", "UV_", "VIRTUAL_ENV", "MAKE", "MFLAGS")  # a make below another prints more


def surroundings(index: Index, **more: str) -> dict[str, str]:
    """An environment in which pip and uv know this index and no other."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTSIDE)}
    nowhere = {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "PIP_NO_CACHE_DIR": "1"}
    return kept | nowhere | {"PIP_INDEX_URL": index.url, "UV_DEFAULT_INDEX": index.url} | more


@pytest.fixture(scope="module")
def next_year(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Index]:
    """A checkout whose lock pins what ours does, and an index that offers something newer of every package."""
    folder = tmp_path_factory.mktemp("next-year")
    found = {name: each for name, each in installed().items() if name not in NOT_LOCKED}
    packages = [
        Package(name, version, tuple(each.requires or ()), tuple(each.metadata.get_all("Provides-Extra") or ()))
        for name, each in found.items()
        for version in (each.version, newer(each.version))
    ]
    index = Index(folder / "index", packages)
    assert all(Version(newer(each.version)) > Version(each.version) for each in found.values())
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / "requirements.lock").write_text(index.lock((name, each.version) for name, each in found.items()))
    return folder, index


def make(folder: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=folder, capture_output=True, text=True, timeout=500, check=False, **more
    )


def steps_of_setup(folder: Path, index: Index) -> list[str]:
    """The Makefile's own commands up to the install of the lock."""
    told = make(folder, "--dry-run", "setup", f"PYTHON={sys.executable}", env=surroundings(index))
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    return lines[: next(number for number, line in enumerate(lines) if "--require-hashes" in line) + 1]


def shell(folder: Path, index: Index, *lines: str) -> subprocess.CompletedProcess[str]:
    script = "\n".join(("set -e", *lines))
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=surroundings(index), capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_lock_is_installed_although_everything_has_a_newer_version(next_year: tuple[Path, Index]) -> None:
    folder, index = next_year
    steps = steps_of_setup(folder, index)
    done = shell(folder, index, *steps, ".venv/bin/python -m pip check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No broken requirements" in done.stdout
    there = {
        canonicalize_name(each.metadata["Name"]): each.version
        for each in distributions(path=[str(folder / ".venv" / "lib" / "python3.11" / "site-packages")])
    }
    assert {name: version for name, version in there.items() if name != "pip"} == locked()

    as_it_was = steps[-1].replace(" --no-deps", "")
    assert as_it_was != steps[-1]
    refused = shell(folder, index, *steps[:-1], as_it_was)
    assert refused.returncode != 0
    assert "must have their versions pinned" in refused.stderr


@pytest.mark.slow
def test_a_set_up_that_fails_leaves_nothing_that_is_taken_for_ready(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    index = Index(tmp_path / "index", [])
    (tmp_path / "requirements.lock").write_text(f"nowhere==1 \\\n    --hash=sha256:{'0' * 64}\n")
    ready = tmp_path / ".venv" / ".ready"
    ready.parent.mkdir()
    ready.touch()
    os.utime(ready, (0, 0))  # of an earlier lock
    (tmp_path / ".venv" / "half").touch()  # and what a killed one left
    arguments = ("setup", f"PYTHON={sys.executable}")
    done = make(tmp_path, *arguments, env=surroundings(index))
    assert (done.returncode, "nowhere" in done.stderr) == (2, True), done.stderr
    assert not ready.exists()
    assert not (tmp_path / ".venv" / "half").exists()
    assert "--require-hashes" in make(tmp_path, "--dry-run", *arguments, env=surroundings(index)).stdout


def other_python(folder: Path) -> str:
    """A Python of this machine that is not 3.11, or else one that says it is not."""
    homes = Path.home().glob(".pyenv/versions/3.1[0234]*/bin/python")
    for name in (*map(str, homes), *(f"python3.{minor}" for minor in (14, 13, 12, 10, 9)), "/usr/bin/python3"):
        asked = [name, "-c", "import sys; sys.exit(sys.version_info[:2] == (3, 11))"]
        if shutil.which(name) and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return name
    disguised = folder / "python3.12"
    disguised.write_text(f"#!{sys.executable}\nimport sys\nsys.version_info = (3, 12, 0)\nexec(sys.argv[2])\n")
    disguised.chmod(0o755)
    return str(disguised)


@pytest.mark.parametrize("kind", ["another", "none"])
def test_setup_with_the_wrong_python_says_so_and_makes_nothing(tmp_path: Path, kind: str) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    python = other_python(tmp_path) if kind == "another" else "python-that-nobody-installed"
    done = make(tmp_path, "setup", f"PYTHON={python}", env=surroundings(Index(tmp_path / "index", [])))
    assert done.returncode == 2
    assert "make setup PYTHON=/path/to/python3.11" in done.stderr
    assert not (tmp_path / ".venv").exists()
