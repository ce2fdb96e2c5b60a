"""Every threat that the threat model names has a control, and every test it quotes is there."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "threat-model.md"
QUOTED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
UNFINISHED = re.compile(r"tests/[\w/]+\.py(?!::\w+`)")


@cache
def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def missing(text: str) -> list[str]:
    """Quoted tests that do not exist."""
    found = []
    for name, test in QUOTED.findall(text):
        if not (ROOT / name).is_file() or test not in names_in(ROOT / name):
            found.append(f"{name}::{test}")
    return found


def threats(text: str) -> list[list[str]]:
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if QUOTED.search(row[-1])]


def test_every_test_that_is_quoted_exists() -> None:
    text = DOCUMENT.read_text()
    assert len(QUOTED.findall(text)) > 50
    assert missing(text) == []
    assert not UNFINISHED.search(text)


def test_every_threat_has_a_control_and_a_test() -> None:
    listed = DOCUMENT.read_text().split("## Threats and controls")[1].split("## Out of scope")[0]
    rows = [line for line in listed.splitlines() if line.startswith("|") and not line.startswith(("| threat", "|---"))]
    assert len(rows) == len(threats(listed)) > 30
    assert all(len(row) == 3 and all(row) for row in threats(listed))


def test_a_test_that_is_not_there_would_be_noticed() -> None:
    assert missing("`tests/test_threat_model.py::test_that_was_renamed`") != []
    assert missing("`tests/test_that_was_moved.py::test_it`") != []
