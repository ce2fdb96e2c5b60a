"""Posterior probabilities and quantiles of columns without bounds: from the study file to the audit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes.study.load import load_study
from tests.support.desk import PERIOD, STUDY, Desk, people
from tests.support.schemas import flaws_of_record

pytestmark = pytest.mark.usefixtures("workers")

ROWS = 20_000

QUESTIONS = """\
  age-effect:
    kind: posterior-probability
    response: pay
    covariates: [age, female]
    coefficient: age
    thresholds: [0.038, 0.04, 0.042]
    subsets: 100
    epsilon: 3
  gap:
    kind: posterior-quantile
    response: pay
    covariates: [age, female]
    coefficient: female[yes]
    probabilities: [0.025, 0.975]
    outer: [-20, 20]
    subsets: 400
    epsilon: 1
analyses:
  age-answer: {release: age-effect, chains: 2, draws: 500}
  gap-answer: {release: gap, chains: 2, draws: 500}
"""


def question_desk(folder: Path, *edits: tuple[str, str]) -> Desk:
    """A desk whose table has no bounds on pay and age, and whose study asks about both."""
    folder.mkdir()
    desk = Desk(folder)
    columns = people(ROWS)
    columns["pay"][:3] = [np.inf, np.nan, 1e300]  # one person each, whatever they wrote
    desk.write_table(columns, rows_per_group=6000)
    before, rest = STUDY.split("  pay-regression:", 1)
    text = before + QUESTIONS + "schedule:" + rest.split("schedule:", 1)[1]
    for old, new in (
        ("rows: 2000", f"rows: {ROWS}"),
        ("{bounds: [0, 10]}", "{unbounded: true}"),
        ("{bounds: [16, 80]}", "{unbounded: true}"),
        ("per-period: {epsilon: 2}", "per-period: {epsilon: 6}"),
        *edits,
    ):
        assert old in text
        text = text.replace(old, new)
    desk.study.write_text(text)
    desk.run("ledger", "create", desk.study)
    return desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return question_desk(tmp_path_factory.mktemp("subsample") / "desk")


@pytest.fixture(scope="module")
def ran(desk: Desk) -> dict[str, Any]:
    return desk.document("run", desk.study, "--period", PERIOD)


@pytest.mark.slow
def test_answers_come_with_what_the_noise_leaves_of_them(ran: dict[str, Any]) -> None:
    assert [one["status"] for one in ran["releases"]] == ["released"] * 2
    answers = {one["analysis"]: one for one in ran["analyses"]}
    assert all(one["status"] == "converged" and one["calibrated"] for one in answers.values())
    assert [line["name"] for line in answers["age-answer"]["coefficients"]] == [
        "P(age <= 0.038)",
        "P(age <= 0.04)",
        "P(age <= 0.042)",
    ]
    gap = {line["name"]: line for line in answers["gap-answer"]["coefficients"]}
    assert list(gap) == ["female[yes]", "female[yes][q0.025]", "female[yes][q0.975]"]
    assert 'class="curve"' in Path(answers["age-answer"]["report"]).read_text()


def test_records_are_as_their_published_schemas_say(ran: dict[str, Any]) -> None:
    for one in (*ran["releases"], *ran["analyses"]):
        assert flaws_of_record(Path(one["crate"])) == []


@pytest.mark.slow
def test_the_audit_passes_and_a_second_run_spends_nothing(desk: Desk, ran: dict[str, Any]) -> None:
    report = desk.document("audit", desk.home)
    assert report["ok"], [check for check in report["checks"] if not check["ok"]]
    again = desk.document("run", desk.study, "--period", PERIOD)
    assert [one["digest"] for one in again["releases"]] == [one["digest"] for one in ran["releases"]]
    assert {one["status"] for one in again["releases"]} == {"already-released"}


def test_plan_says_beforehand_what_cannot_be_resolved(tmp_path: Path) -> None:
    desk = question_desk(tmp_path / "desk", ("epsilon: 3", "epsilon: 0.3"))
    foreseen = desk.document("plan", desk.study, "--period", PERIOD)["releases"][0]["foreseen"]
    assert any("UNRESOLVABLE" in one["value"] for one in foreseen)


MISTAKES = [
    ("subsets: 100", "subsets: 1000", "Declare 666 or fewer"),
    ("    outer: [-20, 20]\n", "", "no outer bounds are declared"),
    ("subsets: 400\n    epsilon: 1", "subsets: 20\n    epsilon: 1", "their product is below 30"),
    ("    epsilon: 3", "    method: fisher\n    least: 0.5\n    epsilon: 3", "between 0 and 0.5"),
    ("coefficient: age", "coefficient: aeg", "age-effect.coefficient: cannot ask about aeg"),
    ("subsets: 100", "subsets: 1000", "age-effect.subsets: cannot split"),
    ("    subsets: 400\n", "    subsets: 400\n    prior: {kind: flat, g: 7}\n", "g is no part of a flat prior"),
    ("response: pay", "response: region", "has levels, and a response must be a number"),
]


@pytest.mark.parametrize(("old", "new", "why"), MISTAKES)
def test_what_public_facts_rule_out_is_refused_before_anything_is_read(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    desk = question_desk(tmp_path / "desk", (old, new))
    assert why in desk.document("check", desk.study, exit_code=2)["error"]["message"]
    assert not desk.home.joinpath("vault").exists()


def test_the_declared_rows_are_a_part_of_what_is_released(tmp_path: Path) -> None:
    desk = question_desk(tmp_path / "desk")
    before = load_study(desk.study).request("gap", PERIOD).hash
    desk.edit_study(f"rows: {ROWS}", f"rows: {ROWS + 1}")
    assert load_study(desk.study).request("gap", PERIOD).hash != before


def test_bounds_clip_nothing_here(tmp_path: Path) -> None:
    desk = question_desk(tmp_path / "desk", ("pay: {unbounded: true}", "pay: {bounds: [0, 1]}"))
    rules = {rule.name: rule for rule in load_study(desk.study).table("gap", PERIOD).columns}
    assert rules["pay"].bounds == rules["age"].bounds
    assert rules["pay"].null_value == 0.5
