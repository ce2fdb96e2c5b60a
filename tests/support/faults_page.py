"""Writes docs/faults.md from the tests: `python -m tests.support.faults_page > docs/faults.md`."""

from collections.abc import Iterator
from importlib import import_module
from types import FunctionType

from tests.support.command import ROOT
from tests.support.faults import Fault, faults_of

TITLE = """\
# Faults

This page lists what may fail around dpbayes: the message of the command, its exit code, and the longest time in seconds
until the message. It is generated from the tests that cause each fault, on real servers, disks and processes. `...`
replaces what differs from case to case, such as an address. With `--json` the same sentence is the `message` of the
`error`. If Prefect's server can be reached, the run ends there in a failed state with the sentence as its message.

What was charged stays charged once, what was released or archived is kept, and chains continue from their checkpoints.
In every case below, correct what the sentence names and run the same command again.

| what fails | message | exit | seconds |
|---|---|---|---|
"""


def faults_page() -> str:
    """The page, with one row per fault by name."""
    return TITLE + "".join(f"{line}\n" for line in sorted({_line(*found) for found in faults()}, key=str.casefold))


def faults() -> Iterator[tuple[Fault, str]]:
    """Every declared fault, with its test."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "support.faults import" not in path.read_text():
            continue
        place = path.relative_to(ROOT)
        for test in vars(import_module(".".join(place.with_suffix("").parts))).values():
            if isinstance(test, FunctionType):
                yield from ((found, f"{place}::{test.__name__}") for found in faults_of(test))


def _line(found: Fault, test: str) -> str:
    place, name = test.split("::")
    sentence = found.sentence.replace("|", "\\|")
    return f'| [{found.name}](../{place} "{name}") | {sentence} | {found.exit_code} | {found.within:g} |'


if __name__ == "__main__":
    print(faults_page(), end="")
