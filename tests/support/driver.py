"""Runs a program that forks in a process of its own, so that the tests' process never forks."""

import json
import subprocess
import sys
from typing import Any

from tests.support.command import ROOT, clean_environment


def drive(module: str, *arguments: object, timeout: float = 1200) -> Any:
    """Run a module; returns the JSON that it prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
