"""Tables for people: whatever the width of a terminal, no number and no name is cut."""

import io
import re

import pytest
from rich.console import Console

from cli import analyse, format

HEADERS = ("coefficient", "period", "mean", "sd", "largest epsilon")
ROWS = [
    ("P(education=school | female=yes)", "2026-01", "0.3931", "0.006245", "7.97"),
    ("region[east]", "", "-1", "0", "1"),
]


def printed(monkeypatch: pytest.MonkeyPatch, width: int, names: int = 1) -> list[str]:
    paper = io.StringIO()
    monkeypatch.setattr(format, "out", Console(file=paper, width=width, soft_wrap=True, highlight=False))
    format.grid("  posterior", HEADERS, ROWS, names=names)
    return paper.getvalue().splitlines()


def test_draws_beyond_those_asked_for_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = io.StringIO()
    monkeypatch.setattr(format, "out", Console(file=paper, width=160, soft_wrap=True, highlight=False))
    analyse.doubled({"asked": 1000, "made": 1000})
    assert paper.getvalue() == ""
    analyse.doubled({"asked": 100, "made": 1600})
    assert paper.getvalue().startswith("  draws:  1,600 of each chain, where 100 were asked for: doubled")


@pytest.mark.parametrize("width", [10, 50, 60, 80, 200])
def test_no_cell_of_a_table_is_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = printed(monkeypatch, width)
    cells = {cell for line in lines for cell in re.split(r"\s{2,}", line.strip())}
    assert cells >= {cell for row in (HEADERS, *ROWS) for cell in row if cell}


@pytest.mark.parametrize("width", [50, 60, 80, 200])
def test_a_line_keeps_within_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    assert max(map(len, printed(monkeypatch, width))) <= width


def test_columns_that_have_no_room_stand_below_beside_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, 60, names=2)
    assert [line.split() for line in lines if line.startswith("region")] == [
        ["region[east]", "-1", "0"],
        ["region[east]", "1"],
    ]
    assert sum("2026-01" in line for line in lines) == 2
    assert len(printed(monkeypatch, 200)) == 1 + 1 + len(ROWS)


@pytest.mark.parametrize(
    ("measure", "spent", "remaining", "explained"),
    [
        ("epsilon-delta", 0.5, 0.8434, True),
        ("epsilon-delta", 0.0, 1.0, False),
        ("rho", 0.5, 0.5, False),
        ("pure-epsilon", None, 0.0, False),
    ],
)
def test_caps_whose_spent_and_remaining_do_not_add_up_say_why(
    monkeypatch: pytest.MonkeyPatch, measure: str, spent: float | None, remaining: float, explained: bool
) -> None:
    paper = io.StringIO()
    monkeypatch.setattr(format, "out", Console(file=paper, width=200, soft_wrap=True, highlight=False))
    cap = {"cap": "lifetime", "period": None, "limit": 1.0, "measure": measure, "delta": 1e-6}
    format.caps("  budget now", [cap | {"spent": spent, "remaining": remaining}])
    assert ("several releases together cost less than the sum" in paper.getvalue()) == explained
