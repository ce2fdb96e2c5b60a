"""The page of a plan: it says what the document says, loads nothing and fits a telephone."""

import os
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from dpbayes.markup.numbers import short
from dpbayes.pages.plan.page import render
from dpbayes.pages.plan.precision_plot import Curve, pictures
from dpbayes.pages.plan.runway_plot import PLOT, Bar, Runway
from dpbayes.plans.document import shown_epsilons
from tests.dpbayes.plans.plan_cases import Bureau, regression

MANY_CAPS = "{lifetime: {epsilon: 1.2}, per-period: {epsilon: 1}, programme: {name: labour-statistics, rho: 0.05}}"
HOSTILE = "<script>alert(1)</script>&\"'"


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    return Bureau(tmp_path, MANY_CAPS, (regression("epsilon: 0.4"),)).document()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        missing = "no chromium on this machine: install it to see plans in a browser"
        if os.environ.get("DPBAYES_REQUIRE_REAL_PARTS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.mark.slow
def test_the_page_says_the_verdict_and_every_number_of_the_year(document: dict[str, Any]) -> None:
    page = render(document)
    assert document["verdict"] in page
    assert f"refused by {document['year'][-1]['refused_by']}" in page
    for one in document["year"]:
        assert one["period"] in page


def test_the_page_draws_and_tells_the_predicted_precision_of_every_coefficient(document: dict[str, Any]) -> None:
    page, (release,) = render(document), document["releases"]
    assert page.count('<svg class="width"') == len(release["predicted"]) == 3
    for place, one in enumerate(release["predicted"]):
        assert f'<td class="number">{short(one["sd"], 3)}</td><td class="number">{short(one["interval95"], 3)}' in page
        for point in release["grid"]:
            shown = f'<td class="number wide-only">{short(point["sd"][place], 2)}</td>' in page
            assert shown or point["epsilon"] not in shown_epsilons(release)


def test_a_curve_falls_as_its_numbers_do_and_the_dot_is_on_it() -> None:
    curve = Curve("a", ((0.01, 4.0), (0.1, 2.0), (1.0, 0.1), (10.0, 0.05)), (0.1, 2.0))
    other = Curve("b", ((0.01, 0.2), (0.1, 0.2), (1.0, 0.2), (10.0, 0.2)), None)
    (_, first), (_, flat) = pictures([curve, other], number=0)
    points = [tuple(map(float, pair.split(","))) for pair in re.search(r'points="(.*?)"', first)[1].split()]  # type: ignore[index]
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(points))
    assert f'cx="{points[1][0]:g}" cy="{points[1][1]:g}"' in first
    heights = {pair.split(",")[1] for pair in re.search(r'points="(.*?)"', flat)[1].split()}  # type: ignore[index]
    assert len(heights) == 1
    assert "<circle" not in flat


@pytest.mark.slow
def test_the_same_document_gives_the_same_bytes(document: dict[str, Any]) -> None:
    assert render(document) == render(document)


def test_the_page_names_nothing_to_load_and_runs_no_script(document: dict[str, Any]) -> None:
    page = render(document)
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|<script|url\(|@import|\son\w+=", page)


@pytest.mark.slow
def test_every_text_of_a_document_is_escaped(document: dict[str, Any]) -> None:
    page = render(hostile(document))
    assert HOSTILE not in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_period_that_is_refused_is_announced_first(tmp_path: Path) -> None:
    bureau = Bureau(tmp_path, "{lifetime: {epsilon: 0.3}}", (regression("epsilon: 0.4"),))
    page = render(bureau.document())
    assert page.index("2026-01 would be refused") < page.index("<h1>")
    assert "Ask for epsilon 0.3 or less" in page


@pytest.mark.slow
def test_a_bar_stands_below_the_limit_exactly_where_the_period_fits(document: dict[str, Any]) -> None:
    caps = [one["caps"][0] for one in document["year"]]
    bars = tuple(Bar("p", "refused", cap["after"], cap["asked"], not cap["fits"]) for cap in caps)
    runway = Runway("lifetime", caps[0]["limit"], bars)
    level = runway.height(runway.limit)
    assert level < PLOT
    assert {bar.refusing for bar in bars} == {True, False}
    for bar in bars:
        assert runway.height(bar.after) <= level
        assert (runway.height(bar.asked) > level) == bar.refusing


@pytest.mark.slow
@pytest.mark.parametrize(("grain", "width"), [("month", 375), ("month", 1280), ("quarter", 375), ("day", 375)])
def test_in_a_browser_it_draws_every_cap_asks_for_nothing_and_fits(
    tmp_path: Path, browser: Browser, grain: str, width: int
) -> None:
    bureau = Bureau(tmp_path, MANY_CAPS, (regression("epsilon: 0.4"),)).edited("grain: month", f"grain: {grain}")
    bureau = bureau.edited("0 2 1 * *", "0 2 * * *")
    file = tmp_path / "plan.html"
    document = bureau.document({"month": "2026-01", "quarter": "2026-Q1", "day": "2026-01-01"}[grain])
    file.write_text(render(document))
    page = browser.new_page(viewport={"width": width, "height": 900})
    said, asked = list[str](), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri(), wait_until="load")
    assert (said, asked) == ([], [file.as_uri()])
    assert page.evaluate("document.documentElement.scrollWidth") == width
    drawn = [each.bounding_box() for each in page.query_selector_all("svg.runway")]
    assert len(drawn) == 3
    assert all(box is not None and box["height"] > PLOT and box["width"] > 0.5 * min(width, 700) for box in drawn)
    assert len(page.query_selector_all("svg.runway g")) == 3 * len(document["year"])
    names = page.evaluate("[...document.querySelectorAll('svg.runway text.tick')].map(e => e.getBoundingClientRect())")
    assert all(name["left"] >= 0 and name["right"] <= width for name in names)
    assert all(one["right"] < two["left"] for one, two in pairwise(names) if one["y"] == two["y"])
    page.close()


def hostile(value: Any, key: str = "") -> Any:
    """The same document with hostile words wherever a word may stand."""
    if isinstance(value, dict):
        return {name: hostile(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [hostile(each, key) for each in value]
    decides = key in ("status", "window", "measure")  # words that the page looks up and never shows
    return f"{value}{HOSTILE}" if isinstance(value, str) and not decides else value


@pytest.mark.slow
def test_tables_of_many_widths_fit_a_telephone_too(tmp_path: Path, browser: Browser) -> None:
    more = "  tenure: {bounds: [0, 40]}\n  region: {levels: [north, south-west]}\nprivacy:"
    bureau = Bureau(tmp_path, MANY_CAPS, (regression("epsilon: 0.4"),)).edited("privacy:", more)
    file = tmp_path / "plan.html"
    document = bureau.edited("[age]", "[age, tenure, region]").document()
    file.write_text(render(document))
    page = browser.new_page(viewport={"width": 375, "height": 900})
    page.goto(file.as_uri(), wait_until="load")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    text = page.inner_text("main")
    (release,) = document["releases"]
    for one in release["predicted"]:
        assert one["high_correlation"] is not None
        assert short(one["prior_interval95"], 3) in text
        assert short(one["without_noise"]["interval95"], 3) in text
    for block in release["blocks"]:
        assert block["block"] in text
