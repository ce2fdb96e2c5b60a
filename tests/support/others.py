"""Runs the real command as another user of this machine."""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.command import clean_environment
from tests.support.parts import missing

NOBODY = 65534
SWITCH = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


SYSTEM_PYTHON = Path("/usr/bin/python3.11")
ITS_OWN_LIBRARY = "import sys, encodings; sys.exit(sys.base_prefix != sys.argv[1])"


def require_another_user() -> None:
    """Skip the test, or fail it where every part is promised, on a machine where nobody else can run the command."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        missing("another user to switch to", "run as root, with setpriv from util-linux")
    open_environment()


@cache
def open_environment() -> Path:
    """An environment that every user can run: this one, or its packages on the system's Python if ours is closed."""
    if _others_can_run(Path(sys.executable)):
        return Path(sys.prefix)
    if not SYSTEM_PYTHON.exists() or not _others_can_run(SYSTEM_PYTHON):
        missing("Python 3.11 that other users may run", "install one outside of closed home folders")
    folder = Path(tempfile.mkdtemp(prefix="dpbayes-open-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", folder], check=True)
    packages = Path("lib", "python3.11", "site-packages")
    (folder / packages / "ours.pth").write_text(f"import site; site.addsitedir({str(Path(sys.prefix) / packages)!r})\n")
    for name in ("dpbayes", "prefect"):
        lines = (Path(sys.prefix) / "bin" / name).read_text().splitlines(keepends=True)
        (folder / "bin" / name).write_text("".join([f"#!{folder / 'bin' / 'python'}\n", *lines[1:]]))
        (folder / "bin" / name).chmod(0o755)
    return folder


def _others_can_run(python: Path) -> bool:
    """Whether others can run the interpreter with its own library, and not with another Python's."""
    command = [str(python), "-c", "import sys; print(sys.base_prefix)"]
    base = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run(
        [*SWITCH, str(python), "-c", ITS_OWN_LIBRARY, base], cwd="/", capture_output=True, check=False
    )
    return done.returncode == 0


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="dpbayes-open-"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder)


def as_nobody(*arguments: str | Path, cwd: Path = Path("/"), **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as the user nobody, who owns nothing and has no home of their own."""
    given = clean_environment(HOME="/nonexistent", **environment)
    command = [*SWITCH, str(open_environment() / "bin" / "dpbayes"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=given, capture_output=True, text=True, timeout=300, check=False)


def document_as_nobody(*arguments: str | Path, exit_code: int = 0, **environment: str) -> dict[str, Any]:
    """The JSON document that the command prints."""
    done = as_nobody(*arguments, "--json", **environment)
    assert done.returncode == exit_code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)
