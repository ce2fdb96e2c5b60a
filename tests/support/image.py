"""The files of deploy/, as their own tools would read them, with stand-ins for what only a container has."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.command import ROOT
from tests.support.others import open_environment
from tests.support.parts import missing

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
SCRIPTS = ("with-secrets", "healthy")
UNCHECKED = "no linter on this machine: "


def linter(*commands: str, ask: str = "--version") -> list[str]:
    """The first of these commands that this machine has; without one the test is skipped, with their names."""
    for command in commands:
        words = command.split()
        if shutil.which(words[0]) and subprocess.run([*words, ask], capture_output=True).returncode == 0:
            return words
    pytest.skip(UNCHECKED + " or ".join(commands))


def made_secrets(folder: Path) -> Path:
    """The folder of secrets that deploy/make-secrets makes, or completes."""
    if shutil.which("openssl") is None:
        missing("openssl", "install it")
    subprocess.run([DEPLOY / "make-secrets", folder], check=True, capture_output=True, timeout=60)
    return folder


def read(name: str) -> dict[str, Any]:
    """A YAML file of deploy/."""
    return YAML(typ="safe").load(DEPLOY / name)


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, in their order: the word and its arguments."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage, from its FROM on; what stands before the first is left out."""
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions(DOCKERFILE.read_text()):
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest))
    return found


@dataclass(frozen=True)
class Image:
    """What the Dockerfile's first stage builds, in a folder of this machine in place of /opt/dpbayes."""

    folder: Path

    @property
    def programs(self) -> Path:
        """The programs of the environment that was built."""
        return self.folder / "dpbayes" / "bin"

    def build(self, environment: Mapping[str, str]) -> None:
        """Copy and run what the first stage copies and runs, with a Python that every user may run."""
        place = self.folder / "build"
        place.mkdir()
        shim = self.folder / "base"
        shim.mkdir()
        (shim / "python").write_text(f"#!/bin/sh\nset -e\n{self._venv()}\n")
        (shim / "python").chmod(0o755)
        there = {**environment, "PATH": f"{shim}:/usr/bin:/bin", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        for word, rest in stages()[0]:
            if word == "COPY":
                copied(rest, place)
            elif word == "RUN":
                command = rest.replace("/opt/dpbayes", str(self.folder / "dpbayes")).replace(" --no-cache-dir", "")
                done = subprocess.run(["sh", "-c", command], cwd=place, env=there, capture_output=True, text=True)
                assert done.returncode == 0, command + done.stdout + done.stderr

    def _venv(self) -> str:
        """What `python -m venv FOLDER` of the base image does: Debian's Python makes none with pip."""
        asked = [open_environment() / "bin" / "python", "-c", "import sys; print(sys.base_prefix)"]
        base = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        ours = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, text=True, check=True)
        pip = (
            f"{shlex.quote(sys.executable)} -m pip --python $3/bin/python install --quiet pip=={ours.stdout.split()[1]}"
        )
        return f"{base}/bin/python3.11 -m venv --without-pip $3\n{pip}"


def copied(rest: str, place: Path) -> None:
    """One COPY of a build, from the checkout."""
    *sources, target = [each for each in rest.split() if not each.startswith("--")]
    for source in sources:
        if (ROOT / source).is_dir():
            kept = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", ".*")
            shutil.copytree(ROOT / source, place / target, ignore=kept)
        else:
            shutil.copy(ROOT / source, place / target)


def entries(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar of a document with the path of keys to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from entries(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from entries(inner, f"{path}/{number}")
    else:
        yield path, value
