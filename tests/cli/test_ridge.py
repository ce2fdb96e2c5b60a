"""A steward's ridge release and the distributed paper's samplers: asked for in the study file, analysed, audited."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpbayes_core.releases import release_from_record
from tests.support.desk import PERIOD, STUDY, Desk, people
from tests.support.schemas import flaws_of_record

pytestmark = pytest.mark.usefixtures("workers")

RELEASES = """\
  pay-ridge:
    kind: ridge
    response: pay
    covariates: [age]
    epsilon: 0.5
  pay-line:
    kind: regression
    response: pay
    covariates: [age]
    mechanism: gaussian
    epsilon: 0.5
analyses:
  ridge-estimate: {release: pay-ridge, sampler: ada-ssp, chains: 2, draws: 500}
  walked: {release: pay-line, sampler: normal-x, chains: 2, draws: 100}
  plugged: {release: pay-line, sampler: fixed-s-fast, chains: 2, draws: 500}
"""


def ridge_desk(folder: Path, *edits: tuple[str, str], created: int = 0) -> Desk:
    folder.mkdir()
    desk = Desk(folder)
    desk.write_table(people())
    before, rest = STUDY.split("  pay-regression:", 1)
    text = before + RELEASES + "schedule:" + rest.split("schedule:", 1)[1]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    desk.study.write_text(text)
    made = desk.run("ledger", "create", desk.study)
    assert made.exit_code == created, made.output
    return desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Desk:
    return ridge_desk(tmp_path_factory.mktemp("ridge") / "desk")


@pytest.fixture(scope="module")
def ran(desk: Desk) -> dict[str, Any]:
    result = desk.run("run", desk.study, "--period", PERIOD, "--json")
    return json.loads(result.stdout)


@pytest.mark.slow
def test_an_estimate_is_released_reported_and_never_called_calibrated(ran: dict[str, Any]) -> None:
    assert [one["status"] for one in ran["releases"]] == ["released"] * 2
    found = {one["analysis"]: one for one in ran["analyses"]}
    assert {one["sampler"] for one in found.values()} == {"ada-ssp", "normal-x", "fixed-s-fast"}
    assert not any(one["calibrated"] for one in found.values())
    line = {one["name"]: one for one in found["ridge-estimate"]["coefficients"]}
    assert set(line) == {"(intercept)", "age"}
    assert abs(line["age"]["mean"] - 0.04) < 0.03
    page = Path(found["ridge-estimate"]["report"]).read_text()
    assert "no posterior" in page
    assert "least eigenvalue" in page
    assert found["ridge-estimate"]["numbers"] == "spread of the privacy noise"
    assert found["walked"]["numbers"] == "posterior"


@pytest.mark.slow
def test_the_release_is_protected_and_costs_what_was_stated(ran: dict[str, Any]) -> None:
    (made,) = [one for one in ran["releases"] if one["release"] == "pay-ridge"]
    record = json.loads((Path(made["crate"]) / "release.json").read_text())["statistics"]
    release: Any = release_from_record(record)
    assert release.protected
    assert release.mechanism.epsilon == 0.5


@pytest.mark.slow
def test_everything_passes_the_audit_and_its_schemas(desk: Desk, ran: dict[str, Any]) -> None:
    report = desk.document("audit", desk.home)
    assert report["ok"], [check for check in report["checks"] if not check["ok"]]
    for one in (*ran["releases"], *ran["analyses"]):
        assert flaws_of_record(Path(one["crate"])) == []


@pytest.mark.slow
def test_the_posteriors_are_drawn_again_and_the_plan_knows_the_kind(desk: Desk, ran: dict[str, Any]) -> None:
    assert desk.document("audit", desk.home, "--replay")["ok"]
    planned = desk.document("plan", desk.study, "--period", PERIOD)
    assert {one["kind"]: one["status"] for one in planned["releases"]} == {
        "ridge": "already-released",
        "regression": "already-released",
    }


def test_what_would_fail_after_it_was_paid_for_is_refused_before(tmp_path: Path) -> None:
    cases = (
        ("sampler: ada-ssp", "sampler: auto", "no calibrated sampler takes a ridge release"),
        (
            "covariates: [age]\n    epsilon: 0.5\n  pay-line",
            "covariates: [region]\n    epsilon: 0.5\n  pay-line",
            "no bounds",
        ),
        ("neighbours: replace-one", "neighbours: add-remove", "people who have one row"),
        ("sampler: normal-x", "sampler: ada-ssp", "ada-ssp does not take a regression release"),
        (
            "[age]\n    mechanism: gaussian",
            "[age, region]\n    mechanism: gaussian",
            "normal-x takes columns with bounds",
        ),
        ("mechanism: gaussian", "mechanism: laplace", "normal-x does not take a regression release"),
        ("mechanism: gaussian", "mechanism: gaussian\n    intercept: false", "with an intercept only"),
    )
    for place, (old, new, said) in enumerate(cases):
        desk = ridge_desk(tmp_path / str(place), (old, new), created=2)
        assert said in " ".join(desk.run("ledger", "create", desk.study).output.split())
