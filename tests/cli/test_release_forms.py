"""Regressions of other forms go from the study file through check, plan and release to published records."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from dpbayes.audit import pages as audit_pages
from dpbayes.crates import deployments_registry as registry
from dpbayes_core.privacy.accounting import limit_units
from dpbayes_core.regression.release import Release
from dpbayes_core.releases import release_from_record
from tests.support.desk import PERIOD, Desk, people
from tests.support.schemas import flaws_of_record

FORMS = {
    "through-zero": "intercept: false, mechanism: gaussian",
    "through-zero-laplace": "intercept: false, mechanism: laplace",
    "fourth": "moments: fourth, split: {second: 0.7, fourth: 0.3}, mechanism: gaussian",
    "fourth-laplace": "moments: fourth, mechanism: laplace",
    "robust": "robust: true, mechanism: gaussian",
    "robust-laplace": "robust: true, mechanism: laplace",
    "ball": "norm: {covariates: 0.9, response: 0.7}, mechanism: gaussian",
    "ball-through-zero": "intercept: false, norm: {covariates: 1.1, response: 1}, mechanism: gaussian",
}
SECTION = "  {name}: {{kind: regression, response: pay, covariates: [age, rank], {form}, epsilon: 0.2}}\n"
TABLE = people() | {"rank": np.random.default_rng(1).normal(0, 1, 2000)}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Desk:
    desk = Desk.set_up(tmp_path_factory.mktemp("desk"))
    study = desk.study.read_text()
    head, _, tail = study.partition("releases:\n")
    _, _, tail = tail.partition("analyses:\n")
    _, _, tail = tail.partition("schedule:")
    head = head.replace("  female: {levels", "  rank: {bounds: [-2, 2]}\n  female: {levels")
    sections = "".join(SECTION.format(name=name, form=form) for name, form in FORMS.items())
    desk.study.write_text(f"{head}releases:\n{sections}schedule:{tail}")
    desk.write_table(TABLE)
    return desk


@pytest.fixture(scope="module")
def crates(desk: Desk) -> dict[str, Path]:
    return {one["release"]: Path(one["crate"]) for one in desk.release()["releases"]}


@pytest.mark.slow
def test_a_study_of_all_forms_is_checked_and_planned(desk: Desk) -> None:
    assert desk.run("check", desk.study).exit_code == 0
    planned = desk.document("plan", desk.study, "--period", PERIOD)
    assert {one["name"] for one in planned["releases"]} == set(FORMS)


@pytest.mark.slow
def test_records_are_as_their_published_schemas_say_and_pass_the_audit(desk: Desk, crates: dict[str, Path]) -> None:
    assert crates.keys() == FORMS.keys()
    for crate in crates.values():
        assert flaws_of_record(crate) == []
    report = desk.document("audit", desk.home)
    assert report["ok"], [check for check in report["checks"] if not check["ok"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_every_page_and_document_states_what_all_parts_of_a_release_cost(
    desk: Desk, crates: dict[str, Path], name: str
) -> None:
    (told,) = [one for one in desk.release()["releases"] if one["release"] == name]
    stated = YAML(typ="safe").load((crates[name] / "registry.yaml").read_text())["deployment"]
    assert told["cost"]["epsilon"] == stated["privacy_loss"]["privacy_parameters"]["epsilon"] == pytest.approx(0.2)
    if "laplace" in name:
        assert float(stated["dp_flavor"]["bound_on_output_distance"]) == told["cost"]["epsilon"]
    steps = stated["implementation"]["mechanisms"].count("noise of scale")
    assert steps == (2 if "robust" in name or "fourth" in name else 1)


def release_in(crate: Path) -> Release:
    release = release_from_record(json.loads((crate / "release.json").read_text())["statistics"])
    assert isinstance(release, Release)
    assert release.protected
    return release


@pytest.mark.parametrize("name", FORMS)
def test_what_is_released_are_the_sums_of_the_form_with_its_noise(crates: dict[str, Path], name: str) -> None:
    release = release_in(crates[name])
    exact = plain_moments(FORMS[name])
    noise = release.matrix() - exact
    assert noise.shape == exact.shape
    reach = 9 if release.mechanism.name == "gaussian" else 30  # one in a million million releases is beyond
    assert np.abs(noise).max() < reach * release.mechanism.scales.max()
    assert np.abs(noise[-1]).max() > 0


@pytest.mark.parametrize("name", ["fourth", "fourth-laplace"])
def test_third_and_fourth_moments_are_released_beside_the_second_with_their_share(
    crates: dict[str, Path], name: str
) -> None:
    release, age, rank = release_in(crates[name]), (np.clip(TABLE["age"], 16, 80) - 48) / 32, TABLE["rank"]
    assert release.fourth is not None
    columns = [np.ones(2000), age, np.clip(rank, -2, 2) / 2]
    exact = [np.prod([columns[place] for place in entry], axis=0).sum() for entry in release.fourth.entries]
    reach = 9 if release.mechanism.name == "gaussian" else 30
    assert (np.abs(release.fourth.moments - exact) < reach * release.fourth.scales + 0.1).all()
    record = json.loads((crates[name] / "release.json").read_text())
    if name == "fourth-laplace":
        assert record["cost"]["readable"]["epsilon"] == "0.2"
        assert release.mechanism.to_record()["epsilon"] == 0.16
    assert record["definition"]["split"] == (
        {"second": "0.8", "fourth": "0.2"} if "laplace" in name else {"second": "0.7", "fourth": "0.3"}
    )


@pytest.mark.parametrize("name", ["robust", "robust-laplace"])
def test_sums_weighed_by_residuals_are_released_of_the_same_rows_with_their_share(
    crates: dict[str, Path], name: str
) -> None:
    release = release_in(crates[name])
    assert release.residuals is not None
    fit, noise = release.residuals.fit, release.residuals.mechanism
    columns = [(np.clip(TABLE[name], *box) - sum(box) / 2) * 2 / (box[1] - box[0]) for name, box in BOXES.items()]
    rows, response = np.column_stack([np.ones(2000), *columns[:2]]), columns[2]
    weights = np.minimum(np.abs(response - rows @ np.array(fit.coefficients)) / fit.limit, 1) ** 2
    exact = (rows * weights[:, None]).T @ rows
    reach = 9 if noise.name == "gaussian" else 30
    values = [exact[entry] for entry in release.residuals.entries]
    assert (np.abs(np.array(release.residuals.values) - values) < reach * noise.scales + 0.1).all()
    record = json.loads((crates[name] / "release.json").read_text())
    assert record["definition"]["robust"] == {"moments": "0.9", "residuals": "0.1"}
    if name == "robust-laplace":
        assert record["cost"]["readable"]["epsilon"] == "0.2"
        assert (release.mechanism.to_record()["epsilon"], noise.to_record()["epsilon"]) == (0.18, 0.02)
    else:
        whole = int(record["cost"]["rho"])
        assert whole == release.mechanism.cost().rho == limit_units(release.mechanism.rho) + limit_units(noise.rho)


BOXES = {"age": (16, 80), "rank": (-2, 2), "pay": (0, 10)}


def plain_moments(form: str) -> np.ndarray[Any, Any]:
    """The same in plain numpy from the raw table."""
    columns = [np.clip(TABLE[name], *box) for name, box in (("age", (16, 80)), ("rank", (-2, 2)), ("pay", (0, 10)))]
    if "intercept" in form:
        rows = np.column_stack(columns) / [80, 2, 10]
    else:
        rows = (np.column_stack(columns) - [48, 0, 5]) / [32, 2, 5]
    if "norm" in form:
        radius, height = (1.1, 1.0) if "intercept" in form else (0.9, 0.7)
        lengths = np.linalg.norm(rows[:, :2], axis=1, keepdims=True)
        rows[:, :2] *= np.minimum(1, radius / lengths)
        rows[:, 2] = np.clip(rows[:, 2], -height, height)
    if "intercept" not in form:
        rows = np.column_stack([np.ones(len(rows)), rows])
    return rows.T @ rows


REFUSED = {
    "covariates: [age, female], intercept: false, mechanism: gaussian": "named levels",
    "covariates: [age, female], norm: {covariates: 1, response: 1}, mechanism: gaussian": "named levels",
    "covariates: [age], norm: {covariates: 0.5, response: 1}, mechanism: gaussian": "bounds already do",
    "covariates: [age, rank], norm: {covariates: 1, response: 1}, mechanism: laplace": "no other",
    "covariates: [age, rank], norm: {covariates: 1, response: 2}, mechanism: gaussian": "at most 1",
    "covariates: [age, rank], norm: {covariates: 1}, mechanism: gaussian": "response",
    "covariates: [age, rank], moments: fourth, intercept: false, mechanism: gaussian": "go with an intercept",
    "covariates: [female], moments: fourth, mechanism: gaussian": "tell all that there is",
    "covariates: [age, city], moments: fourth, mechanism: gaussian": "more than 30 covariates",
    "covariates: [age, rank], moments: fourth, robust: true, mechanism: gaussian": "shared with one of them",
    "covariates: [age, rank], intercept: false, robust: true, mechanism: gaussian": "goes with an intercept",
    "covariates: [age, rank], split: {second: 0.5, fourth: 0.5}, mechanism: gaussian": "nothing to share",
    "covariates: [age, rank], moments: fourth, split: {second: 0.5, fourth: 0.4}, mechanism: gaussian": "add up to 1",
}


@pytest.mark.parametrize("asked", REFUSED)
def test_a_form_that_makes_no_sense_is_refused_in_one_sentence(tmp_path: Path, desk: Desk, asked: str) -> None:
    text = desk.study.read_text()
    many = ", ".join(f"c{number}" for number in range(40))
    text = text.replace("columns:\n", f"columns:\n  city: {{levels: [{many}]}}\n")
    start, end = text.index("releases:\n"), text.index("schedule:")
    section = f"releases:\n  r: {{kind: regression, response: pay, {asked}, epsilon: 0.2}}\n"
    study = tmp_path / "study.yaml"
    study.write_text(text[:start] + section + text[end:])
    refused = desk.run("check", study)
    assert refused.exit_code == 2
    assert REFUSED[asked] in refused.output
    assert "Traceback" not in refused.output


@pytest.mark.slow
def test_a_crate_of_a_version_that_stated_the_epsilon_of_one_part_passes_with_a_remark(
    tmp_path: Path, prefect_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk.set_up(tmp_path)
    desk.edit_study("mechanism: gaussian", "mechanism: laplace\n    robust: true")
    desk.write_table(TABLE)
    with monkeypatch.context() as earlier:
        earlier.setattr(registry, "stated_epsilon", lambda record: record["mechanism"].get("epsilon"))
        (made,) = desk.release()["releases"]
    assert "epsilon: 0.9\n" in (Path(made["crate"]) / "registry.yaml").read_text()
    assert not desk.document("audit", desk.home, exit_code=5)["ok"], "this very program states what all parts cost"
    monkeypatch.setattr(audit_pages, "makes_the_same", lambda software: False)
    found = desk.document("audit", desk.home)
    assert found["ok"], [check for check in found["checks"] if not check["ok"]]
    assert "the epsilon of the release's first part (0.9) in place of what all its parts cost (1)" in json.dumps(found)
