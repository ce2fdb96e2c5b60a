"""The page of a status: it says what the document says, loads nothing and fits a telephone."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from dpbayes.pages.status.page import render
from tests.dpbayes.status.status_example import document

HOSTILE = "<script>alert(1)</script>&\"'"


def hostile(value: Any) -> Any:
    """The document with something dangerous in every sentence and name."""
    if isinstance(value, dict):
        return {
            key: _hostile_text(key, each) if isinstance(each, str) else hostile(each) for key, each in value.items()
        }
    return [hostile(each) for each in value] if isinstance(value, list) else value


def _hostile_text(key: str, text: str) -> str:
    kept = ("at", "due", "seen", "began", "next_run", "until", "analysed", "measure", "account")
    return text if key in kept else HOSTILE + text


def test_the_page_says_what_waits_for_a_person_first_and_every_number(tmp_path: Path) -> None:
    page = render(document())
    places = [page.index(f'id="{name}"') for name in ("waits", "studies", "going-on", "budget", "server")]
    assert places == sorted(places)
    for one in document()["waits"]:
        assert one["sentence"] in page
    assert page.count("Its table is not there yet.") == 1
    assert "5 of 28" in page
    assert "pay 2027-03<small>due 2027-04-01</small>" in page
    assert "none up to 2027-12-01" in page
    assert "last sign of life 2026-11-02 08:29 UTC" in page
    assert "58 done, 1 not-converged, 1 waiting" in page
    assert "It is dead." in page


def test_where_nothing_is_there_nothing_is_said() -> None:
    empty = document() | {"studies": [], "waits": [], "budget": [], "server": None, "verdict": "Nothing waits."}
    page = render(empty)
    assert not re.search(r'id="(waits|studies|going-on|budget|server)"', page)


def test_a_server_that_does_not_answer_is_a_sentence() -> None:
    silent = document()
    silent["server"] |= {"answers": False, "sentence": "Prefect's server does not answer."}
    page = render(silent)
    assert "Prefect&#39;s server does not answer." in page
    assert "last sign of life" not in page


def test_the_page_names_nothing_to_load_and_runs_no_script_and_every_text_is_escaped() -> None:
    page = render(hostile(document()))
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"url\(|@import|\son\w+=", page)
    assert render(document()) == render(document())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        missing = "no chromium on this machine: install it to see a status in a browser"
        if os.environ.get("DPBAYES_REQUIRE_REAL_PARTS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [375, 1280])
def test_in_a_browser_it_asks_for_nothing_and_fits(tmp_path: Path, browser: Browser, width: int) -> None:
    path = tmp_path / "status.html"
    path.write_text(render(document()))
    asked: list[str] = []
    sheet = browser.new_page(viewport={"width": width, "height": 900})
    sheet.on("request", lambda request: asked.append(request.url))
    sheet.goto(path.as_uri())
    assert asked == [path.as_uri()]
    assert sheet.evaluate("document.documentElement.scrollWidth") <= width
    assert sheet.locator("svg.states").count() == 2 + 2  # studies with due periods, caps
    assert sheet.locator("svg.states rect.trouble").first.bounding_box()["width"] > 0  # type: ignore[index]
    sheet.close()
