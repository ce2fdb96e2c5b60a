"""A steward's networks and posterior draws: asked for in the study file, released once, analysed, audited."""

import hashlib
import html
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_core.releases import release_from_record
from tests.support.canaries import places
from tests.support.desk import PERIOD, STUDY, Desk, people
from tests.support.schemas import flaws_of_record

pytestmark = pytest.mark.usefixtures("workers")

NETWORK = """\
  pay-net:
    kind: bayes-net
    nodes: [region, female]
    edges: {female: [region]}
    epsilon: 0.5
  pay-draw:
    kind: posterior-draw
    nodes: [region, female]
    edges: {female: [region]}
    draws: 12
    epsilon: 0.3
  pay-line:
    kind: posterior-draw
    response: pay
    covariates: [age]
    radius: 1
    sigma: 0.3
    epsilon: 0.1
  pay-mode:
    kind: map
    nodes: [region, female]
    floor: 0.05
    epsilon: 0.2
analyses:
  net-posterior:
    release: pay-net
    chains: 2
    draws: 400
"""


def network_desk(folder: Path, *edits: tuple[str, str]) -> Desk:
    """A desk whose study asks for networks."""
    folder.mkdir()
    desk = Desk(folder)
    desk.write_table(people())
    before, rest = STUDY.split("  pay-regression:", 1)
    text = before + NETWORK + "schedule:" + rest.split("schedule:", 1)[1]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    desk.study.write_text(text)
    desk.run("ledger", "create", desk.study)  # which a broken study cannot
    return desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return network_desk(tmp_path_factory.mktemp("networks") / "desk")


@pytest.fixture(scope="module")
def ran(desk: Desk) -> dict[str, Any]:
    return desk.document("run", desk.study, "--period", PERIOD)


def test_a_network_is_released_analysed_and_reported(desk: Desk, ran: dict[str, Any]) -> None:
    assert [one["status"] for one in ran["releases"]] == ["released"] * 4
    (posterior,) = ran["analyses"]
    assert (posterior["status"], posterior["sampler"], posterior["calibrated"]) == (
        "converged",
        "collapsed-tables",
        True,
    )
    found = {line["name"]: line for line in posterior["coefficients"]}
    table = people()
    for region, female in product(("north", "south", "east"), ("no", "yes")):
        inside = np.array(table["region"]) == region
        share = np.mean(np.array(table["female"])[inside] == female)
        line = found[f"P(female={female} | region={region})"]
        assert abs(line["mean"] - share) < 5 * line["sd"]
    page = Path(posterior["report"]).read_text()
    assert 'class="network"' in page
    assert "noisy count" in page


def test_releases_of_every_kind_pass_the_audit(desk: Desk, ran: dict[str, Any]) -> None:
    report = desk.document("audit", desk.home)
    assert report["ok"], [check for check in report["checks"] if not check["ok"]]


def test_records_are_as_their_published_schemas_say(ran: dict[str, Any]) -> None:
    for one in (*ran["releases"], *ran["analyses"]):
        assert flaws_of_record(Path(one["crate"])) == []


@pytest.mark.slow
def test_a_second_run_spends_nothing_and_answers_the_same(desk: Desk, ran: dict[str, Any]) -> None:
    again = desk.document("run", desk.study, "--period", PERIOD)
    assert [one["status"] for one in again["releases"]] == ["already-released"] * 4
    assert [one["digest"] for one in again["releases"]] == [one["digest"] for one in ran["releases"]]
    assert again["analyses"][0]["crate"] == ran["analyses"][0]["crate"]


def test_draws_keep_their_floor_and_have_a_page_of_their_own(ran: dict[str, Any]) -> None:
    released = {one["release"]: one for one in ran["releases"]}
    for name in ("pay-draw", "pay-line", "pay-mode"):
        crate = Path(released[name]["crate"])
        release: Any = release_from_record(json.loads((crate / "release.json").read_text())["statistics"])
        assert release.protected
        page = (crate / "report.html").read_text()
        assert "What protects a person" in page
        first_screen = html.unescape(page[page.index("<body>") : page.index("<main>")])
        assert released[name]["limits"] in first_screen
        assert "not the posterior itself" in first_screen
        if name != "pay-line":
            floors = np.repeat(release.subject.floors, [3, 6] if name == "pay-draw" else [3, 2])
            assert (release.draws() >= floors).all()
    assert (released["pay-net"]["report"], released["pay-net"]["limits"]) == (None, None)


@pytest.mark.slow
def test_the_command_says_what_draws_cannot_be(desk: Desk, ran: dict[str, Any]) -> None:
    shown = desk.run("release", desk.study, "--period", PERIOD).output
    told = {one["release"]: one["limits"] for one in ran["releases"]}
    assert f"limits: {told['pay-draw']}" in shown
    assert shown.count("limits: ") == 3
    plan = desk.run("plan", desk.study, "--period", PERIOD).output
    assert "whatever the table says: drawn from the posterior truncated to them" in plan
    assert "probabilities down to 0.1: would take epsilon" in plan


def test_plan_tells_errors_and_accuracy_before_anything_is_spent(tmp_path: Path) -> None:
    planned = network_desk(tmp_path / "desk").document("plan", tmp_path / "desk" / "study.yaml", "--period", PERIOD)
    terms = {one["name"]: [each["term"] for each in one["foreseen"]] for one in planned["releases"]}
    assert terms["pay-net"] == [
        "Missing values",
        "Table of female",
        "Table of region",
        "Worst cell",
        "Simulated accuracy",
    ]
    assert terms["pay-line"] == ["Missing values", "Power of the likelihood"]
    assert [one["cost"]["epsilon"] for one in planned["releases"]] == [0.5, 0.3, 0.1, 0.2]


@pytest.mark.slow
def test_the_number_of_people_is_not_released_where_people_come_and_go(tmp_path: Path) -> None:
    desk = network_desk(tmp_path / "desk", ("neighbours: replace-one", "neighbours: add-remove"))
    ran = desk.document("run", desk.study, "--period", PERIOD)
    assert [one["rows"] for one in ran["releases"]] == [None] * 4
    assert ran["analyses"][0]["status"] == "converged"
    assert desk.document("audit", desk.home)["ok"]


@pytest.mark.slow
def test_a_network_is_tried_on_public_records(tmp_path: Path) -> None:
    tried = "    release: pay-net\n    test: {path: public.csv, target: region}\n"
    desk = network_desk(tmp_path / "desk", ("    release: pay-net\n", tried))
    (desk.folder / "public.csv").write_text("region,female\n" + "north,no\nsouth,yes\neast,no\nelsewhere,yes\n" * 50)
    (found,) = desk.document("run", desk.study, "--period", PERIOD)["analyses"]
    record = json.loads((Path(found["crate"]) / "posterior.json").read_text())
    assert record["test"]["records"] == 200
    assert record["test"]["accuracy"]["mean"] in (0.25, 0.5, 0.75)  # one guess for each sex
    assert 0 <= record["test"]["accuracy"]["q025"] <= record["test"]["accuracy"]["q975"] <= 1
    assert flaws_of_record(Path(found["crate"])) == []
    assert "200 public records" in Path(found["report"]).read_text()
    (desk.folder / "public.csv").write_text("region,female\nnorth,no\n")
    (other,) = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"]
    assert other["crate"] != found["crate"]
    assert desk.document("audit", desk.home)["ok"]
    (desk.folder / "public.csv").unlink()
    refused = desk.document("analyse", desk.study, "--period", PERIOD, exit_code=2)
    assert "public.csv is not there" in refused["error"]["message"]


MISTAKES = [
    (
        "edges: {female: [region]}\n    epsilon: 0.5",
        "edges: {female: [region], region: [female]}\n    epsilon: 0.5",
        "cycle",
    ),
    (
        "nodes: [region, female]\n    edges: {female: [region]}\n    epsilon",
        "nodes: [region, age]\n    epsilon",
        "has no levels",
    ),
    ("edges: {female: [region]}\n    epsilon: 0.5", "edges: {female: [tenure]}\n    epsilon: 0.5", "tenure is no node"),
    ("    epsilon: 0.5\n", "    mechanism: fourier\n    epsilon: 0.5\n", "does not have two levels"),
    ("    radius: 1\n", "    radius: 1\n    tempering: 0.5\n", "tempering belongs to a network"),
    ("    draws: 12\n", "    draws: 12\n    precision: 2\n", "precision belongs to a regression"),
    ("    release: pay-net", "    release: pay-net\n    sampler: naive", "naive does not take a bayes-net release"),
    ("    floor: 0.05", "    floor: 0.6", "floor of region is not between 0 and 1/3"),
    ("    floor: 0.05", "    floor: 0.05\n    score: density", "moves it without limit"),
    ("    release: pay-net", "    release: pay-draw", "is an answer by itself"),
    ("    release: pay-net", "    release: pay-net\n    test: {path: a.csv, target: regoin}", "Did you mean region?"),
    ("    draws: 400", "    draws: 400\n    prior: {noise: {shape: 3}}", "prior.noise: it is no part of"),
]


@pytest.mark.parametrize(("old", "new", "why"), MISTAKES)
def test_what_cannot_be_is_refused_before_anything_is_read(tmp_path: Path, old: str, new: str, why: str) -> None:
    desk = network_desk(tmp_path / "desk", (old, new))
    desk.table().unlink()
    command = ("run", desk.study, "--period", PERIOD) if "prior" in new else ("check", desk.study)
    if "prior" in new:
        desk.write_table(people())
    assert why in desk.document(*command, exit_code=2)["error"]["message"]


@pytest.mark.parametrize("name", [f"data/pay-{PERIOD}.parquet", "public.parquet"])
def test_the_table_itself_is_no_public_records(tmp_path: Path, name: str) -> None:
    tried = f"    release: pay-net\n    test: {{path: {name}, target: region}}\n"
    desk = network_desk(tmp_path / "desk")
    desk.edit_study("    release: pay-net\n", tried)
    (desk.folder / "public.parquet").symlink_to(desk.table())
    for command in (("check", desk.study), ("run", desk.study, "--period", PERIOD)):
        refused = desk.document(*command, exit_code=2)
        assert "the confidential table" in json.dumps(refused)
    assert places(desk.home / "archive", (hashlib.sha256(desk.table().read_bytes()).hexdigest(),)) == []
    for kind in ("releases", "posteriors"):
        assert not list((desk.home / "archive").glob(f"{kind}/**/*.json")), "refused before anything is paid for"
