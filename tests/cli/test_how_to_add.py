"""docs/how-to-add.md taken at its word: its made-up files and lines in a copy of the tree, run as the real thing."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import ROOT, clean_environment

slow = pytest.mark.slow
MADE_UP = ROOT / "tests" / "support" / "made_up"
HUNK = re.compile(r"^```diff\n(\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROOMS = ("dpbayes_core", "storage", "dpbayes", "tasks", "flows", "cli", "examples", "tests")
MOST_LINES = {"A mechanism": 3, "A kind of release": 3, "A sampler": 2, "A command": 1, "A section of a report": 2}
CONTRACTS = (
    "tests/dpbayes_core/test_mechanism_contract.py",
    "tests/dpbayes/kinds/test_registry.py",
    "tests/laws/test_samplers_contract.py",
)
LEAST_TESTS = {"tulap-0": 11, "shares": 3, "latent-shares": 8}
SHARES = {"north": 0.5, "south": 0.35, "east": 0.15}
ROWS, PERIOD = 4000, "2026-01"
STUDY = """\
study: regions
population: staff
source: {path: "data/{period}.parquet", rows: 4000, unit: person}
period: {grain: month, people: same}
columns:
  region: {levels: [north, south, east]}
privacy: {neighbours: replace-one, budget: {lifetime: {pure-epsilon: 2}}}
releases:
  by-region: {kind: shares, column: region, epsilon: 1}
analyses:
  shares: {release: by-region, sampler: latent-shares, chains: 2, draws: 500}
schedule: {cron: "0 2 1 * *"}
"""


def sections() -> dict[str, list[tuple[str, list[str]]]]:
    """The hunks of each section of the page: the file, and its lines."""
    parts = re.split(r"^## ", (ROOT / "docs" / "how-to-add.md").read_text(), flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: [(file, text.splitlines()) for file, text in HUNK.findall(part)] for part in parts}


def before(lines: list[str]) -> str:
    return "".join(f"{line[1:]}\n" for line in lines if line[0] == " ")


def apply(tree: Path, file: str, lines: list[str]) -> None:
    after = "".join(f"{line[1:]}\n" for line in lines)
    (tree / file).write_text((tree / file).read_text().replace(before(lines), after))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source to which everything made up was added as the page says; kernels stay compiled."""
    copy = tmp_path_factory.mktemp("added") / "tree"
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("golden", "made_up"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    shutil.copytree(MADE_UP, copy, dirs_exist_ok=True)
    for hunks in sections().values():
        for file, lines in hunks:
            apply(copy, file, lines)
    return copy


def python(tree: Path, cwd: Path, *arguments: str, code: int = 0) -> str:
    environment = clean_environment(PYTHONPATH=str(tree), PREFECT_HOME=os.environ["PREFECT_HOME"])
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def desk(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, random = tmp_path_factory.mktemp("desk"), np.random.default_rng(5)
    (folder / "data").mkdir()
    (folder / "study.yaml").write_text(STUDY)
    regions = random.choice(list(SHARES), ROWS, p=list(SHARES.values())).tolist()
    table = {"person": [f"P{number:05d}" for number in range(ROWS)], "region": regions}
    pq.write_table(pa.table(table), folder / "data" / f"{PERIOD}.parquet")
    dpbayes(tree, folder, "ledger", "create", "study.yaml")
    return folder


def dpbayes(tree: Path, desk: Path, *arguments: str) -> dict[str, Any]:
    return json.loads(python(tree, desk, "-m", "cli", *arguments, "--json"))


@pytest.fixture(scope="module")
def ran(tree: Path, desk: Path) -> dict[str, Any]:
    return dpbayes(tree, desk, "run", "study.yaml", "--period", PERIOD)


def test_the_page_registers_where_the_tree_has_what_it_says() -> None:
    assert sections().keys() == MOST_LINES.keys()
    for file, lines in (hunk for hunks in sections().values() for hunk in hunks):
        assert (ROOT / file).read_text().count(before(lines)) == 1, f"{file} does not have {before(lines)}"


@pytest.mark.parametrize("title", MOST_LINES)
def test_registering_takes_few_lines_outside_of_what_was_made(title: str) -> None:
    lines = [line for file, hunk in sections()[title] for line in hunk if not _for_tests(title, file)]
    assert 1 <= sum(line.startswith("+") for line in lines) <= MOST_LINES[title]


def _for_tests(title: str, file: str) -> bool:
    """Examples for contract tests are counted of mechanisms only, whose file has nothing else around it."""
    return file.startswith("tests/") and title != "A mechanism"


@slow
def test_a_made_up_kind_is_checked_and_planned(tree: Path, desk: Path) -> None:
    (checked,) = dpbayes(tree, desk, "check", "study.yaml")["releases"]
    assert checked["mechanism"] == "tulap"
    (planned,) = dpbayes(tree, desk, "plan", "study.yaml")["releases"]
    assert (planned["kind"], planned["mechanism"], planned["cost"]["epsilon"]) == ("shares", "tulap", 1.0)
    assert {"term": "Noise on a share", "value": "± 0.0007"} in planned["foreseen"]


@slow
def test_it_is_released_charged_and_analysed(tree: Path, desk: Path, ran: dict[str, Any]) -> None:
    (release,), (analysis,) = ran["releases"], ran["analyses"]
    assert (release["status"], analysis["status"], analysis["sampler"]) == ("released", "converged", "latent-shares")
    found = {line["name"]: line["mean"] for line in analysis["coefficients"]}
    assert found == pytest.approx(SHARES, abs=0.04)
    (account,) = dpbayes(tree, desk, "ledger", "show")["accounts"]
    assert [cap["spent"] for cap in account["caps"]] == [1.0]
    again = dpbayes(tree, desk, "run", "study.yaml", "--period", PERIOD)
    assert [one["status"] for one in again["releases"]] == ["already-released"]


@slow
def test_its_report_says_what_was_released(ran: dict[str, Any]) -> None:
    page = Path(ran["analyses"][0]["report"]).read_text()
    for words in ("Shares of region", "Tulap noise, drawn independently", "Noise on a count", "Lists of levels"):
        assert words in page


@slow
def test_its_crates_are_audited_clean_down_to_the_draws(tree: Path, desk: Path, ran: dict[str, Any]) -> None:
    audited = dpbayes(tree, desk, "audit", "--replay")
    assert audited["ok"]
    assert "the draws are those of a replay" in {check["check"] for check in audited["checks"]}


@slow
def test_an_audit_of_it_can_fail(tree: Path, desk: Path, ran: dict[str, Any], tmp_path: Path) -> None:
    altered = tmp_path / "desk"
    shutil.copytree(desk, altered)
    record = altered / Path(ran["releases"][0]["crate"]).relative_to(desk) / "release.json"
    text = record.read_text()
    assert '"moved":2' in text
    record.chmod(0o644)
    record.write_text(text.replace('"moved":2', '"moved":1'))
    found = json.loads(python(tree, altered, "-m", "cli", "audit", "--json", code=5))
    assert not found["ok"]


@slow
def test_the_contracts_take_what_was_made(tree: Path) -> None:
    chosen = "(tulap or shares or every_mechanism) and not another_process"  # which would run all samplers
    said = python(tree, tree, "-m", "pytest", *CONTRACTS, "-p", "no:cacheprovider", "-v", "-k", chosen)
    passed = re.findall(r"::(\w+)\[(?:optimist-|clueless-)?(tulap-0|latent-shares|shares)\] PASSED", said)
    taken = {made: len({test for test, own in passed if own == made}) for made in LEAST_TESTS}
    assert all(taken[made] >= least for made, least in LEAST_TESTS.items()), taken


@slow
def test_the_made_up_command_lists_the_made_up_kind(tree: Path, desk: Path) -> None:
    assert dpbayes(tree, desk, "kinds")["kinds"]["shares"] == ["latent-shares"]
