"""Runs a program that forks: tests never fork the process that runs them all."""

import json
import subprocess
import sys
from typing import Any

from tests.support.command import ROOT, clean_environment


def drive(module: str, *arguments: object, timeout: float = 1200) -> Any:
    """What the program prints as JSON."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
