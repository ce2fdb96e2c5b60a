"""Real parts that a machine may lack: a test without one is skipped, and fails where every part is promised."""

import os
from typing import NoReturn

import pytest


def missing(part: str, remedy: str) -> NoReturn:
    """End the test for want of a part."""
    words = f"no {part} on this machine: {remedy}"
    if os.environ.get("DPBAYES_REQUIRE_REAL_PARTS") == "1":
        pytest.fail(words)
    pytest.skip(words)
