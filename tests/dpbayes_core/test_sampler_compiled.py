"""Kernels on disk are never older than what they call."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpbayes_core.compiled import inlined

ROOT = Path(__file__).parent.parent.parent
CALLER = """
from {module} import {name} as kernel
from called import FACTOR, inner

@{decorator}
def outer(x: float) -> float:
    return inner(x) + FACTOR
"""
CALLED = """
from {module} import {name} as kernel

FACTOR = {factor}

@{decorator}
def inner(x: float) -> float:
    return {factor} * x
"""


def run(folder: Path, factor: float, *, module: str, name: str, decorator: str) -> float:
    """Write both modules, the called one with this factor, and run the caller in a process of its own."""
    words = {"module": module, "name": name, "decorator": decorator}
    (folder / "called.py").write_text(CALLED.format(factor=factor, **words))
    if not (folder / "caller.py").exists():
        (folder / "caller.py").write_text(CALLER.format(**words))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": f"{ROOT}:{folder}"}
    command = [sys.executable, "-c", "from caller import outer; print(outer(1.0))"]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_a_change_in_a_called_kernel_reaches_its_callers(tmp_path: Path) -> None:
    ours = {"module": "dpbayes_core.compiled", "name": "compiled", "decorator": "kernel"}
    assert run(tmp_path, 2.0, **ours) == 4.0
    assert list((tmp_path / "cache").rglob("*.nbi")), "nothing was cached: the check says nothing"
    assert run(tmp_path, 3.0, **ours) == 6.0


@pytest.mark.slow
def test_without_that_the_old_machine_code_would_run(tmp_path: Path) -> None:
    numba = {"module": "numba", "name": "njit", "decorator": "kernel(cache=True)"}
    assert run(tmp_path, 2.0, **numba) == 4.0
    assert run(tmp_path, 3.0, **numba) == 4.0, "numba notices by itself now: the extra digest may go"


def test_a_kernel_that_calls_one_defined_below_it_is_refused() -> None:
    space: dict[str, Any] = {}
    exec("def above(x):\n    return below(x)", space)
    with pytest.raises(NameError, match="cannot compile above: below is defined below it"):
        inlined(space["above"])
    space["below"] = abs
    assert inlined(space["above"]) is not None
