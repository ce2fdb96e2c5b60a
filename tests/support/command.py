"""The real `dpbayes` command in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

DPBAYES = [str(Path(sys.executable).parent / "dpbayes")]
ROOT = Path(__file__).parent.parent.parent


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without settings of dpbayes and Prefect, and with `more`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("DPBAYES_", "PREFECT_"))} | more


def dpbayes(
    *arguments: str | Path, cwd: Path, check: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in `cwd`, in a clean environment."""
    done = subprocess.run(
        [*DPBAYES, *map(str, arguments)],
        cwd=cwd,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    if check:
        assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def document(*arguments: str | Path, cwd: Path, **environment: str) -> dict[str, Any]:
    """The JSON document of a command that must succeed."""
    return json.loads(dpbayes(*arguments, "--json", cwd=cwd, check=True, **environment).stdout)
