"""A table of more rows than people: every number says which of the two it counts."""

import html
import re
from pathlib import Path

import pytest

from dpbayes.kinds.counted import Counted, alike
from tests.support.desk import PERIOD, Desk, people

PEOPLE, ROWS = 656, 788


@pytest.mark.slow
def test_a_number_of_people_is_never_told_as_one_of_rows(tmp_path: Path, prefect_home: Path) -> None:
    desk = Desk.set_up(tmp_path)
    table = people(ROWS)
    table["person"] = [f"P{place % PEOPLE}" for place in range(ROWS)]
    desk.write_table(table)
    (made,) = desk.release()["releases"]
    assert (made["rows"], made["counted"]) == (PEOPLE, "656 people (one row of each)")
    shown = desk.run("release", desk.study, "--period", PERIOD).output
    assert "656 people (one row of each), a number that is public" in shown
    page = " ".join(re.sub(r"<[^>]*>", " ", html.unescape(Path(made["validation"]).read_text())).split())
    assert f"rows {ROWS} " in page
    assert f"rows that count of all people {PEOPLE} " in page


def test_what_is_counted_follows_from_the_unit_and_its_rows() -> None:
    persons, several, plain = Counted("person", 1), Counted("person", 4), Counted("row", 1)
    assert persons.words("656") == "656 people (one row of each)"
    assert several.words("788") == "788 rows (at most 4 of each person)"
    assert plain.words("788") == "788 rows (each one person’s)"
    assert (alike([persons, persons]), alike([persons, several])) == ("people", "rows")
