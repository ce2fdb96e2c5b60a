"""A study whose prior names its law, from plan to replay."""

import html
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import dpbayes.crates
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.expected_prior import expected_prior
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.planning.expected_moments import Expected
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from tests.support.desk import PERIOD, Desk

SCHEMA = Path(dpbayes.crates.__file__).parent / "schemas" / "posterior-3.json"
SCHEMA_OF_PAY = RegressionSchema(Continuous("pay", Bounds(0, 10)), (Continuous("age", Bounds(16, 80)),))
CONJUGATE = "{law: conjugate, intercept: {sd: 10}, coefficients: {sd: 1.5}, noise: {shape: 1, scale: 0.1}}"


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_a_study_of_either_law_is_planned_run_analysed_and_replayed(desk: Desk) -> None:
    desk.edit_study("covariates: [age, female, region]", "covariates: [age]")
    desk.edit_study("draws: 500", "draws: 200")
    desk.edit_study("chains: 2", f"prior: {CONJUGATE}\n    chains: 2")
    assert predicted(desk, "law: conjugate")
    assert desk.run("run", desk.study, "--period", PERIOD).exit_code == 0
    (stated,) = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"]
    record = json.loads((Path(stated["crate"]) / "posterior.json").read_text())
    assert record["request"]["prior"] == Prior().to_record()
    assert "law" not in record["request"]["prior"]
    assert "changed" not in stated

    conjugate = predicted(desk, "law: conjugate")
    desk.edit_study(CONJUGATE, "{law: independent}")
    assert predicted(desk, "law: independent") != conjugate
    (named,) = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"]
    assert not named["already_analysed"]
    assert "changed" not in named  # somebody chose the law
    record = json.loads((Path(named["crate"]) / "posterior.json").read_text())
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(record)
    assert named["sampler"] == "collapsed"
    assert record["request"]["prior"] == IndependentPrior().to_record()
    page = html.unescape(Path(named["report"]).read_text())
    assert "half widths of the response’s bounds" in page
    assert "residual standard deviation gamma" in page
    assert named["prior_check"]["parameters"][-1]["name"] == "sigma"

    desk.edit_study("prior: {law: independent}\n    ", "")
    (unstated,) = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"]
    assert unstated["already_analysed"]
    assert unstated["crate"] == named["crate"] != stated["crate"]
    assert "the default is law: independent now" in unstated["changed"]
    assert unstated["earlier"] == stated["crate"]
    shown = desk.run("analyse", desk.study, "--period", PERIOD).output
    assert "state prior: {law: conjugate} to have it again" in " ".join(shown.split())
    desk.edit_study("chains: 2", "prior: {law: conjugate}\n    chains: 2")
    (again,) = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"]
    assert again["already_analysed"]
    assert again["crate"] == stated["crate"]

    audit = desk.document("audit", desk.study, "--replay")
    replays = [check for check in audit["checks"] if check["check"] == "the draws are those of a replay"]
    assert audit["ok"]
    assert [check["detail"].endswith("the same, bit for bit") for check in replays] == [True, True]


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_a_study_that_expects_something_is_analysed_in_its_units_and_told_what_changed(desk: Desk) -> None:
    desk.edit_study("covariates: [age, female, region]", "covariates: [age]")
    desk.edit_study("draws: 500", "draws: 200")
    predicted(desk, "law: independent)")
    assert desk.run("run", desk.study, "--period", PERIOD).exit_code == 0
    before, _ = analysed(desk)
    text = (Path(before["crate"]) / "posterior.json").read_bytes()

    desk.edit_study("pay: {bounds: [0, 10]}", "pay: {bounds: [0, 10], expect: {mean: 3, sd: 1.2}}")
    predicted(desk, "law: independent, in units of what is expected")
    only, prior = analysed(desk)
    assert prior == expected_prior(SCHEMA_OF_PAY, {"pay": Expected(3, 1.2)}).to_record()
    assert "default is law: independent, in units of what the study expects of its columns, now" in only["changed"]
    assert "in half widths of the bounds, stays as it is: state prior: {law: independent}" in only["changed"]
    assert (only["earlier"], only["already_analysed"]) == (before["crate"], False)
    assert (Path(before["crate"]) / "posterior.json").read_bytes() == text

    desk.edit_study("age: {bounds: [16, 80]}", "age: {bounds: [16, 80], expect: {mean: 44, sd: 15}}")
    both, prior = analysed(desk)
    assert prior["named"] == [["age", 0.0, pytest.approx(2 * 1.2 / 5 * 32 / 15)]]
    assert "what it expects of its columns, in units of which the default is, has changed" in both["changed"]
    assert both["earlier"] == only["crate"]
    assert "age around 0 with standard deviation 0.16" in html.unescape(Path(both["report"]).read_text())
    assert any("measured cell" in fact or "nearest cell" in fact for fact in both["facts"])

    desk.edit_study("chains: 2", "prior: {law: independent}\n    chains: 2")
    again, _ = analysed(desk)
    assert (again["crate"], again["already_analysed"]) == (before["crate"], True)
    assert "changed" not in again
    assert desk.document("audit", desk.study, "--replay")["ok"]


def analysed(desk: Desk) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `analyse` says, and the prior's record in its crate."""
    (found,) = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"]
    return found, json.loads((Path(found["crate"]) / "posterior.json").read_text())["request"]["prior"]


def predicted(desk: Desk, law: str) -> list[Any]:
    """Intervals of the prior alone, of a plan that says which law it takes."""
    release = desk.document("plan", desk.study, "--period", PERIOD)["releases"][0]
    assert any(law in said["value"] for said in release["foreseen"])
    return [one["prior_interval95"] for one in release["predicted"]]


@pytest.mark.parametrize(
    ("prior", "said"),
    [("{coefficients: {sd: 1}}", True), ("{law: conjugate, coefficients: {sd: 1}}", False), (None, False)],
)
def test_check_says_under_which_law_a_prior_without_one_is_read(desk: Desk, prior: str | None, said: bool) -> None:
    if prior is not None:
        desk.edit_study("chains: 2", f"prior: {prior}\n    chains: 2")
    (one,) = desk.document("check", desk.study)["analyses"]
    shown = " ".join(desk.run("check", desk.study).stdout.split())
    assert (one["prior"] is not None) == ("the conjugate law is used with its units" in shown) == said


def test_samplers_that_draw_under_the_conjugate_law_only_are_refused_before_anything_is_paid_for(desk: Desk) -> None:
    desk.edit_study("chains: 2", "prior: {law: independent}\n    sampler: gibbs-ss-prior\n    chains: 2")
    error = desk.document("check", desk.study, exit_code=2)["error"]
    assert "gibbs-ss-prior takes no prior with law: independent" in error["message"]


def test_a_law_that_is_none_is_refused_with_its_line(desk: Desk) -> None:
    desk.edit_study("chains: 2", "prior: {law: normal}\n    chains: 2")
    error = desk.document("check", desk.study, exit_code=2)["error"]
    assert "law" in error["message"]
    assert "independent" in error["message"]
