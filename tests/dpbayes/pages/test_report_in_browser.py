"""The report in a real browser: it draws everything, asks for nothing and fits a telephone."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from dpbayes.crates.posterior import posterior_record
from dpbayes.crates.release import release_record
from dpbayes.pages.report.render import render
from dpbayes_core.arrays import Floats
from tests.dpbayes.crates.crate_examples import STAMP, analysis, drawn, of, posterior_draws, small_entry

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)
PICTURES = 8 + 2 * 8 + 2  # coefficients, traces and ranks, caps
LONG = "a_column_whose_name_nobody_shortened_and_that_has_no_place_to_break_at_all"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        missing = "no chromium on this machine: install it to see reports in a browser"
        if os.environ.get("DPBAYES_REQUIRE_REAL_PARTS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return small_entry(tmp_path_factory.mktemp("ledger"))


def write(entry: dict[str, Any], folder: Path, draws: dict[str, Floats] | None = None, **others: Any) -> Path:
    posterior = drawn(draws or posterior_draws(), of(entry).evidence.digest, **others)
    naive = replace(posterior, sampler="naive", draws={name: values * 0.9 for name, values in posterior.draws.items()})
    record = posterior_record(analysis(), posterior, naive, of(entry))
    fingerprint = "SHA256:" + "0a" * 32
    page = render([release_record(entry)], record, posterior.draws, fingerprint=fingerprint, software=STAMP.software)
    path = folder / "report.html"
    path.write_text(page)
    return path


class Visit:
    """An open page with everything it asked for and complained about."""

    def __init__(self, browser: Browser, path: Path, width: int) -> None:
        self.page: Page = browser.new_page(viewport={"width": width, "height": 900})
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri(), wait_until="load")

    def overflow(self) -> int:
        """Pixels that the page is too wide."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def boxes(self, selector: str) -> list[dict[str, float]]:
        """Where the elements are drawn."""
        found = [each.bounding_box() for each in self.page.query_selector_all(selector)]
        return [dict(box) if box else {"width": 0.0, "height": 0.0} for box in found]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Any]:
    opened: list[Visit] = []

    def open_page(path: Path, width: int) -> Visit:
        opened.append(Visit(browser, path, width))
        return opened[-1]

    yield open_page
    for each in opened:
        each.page.close()


@pytest.mark.parametrize("width", [375, 1280])
def test_everything_is_drawn_and_nothing_else_is_asked_for(
    visit: Any, entry: dict[str, Any], tmp_path: Path, width: int
) -> None:
    path = write(entry, tmp_path)
    seen: Visit = visit(path, width)
    assert seen.said == []
    assert seen.asked == [path.as_uri()]
    assert seen.overflow() <= 0
    tables = seen.boxes("table")
    assert len(tables) == 4
    assert all(box["width"] > 200 and box["height"] > 50 for box in tables)
    pictures = seen.boxes("svg[role=img]:visible" if width > 640 else "svg[role=img]:not(.budget-bar)")
    assert len(pictures) == (PICTURES if width > 640 else PICTURES - 2)
    assert all(box["width"] > 30 and box["height"] > 10 for box in pictures)


def test_every_mark_of_the_forest_plot_lies_inside_its_picture(
    visit: Any, entry: dict[str, Any], tmp_path: Path
) -> None:
    seen: Visit = visit(write(entry, tmp_path), 375)
    marks = seen.page.evaluate(
        """() => [...document.querySelectorAll('svg.forest-row')].flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('circle, line.aware, text')].map(mark => {
                const box = mark.getBoundingClientRect();
                return box.left >= frame.left - 1 && box.right <= frame.right + 1;
            });
        })"""
    )
    assert len(marks) > 50
    assert all(marks)


def test_tick_labels_never_run_into_each_other(visit: Any, entry: dict[str, Any], tmp_path: Path) -> None:
    seen: Visit = visit(write(entry, tmp_path), 375)
    gaps = seen.page.evaluate(
        """() => [...document.querySelectorAll('svg.forest-row')].flatMap(svg => {
            const boxes = [...svg.querySelectorAll('text.tick')].map(text => text.getBoundingClientRect());
            return boxes.slice(1).map((box, k) => box.left - boxes[k].right);
        })"""
    )
    assert gaps
    assert min(gaps) > 2


def test_the_warning_is_the_first_thing_seen(visit: Any, entry: dict[str, Any], tmp_path: Path) -> None:
    apart = posterior_draws(drift=1.0)
    seen: Visit = visit(write(entry, tmp_path, apart), 375)
    (banner,) = seen.boxes(".banner")
    (title,) = seen.boxes("h1")
    assert banner["y"] < title["y"]
    assert banner["y"] < 100
    assert banner["height"] > 60


def test_names_without_a_place_to_break_do_not_widen_the_page(
    visit: Any, entry: dict[str, Any], tmp_path: Path
) -> None:
    statistics = json.loads(entry["release"])
    statistics["schema"]["covariates"][0]["name"] = LONG
    statistics["schema"]["covariates"][3]["levels"][1] = LONG
    draws = posterior_draws()
    draws[LONG] = draws.pop("age")
    draws[f"region[{LONG}]"] = draws.pop("region[south]")
    hostile = {**entry, "release": json.dumps(statistics)}
    seen: Visit = visit(write(hostile, tmp_path, draws, caveat=LONG * 3), 375)
    assert seen.overflow() <= 0


def test_text_has_contrast_enough_to_be_read(visit: Any, entry: dict[str, Any], tmp_path: Path) -> None:
    """WCAG AA: 4.5 to 1 for every text against the paper or its box."""
    seen: Visit = visit(write(entry, tmp_path), 1280)
    colours = seen.page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter(e => [...e.childNodes].some(
            n => n.nodeType === 3 && n.textContent.trim())).map(e => {
                let box = e, back = 'rgba(0, 0, 0, 0)';
                while (box && back === 'rgba(0, 0, 0, 0)') {
                    back = getComputedStyle(box).backgroundColor; box = box.parentElement;
                }
                const style = getComputedStyle(e);
                return [e instanceof SVGElement ? style.fill : style.color, back];
            })"""
    )
    assert len(colours) > 200
    assert min(contrast(*pair) for pair in {tuple(pair) for pair in colours}) >= 4.5


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
