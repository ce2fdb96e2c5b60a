"""The steward's page shows every count and no value; what others see is the same whatever it says."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from dpbayes.secure.profile import ColumnCounts, GroupProfile, Profile
from dpbayes.secure.read_table import SecurePass, read_statistics
from dpbayes.secure.validation.checks import Expectation, ValidationResult, validate
from dpbayes.secure.validation.page import page, render, validation_of
from dpbayes.study.table_source import WIDEST, ColumnRule, TableSource
from dpbayes_core.bounds import Bounds
from storage.home.vault import Vault
from tests.support.desk import STUDY, Desk, people
from tests.support.small_tables import KEY, STATISTIC, Row, ordinary_rows, source, write

CANARY = "zebra-4711"
TITLE = "wages/2026-01/wage-regression-r1"
ABOUT = {"study": "wages", "account": "staff", "period": "2026-01", "release": "wage-regression", "revision": "1"}
CLEAN: list[Row] = [
    {"person": f"p{place}", "wage": 2.0, "age": 40.0, "female": "no", "region": "south"} for place in range(40)
]
DIRTY = [row | {"wage": None, "region": CANARY, "person": CANARY} for row in CLEAN]


def read(folder: Path, rows: list[Row]) -> tuple[TableSource, SecurePass]:
    table = source(write(folder / "t.parquet", rows, 10))
    return table, read_statistics(table, STATISTIC, key=KEY)


def html(folder: Path, rows: list[Row]) -> str:
    table, done = read(folder, rows)
    return render(done.profile, table, validate(done.profile, table), title=TITLE, about=ABOUT)


def test_a_clean_table_meets_everything(tmp_path: Path) -> None:
    text = html(tmp_path, CLEAN)
    assert "All 13 expectations are met." in text
    assert 'class="no"' not in text
    assert "Batches that needed rules most" not in text


def test_every_kind_of_finding_is_counted_and_no_value_is_shown(tmp_path: Path) -> None:
    text = html(tmp_path, DIRTY)
    assert "expectations are not met." in text
    for words in (
        "wage: 10 missing",
        "region: 10 unknown level",
        "wage, missing: none",
        "rows beyond those that count",
    ):
        assert words in text
    assert "4711" not in text


def test_the_counts_are_those_of_the_profile(tmp_path: Path) -> None:
    table, done = read(tmp_path, ordinary_rows(200, people=60, seed=12))
    shown = page(done.profile, table, validate(done.profile, table), title=TITLE, about=ABOUT)
    record = done.profile.to_record()
    for column in shown.columns:
        kinds = ("nulls", "not_a_number", "out_of_bounds", "unknown_levels")
        counts = [str(record["columns"][column.name][kind]) for kind in kinds]
        assert all(cell.count in ("", count) for cell, count in zip(column.cells, counts, strict=True))
        assert all((cell.met == "no") == (cell.count not in ("", "0")) for cell in column.cells)
    assert dict(shown.facts)["rows"] == "200"


def test_the_page_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    assert html(tmp_path, DIRTY) == html(tmp_path, DIRTY)
    assert repr(page(*_some(), title=TITLE, about=ABOUT)) == "Page(values=withheld)"


def _some() -> tuple[Profile, TableSource, ValidationResult]:
    rules = (
        ColumnRule(name="<script>alert(1)</script>", bounds=Bounds(0, 1), measure="date"),
        ColumnRule(name="x" * 90, levels=tuple("abcdefghij")),
    )
    counts = {rules[0].name: ColumnCounts(nulls=3), rules[1].name: ColumnCounts(unknown_levels=1)}
    groups = tuple(
        GroupProfile(file="<b>.parquet", row_group=place, rows=5, columns=counts, null_units=1) for place in range(300)
    )
    kinds = {rules[0].name: "date32[day]", rules[1].name: "dictionary<values=string, indices=int8, ordered=0>"}
    profile = Profile(types=kinds, groups=groups, duplicate_rows=1200)
    table = TableSource(path="t.parquet", columns=rules, unit="person")
    return profile, table, ValidationResult(ran=True, met=((Expectation(count="rows", at_least=9), False),))


def test_names_are_escaped_and_lists_end(tmp_path: Path) -> None:
    text = render(*_some(), title="<i>", about=ABOUT | {"holder": "<b>"})
    assert "<script>" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    assert "1970-01-01 to 1970-01-02" in text
    assert "dictionary of string" in text
    assert "a, b, c, d, e, f and 4 more" in text
    assert "280 more are in profile.json." in text


def test_a_column_without_bounds_is_shown_as_one() -> None:
    rule = ColumnRule(name="pay", bounds=WIDEST)
    table = TableSource(path="t.parquet", columns=(rule,), unit=None)
    group = GroupProfile(file="t.parquet", row_group=0, rows=1, columns={"pay": ColumnCounts()})
    counted = Profile(types={"pay": "double"}, groups=(group,))
    shown = page(counted, table, validate(counted, table), title=TITLE, about=ABOUT)
    assert [column.declared for column in shown.columns] == [
        "no bounds; missing: becomes the middle, for nothing is stated"
    ]


def test_an_empty_table_and_a_validation_that_did_not_run_have_a_page(tmp_path: Path) -> None:
    table, done = read(tmp_path, [])
    assert "1 of 13 expectations is not met" in html(tmp_path, [])
    text = render(done.profile, table, ValidationResult(ran=False), title=TITLE, about=ABOUT)
    assert "could not be checked" in text


def test_the_vault_holds_the_page_beside_the_counts(tmp_path: Path) -> None:
    table, done = read(tmp_path, DIRTY)
    result = validate(done.profile, table)
    validation_of(done.profile, table, result, place=TITLE, about=ABOUT).keep(Vault(tmp_path / "vault"))
    folder = tmp_path / "vault" / TITLE
    assert sorted(path.name for path in folder.iterdir()) == ["profile.json", "validation.html", "validation.json"]
    assert json.loads((folder / "validation.json").read_text()) == result.to_record()
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_what_a_program_sees_is_the_same_whatever_validation_found(tmp_path: Path) -> None:
    said: list[tuple[int, str]] = []
    for place, dirty in enumerate((False, True)):
        desk = _desk(tmp_path / str(place))
        columns = people(50)
        if dirty:
            columns["pay"] = [None] * 50
            columns["region"] = [CANARY] * 50
        else:
            columns["pay"] = [float(value) for value in columns["pay"]]
        desk.write_table(columns)
        done = desk.run("check", desk.study, "--source", "--period", "2026-01", "--json")
        said.append((done.exit_code, done.output.replace(str(desk.folder), "")))
    assert said[0] == said[1]
    assert said[0][0] == 0


def _desk(folder: Path) -> Desk:
    folder.mkdir(parents=True)
    desk = Desk(folder)
    desk.study.write_text(STUDY)
    return desk


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        missing = "no chromium on this machine: install it to see pages in a browser"
        if os.environ.get("DPBAYES_REQUIRE_REAL_PARTS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_fits_a_screen_and_asks_for_nothing(browser: Browser, tmp_path: Path, width: int) -> None:
    (tmp_path / "page.html").write_text(render(*_some(), title=TITLE, about=ABOUT))
    shown = browser.new_page(viewport={"width": width, "height": 800})
    asked: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(f"file://{tmp_path / 'page.html'}")
    assert asked == [f"file://{tmp_path / 'page.html'}"]
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.locator("svg rect").count() == 2 * 120
    shown.close()
