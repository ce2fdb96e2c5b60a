"""Writes docs/faults.md from the tests: `python -m tests.support.faults_page > docs/faults.md`."""

from collections.abc import Iterator
from importlib import import_module
from types import FunctionType

from tests.support.command import ROOT
from tests.support.faults import Fault, faults_of

TITLE = """\
# Faults

What may fail around dpbayes, what the command then says, its exit code, and the seconds after which it has said so at
the latest. Generated from the tests that bring each fault about, on real parts: `...` stands for what differs from case
to case, such as an address. With `--json` the same sentence is the `message` of the `error`. In Prefect the run ends in
a failed state with the sentence as its message, where its server is there to be told.

What was charged stays charged once, what was released or archived is kept, and chains go on from their checkpoints: in
every case below the remedy is to mend what the sentence names and to run the same command again.

| what fails | what is said | exit | seconds |
|---|---|---|---|
"""


def faults_page() -> str:
    """One line a fault, by name."""
    return TITLE + "".join(f"{line}\n" for line in sorted({_line(*found) for found in faults()}, key=str.casefold))


def faults() -> Iterator[tuple[Fault, str]]:
    """Every fault that a test brings about, and the test."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "support.faults import" not in path.read_text():
            continue
        place = path.relative_to(ROOT)
        for test in vars(import_module(".".join(place.with_suffix("").parts))).values():
            if isinstance(test, FunctionType):
                yield from ((found, f"{place}::{test.__name__}") for found in faults_of(test))


def _line(found: Fault, test: str) -> str:
    place, name = test.split("::")
    said = found.sentence.replace("|", "\\|")
    return f'| [{found.name}](../{place} "{name}") | {said} | {found.exit_code} | {found.within:g} |'


if __name__ == "__main__":
    print(faults_page(), end="")
