"""What the documents show is run as it stands."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from docs.generate.api import api_reference
from dpbayes_core.experiments.coverage import DEFAULT, OTHER
from tests.support.command import ROOT, clean_environment
from tests.support.faults_page import faults, faults_page
from tests.support.prefect import Orchestrator
from tools import coverage_tables

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WALKED = [each for each in DOCUMENTS if each.name != "newcomer.md"]  # which tests/test_newcomer.py runs
FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#: ]+)(?:#[^)]*)?(?: \"[^\"]*\")?\)")
DRAWN = re.compile(r"^(  \S+ +)-?\d\.\d{4} +-?\d\.\d{4} to +-?\d\.\d{4}", re.MULTILINE)
DECISION = re.compile(r"^\*\*D(\d+)\. \d{4}-\d\d-\d\d .+\*\*\n((?:.+\n)+)", re.MULTILINE)
SECTION = re.compile(r"\]\(([^)#: ]*)#([^)]*)\)")
EXIT = re.compile(r"#.*\bexit (\d)")


def commands(document: Path) -> list[str]:
    lines = "".join(FENCE.findall(document.read_text())).splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def script(lines: list[str]) -> str:
    """A shell script that stops at the first line whose exit code is not the one the document states."""
    steps = []
    for line in lines:
        stated = EXIT.search(line)
        expected = stated[1] if stated else "0"
        steps.append(f'{line}\ncode=$?; [ $code -eq {expected} ] || {{ echo "exit $code: $0" >&2; exit 99; }}')
    return "\n".join(steps)


@pytest.fixture(scope="module")
def server_of_ones_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Prefect server as docs/operations.md has it: saves each command the start of one, except those of README."""
    orchestrator = Orchestrator(tmp_path_factory.mktemp("orchestrator"))
    with orchestrator.server():
        yield orchestrator.environment


@pytest.mark.slow
@pytest.mark.parametrize("document", [each for each in WALKED if commands(each)], ids=lambda each: each.name)
def test_the_commands_of_a_document_do_what_it_says(
    document: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment = clean_environment() if document.name == "README.md" else request.getfixturevalue("server_of_ones_own")
    environment = environment | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", script(commands(document))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.name)
def test_the_python_of_a_document_runs(document: Path) -> None:
    for example in PYTHON.findall(document.read_text()):
        exec(compile(example, str(document), "exec"), {})


def test_the_table_of_coverage_bears_out_what_is_said_of_clipped_and_unclipped_cells() -> None:
    text = (ROOT / "docs" / "coverage.md").read_text()
    cells = [
        [each.strip() for each in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| 1\d*,", line)
    ]
    clipped = [cell for cell in cells if "clipped" in cell[1]]
    assert (len(cells), len(clipped)) == (14, 4)
    assert "in no cell with a clipped response does `collapsed` cover less" in text
    assert all(
        measured(ours) >= measured(exact) for _, _, *found in clipped for ours, exact, _ in (found[:3], found[3:])
    )
    plain = [cell for cell in cells if cell not in clipped]
    least = max(plain, key=lambda cell: measured(cell[3]) - measured(cell[2]))
    assert f"{least[3]} against {least[2]}" in text
    assert min(measured(cell[2]) for cell in plain) >= 0.93


def test_the_measured_cells_that_pages_quote_are_those_of_the_tables() -> None:
    text = (ROOT / "docs" / "coverage.md").read_text()
    assert coverage_tables.summary() in text, "run: make tables"
    assert coverage_tables.tables() in text, "run: make tables"
    assert coverage_tables.missing() in text, "run: make tables"
    stated = {
        (cell[0].strip(), cell[1].strip()): (cell[2].strip(), cell[5].strip())
        for cell in (line.strip("|").split("|") for line in text.splitlines() if re.match(r"\| 1\d*,", line))
    }
    quoted = {
        (f"{cell['rows']:,}", cell["name"]): tuple(
            f"{cell[name]['coverage']:.3f} ± {cell[name]['error']:.3f}" for name in ("slopes", "sigma")
        )
        for cell in coverage_tables.measured(OTHER)
    }
    assert quoted == stated


def test_slopes_are_missed_only_where_the_document_says_so() -> None:
    text = (ROOT / "docs" / "coverage.md").read_text()
    assert "**Bounds of the covariates alone that are too wide make strong slopes miss.**" in text
    assert {group.split()[0] for group in coverage_tables.failing()} == {"covariates"}
    assert not any("expected" in group for group in coverage_tables.failing())
    missed = [cell for cell in coverage_tables.measured(DEFAULT) if cell["not_converged"]]
    assert [(cell["covariates"], cell["guess"]) for cell in missed] == [("skewed", 1.0)]


def measured(cell: str) -> float:
    return float(cell.split()[0])


def test_the_python_reference_is_that_of_the_code() -> None:
    stored = (ROOT / "docs" / "api.md").read_text()
    assert stored == api_reference(), "run: python -m docs.generate.api > docs/api.md"


def test_every_module_that_the_python_surface_names_can_be_imported() -> None:
    stored = (ROOT / "docs" / "api.md").read_text()
    modules = re.findall(r"^## `(dpbayes_core\.[\w.]+)`", stored, re.MULTILINE)
    assert len(modules) >= 5
    for name in modules:
        assert import_module(name).__name__ == name
    asides = re.findall(r"`(from dpbayes_core import (\w+))`", stored)
    assert sorted(name for _, name in asides) == ["accounting", "bayes_net", "evaluation", "sensitivity"]
    for line, _ in asides:
        exec(line)


def test_the_table_of_faults_is_that_of_the_tests_that_bring_them_about() -> None:
    stored = (ROOT / "docs" / "faults.md").read_text()
    assert stored == faults_page(), "run: python -m tests.support.faults_page > docs/faults.md"
    assert all(0 < fault.within <= 300 and fault.exit_code in range(1, 7) for fault, _ in faults())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.name)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        assert (document.parent / target).exists(), f"{document.name}: {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.name)
def test_every_link_to_a_section_finds_its_heading(document: Path) -> None:
    for target, section in SECTION.findall(document.read_text()):
        page = document.parent / target if target else document
        assert section in anchors(page), f"{document.name}: {target}#{section}"


def anchors(page: Path) -> set[str]:
    """The names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.+)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_links_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = set(LINK.findall(index.read_text()))
    assert sorted(page.name for page in index.parent.glob("*.md") if page.name not in {*linked, index.name}) == []


@pytest.mark.slow
def test_the_excerpt_of_the_readme_is_what_the_demo_prints(tmp_path: Path) -> None:
    """Every line of it, in order; only what follows from the noise may differ."""
    (excerpt,) = re.findall(r"^```text\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
    )
    printed = iter(DRAWN.sub(r"\1", done.stdout).splitlines())
    shown = [line for line in DRAWN.sub(r"\1", excerpt).splitlines() if line]
    assert len(shown) > 10
    assert [line for line in shown if line not in printed] == []


def decisions() -> dict[int, str]:
    return {int(number): text for number, text in DECISION.findall((ROOT / "DECISIONS.md").read_text() + "\n")}


def test_decisions_are_numbered_in_their_order() -> None:
    text = (ROOT / "DECISIONS.md").read_text()
    assert [int(number) for number in re.findall(r"^\*\*D?(\d+)", text, re.MULTILINE)] == list(
        range(1, len(decisions()) + 1)
    )


def test_decisions_that_refer_to_each_other_exist_and_agree_on_what_is_superseded() -> None:
    entries = decisions()
    named = {(number, int(other)) for number, text in entries.items() for other in re.findall(r"\bD(\d+)\b", text)}
    assert {other for _, other in named} <= entries.keys()
    later = {(number, other) for number, text in entries.items() for other in _numbers("Supersedes", text)}
    earlier = {(other, number) for number, text in entries.items() for other in _numbers("Superseded by", text)}
    assert later == earlier
    assert later
    assert all(newer > older for newer, older in later)


def _numbers(words: str, text: str) -> list[int]:
    """The decisions named in a sentence that begins so."""
    return [int(each) for line in re.findall(rf"{words} ([^.]*)\.", text) for each in re.findall(r"\bD(\d+)\b", line)]
