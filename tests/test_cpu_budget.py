"""A fast test that costs too much fails; what only its first run costs, and what is marked slow, does not."""

import subprocess
import sys
from pathlib import Path

from tests.support.command import ROOT, clean_environment

TESTS = """
import time
import pytest

def work(seconds):
    begun = time.process_time()
    while time.process_time() - begun < seconds: pass

def test_dear(): work(0.3)
@pytest.mark.slow
def test_slow(): work(0.3)
def test_dear_once(ran=[]):
    if not ran: work(0.3)
    ran.append(1)
"""

BUDGET = "import tests.support.cpu_budget as own; own.budget = lambda: 0.2; from tests.support.cpu_budget import *"


def test_a_fast_test_above_its_budget_fails_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "test_costs.py").write_text(TESTS)
    (tmp_path / "small_budget.py").write_text(BUDGET)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "small_budget", "--rootdir", tmp_path, tmp_path],
        cwd=ROOT,
        env=clean_environment(PYTHONPATH=f"{tmp_path}:{ROOT}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "0.3 CPU seconds where 0.2 are allowed: make it smaller or mark it slow" in done.stdout
