"""What others wrote is shown, never obeyed."""

import json
import re

import pytest

from dpbayes.markup.visible import visible, visible_json, visible_page
from tests.support.command import ROOT

EVIL = [
    "\x1b[2J",  # clears the screen
    "\x9b31m",  # the same in one character
    "\x07\x08\r",
    "\u202e\u2066\u2069\u200f",  # turn letters round
    "\u200b\ufeff\u00ad",  # take no room
    "\u2028\u2029\x85",  # break lines
    "\ue000\U000f0000",  # nobody knows how they look
]


@pytest.mark.parametrize("evil", EVIL)
def test_no_character_that_cannot_be_seen_is_left(evil: str) -> None:
    for shown in (visible(f"a{evil}b"), visible_json({evil: evil}), visible_page(f"<p>{evil}</p>")):
        assert shown.isprintable()
    assert json.loads(visible_json({evil: [evil]})) == {evil: [evil]}


def test_nothing_reaches_people_or_programs_by_another_way() -> None:
    """Tables and errors go through the one screen; what is echoed is made visible first, or is our own."""
    prints = re.compile(r"\b(?:print|echo|secho)\(")
    rooms = [*(ROOT / "flows").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]
    lines = [(path.name, line) for path in rooms for line in path.read_text().splitlines()]
    for name, line in lines:
        if prints.search(line):
            assert "visible" in line or "version" in line or "out.print(table)" in line, (name, line)


def test_what_can_be_seen_is_left_as_it_is() -> None:
    for text in ("plain", "1\u00a0000\u202f€", "naïve Ελλάδα 東京 ±", "[red]loud[/red] :warning:"):
        assert visible(text) == visible_page(text) == text
    assert visible_page("<p>\n</p>") == "<p>\n</p>"
    assert visible("two\nlines") == "two\\nlines"
