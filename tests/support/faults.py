"""Faults around the program: their tests declare what users see, and docs/faults.md is generated from that."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Fault:
    """What fails around a command, its message, its exit code, and the longest time until then in seconds."""

    name: str
    sentence: str
    exit_code: int
    within: float


def fault(name: str, sentence: str, exit_code: int, within: float) -> Callable[[Test], Test]:
    """Attach a fault to its test; a test may have several."""

    def attach(test: Test) -> Test:
        test.faults = [Fault(name, sentence, exit_code, within), *faults_of(test)]  # type: ignore[attr-defined]
        return test

    return attach


def faults_of(test: Callable[..., Any]) -> list[Fault]:
    """The faults of a test, in the order of its decorators."""
    return list(getattr(test, "faults", []))


def assert_fault(done: subprocess.CompletedProcess[str], test: Callable[..., Any], place: int = 0) -> None:
    """A command ended as the test's decorator says: that sentence, that exit code, and no traceback.

    Where a sentence names what differs from case to case, the decorator writes `...` in its place.
    """
    expected = faults_of(test)[place]
    assert done.returncode == expected.exit_code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert_says(said_by(done), expected.sentence)


def said_by(done: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that failed, whether it was asked for JSON or not."""
    if done.stdout.lstrip().startswith("{"):
        return str(json.loads(done.stdout)["error"]["message"])
    return " ".join(done.stderr.split())


def assert_says(message: str, sentence: str) -> None:
    """The message has all parts of the sentence in their order; `...` stands for anything."""
    begin = 0
    for part in sentence.split("..."):
        found = message.find(part.strip(), begin)
        assert found >= 0, f"{part.strip()!r} is not in {message[begin:]!r}"
        begin = found + len(part.strip())
