"""Regressions through zero with a norm: rows shrunk to it may leave their columns' bounds, and that is paid for."""

import json
from pathlib import Path

import pytest

from dpbayes_core.regression.release import Release
from dpbayes_core.regression.sensitivity import box as sensitivity
from dpbayes_core.releases import release_from_record
from storage.home.signatures import Signer
from tests.support.desk import PERIOD, Desk

SECTION = (
    "  through-zero: {kind: regression, response: pay, covariates: [age, grade], intercept: false, "
    "norm: {covariates: 1.1, response: 1}, mechanism: gaussian, epsilon: 0.5}\n"
)


@pytest.fixture
def desk(tmp_path: Path, prefect_home: Path) -> Desk:
    """A study whose columns' bounds are far from 0."""
    desk = Desk.set_up(tmp_path)
    head, _, _ = desk.study.read_text().partition("releases:\n")
    head = head.replace("age: {bounds: [16, 80]}", "age: {bounds: [64, 80]}\n  grade: {bounds: [9, 10]}")
    desk.study.write_text(f"{head}releases:\n{SECTION}")
    desk.write_table({"person": ["a", "b"] * 1000, "pay": [5.0] * 2000, "age": [70.0] * 2000, "grade": [9.5] * 2000})
    return desk


def planned(desk: Desk) -> float:
    (release,) = desk.document("plan", desk.study, "--period", PERIOD)["releases"]
    return release["sensitivity"]


@pytest.mark.slow
def test_an_earlier_versions_release_stays_as_charged_and_audits_say_what_it_may_cost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(sensitivity, "lowest_once_shrunk", sensitivity.lowest_of)
        sensitivity.regression_sensitivity.cache_clear()
        first, was = desk.release()["releases"][0], planned(desk)
    sensitivity.regression_sensitivity.cache_clear()

    again = desk.release()["releases"][0]
    assert (again["status"], again["digest"], again["cost"]) == ("already-released", first["digest"], first["cost"])
    statistics = release_from_record(json.loads((Path(first["crate"]) / "release.json").read_text())["statistics"])
    assert isinstance(statistics, Release)
    assert not statistics.protected
    assert statistics.understated == pytest.approx(planned(desk) / was)
    assert statistics.understated > 1.05

    report = desk.document("audit", desk.home)
    assert report["ok"], [check for check in report["checks"] if not check["ok"]]
    said = {check["check"]: check["detail"] for check in report["checks"]}
    for check in ("releases are as digested", "the charge is priced and protects"):
        assert "an earlier version took too small a sensitivity" in said[check]
        assert "times the rho it is charged" in said[check]
    key = Signer.load(desk.home / "keys").fingerprint
    alone = desk.document("audit", "--crate", first["crate"], "--key", key)
    assert alone["ok"], [check for check in alone["checks"] if not check["ok"]]
    assert "times the rho it is charged" in json.dumps(alone)
