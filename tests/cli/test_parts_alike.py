"""Several releases whose people are, or are not, said to be dealt out to them at random: from check to audit."""

import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes.audit import parts as audit_parts
from dpbayes.audit.definition import analysis_problem
from dpbayes.audit.parts import OTHERWISE, TRIED, read_as_requested
from dpbayes.crates import posterior as crate_posterior
from dpbayes.crates.analysis_request import AnalysisRequest
from dpbayes.crates.contained_releases import evidence_of, sources_of
from dpbayes.crates.files import load
from dpbayes.kinds.regression import prior
from dpbayes.kinds.regression.pooled_parts import parts_record
from dpbayes_core.regression import pool
from tests.cli.test_pooled import ANALYSIS, arrivals, fetched, key_of, release
from tests.support.desk import Desk, people
from tests.support.offices import offices
from tests.support.schemas import flaws_of_record

pytestmark = pytest.mark.usefixtures("workers", "prefect_home")

PERIODS = ("2026-01", "2026-02")
LAST = PERIODS[-1]
QUICK = ("--chains", "2", "--draws", "1000")


def months(folder: Path, *, older: float = 0.0, spread: float = 0.0) -> Desk:
    """Two months of one number, whose people are this many years apart, the later one's pay spread by as much more."""
    folder.mkdir(exist_ok=True)
    desk = Desk(folder)
    text = arrivals().replace("covariates: [age, female, region]", "covariates: [age]")
    desk.study.write_text(text)
    for number, period in enumerate(PERIODS):
        columns = people(2000, seed=number)
        columns["age"] = np.clip(columns["age"] + older * number, 16, 80)
        columns["pay"] = columns["pay"] + number * spread * np.random.default_rng(9).normal(size=2000)
        desk.write_table(columns, period)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    for period in PERIODS:
        release(desk, period)
    return desk


def analyse(desk: Desk) -> dict[str, Any]:
    """The analysis of both months."""
    return desk.document("analyse", desk.study, "--period", LAST)["analyses"][0]


def record_of(analysis: dict[str, Any]) -> dict[str, Any]:
    return json.loads((Path(analysis["crate"]) / "posterior.json").read_text())


def page_of(analysis: dict[str, Any]) -> str:
    return " ".join(html.unescape(Path(analysis["report"]).read_text()).split())


def declare(desk: Desk) -> None:
    desk.edit_study("periods: all", "periods: all\n    alike: true")


def before(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a version made that read all pools as alike, under the conjugate law, and wrote nothing of it."""
    with monkeypatch.context() as earlier:
        earlier.setattr(prior, "INDEPENDENT_SAMPLERS", frozenset())
        earlier.setattr(pool, "ALLOW_DIFFERENT_PARTS", frozenset())
        earlier.setattr(crate_posterior, "parts_record", lambda evidence, request, declared: None)
        return analyse(desk)


@pytest.mark.slow
def test_releases_of_other_residual_sds_are_said_to_contradict_the_pool_before_any_coefficient(tmp_path: Path) -> None:
    one, apart = (analyse(months(tmp_path / name, spread=spread)) for name, spread in (("one", 0.0), ("apart", 2.0)))
    assert not one["parts"]["spread"]["alarm"]
    assert "do not contradict one residual standard deviation" in page_of(one)
    found = record_of(apart)["parts"]["spread"]
    assert found == apart["parts"]["spread"]
    assert found["alarm"]
    assert found["least"] < 1.6 < found["most"], "they are 1 and 2.2, and the release's noise is not seeded"
    page = page_of(apart)
    assert page.index("The releases contradict one residual standard deviation") < page.index("Coefficients")
    assert flaws_of_record(Path(apart["crate"])) == []
    files = load(Path(apart["crate"]))
    record = json.loads(files["posterior.json"])
    assert read_as_requested(files) is None
    record["parts"]["spread"]["alarm"] = False
    assert read_as_requested({**files, "posterior.json": json.dumps(record).encode()}) == TRIED


@pytest.mark.slow
def test_only_an_earlier_version_may_have_asked_less_of_residual_sds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = load(Path(analyse(months(tmp_path / "desk"))["crate"]))
    record = json.loads(files["posterior.json"])
    evidence = evidence_of([source.entry for source in sources_of(files)])
    less = parts_record(evidence, AnalysisRequest(**record["request"]), declared=False, earlier=True)
    assert less is not None
    assert "kurtosis" not in less["spread"]
    altered = {**files, "posterior.json": json.dumps({**record, "parts": less}).encode()}
    assert read_as_requested(altered) == TRIED
    monkeypatch.setattr(audit_parts, "makes_the_same", lambda software: False)
    assert read_as_requested(altered) is None


@pytest.mark.slow
def test_a_pool_is_drawn_anew_and_the_earlier_posterior_is_named_as_superseded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = months(tmp_path / "desk")
    old = before(desk, monkeypatch)
    assert "parts" not in record_of(old)
    whole = desk.document("audit", desk.study)
    (notice,) = whole["notices"]
    assert whole["ok"]
    assert old["crate"].endswith(notice["crate"])
    assert (notice["status"], notice["instead"]) == ("superseded", None)

    new = analyse(desk)
    record = record_of(new)
    assert not new["already_analysed"]
    assert new["earlier"] == old["crate"] != new["crate"]
    assert "alike: true together with prior: {law: conjugate}, which was the default" in new["changed"]
    assert (record["request"]["parts"], record["parts"]["law"], record["parts"]["declared"]) == (
        "differ",
        "differ",
        False,
    )
    assert flaws_of_record(Path(new["crate"])) == []
    assert "Their covariates may differ" in page_of(new)
    assert "at random" not in page_of(new)
    assert "check" not in new["parts"]

    whole = desk.document("audit", desk.study, "--replay")
    (notice,) = whole["notices"]
    assert whole["ok"]
    assert new["crate"].endswith(notice["instead"])
    said = " ".join(desk.run("audit", desk.study).output.split())
    assert f"NOTICE: {notice['crate']} is superseded: it reads its 2 releases as if people had been dealt out" in said
    alone = desk.document("audit", "--crate", old["crate"], "--key", key_of(desk))
    assert alone["ok"]
    assert alone["notices"][-1]["reason"] == notice["reason"]
    assert not desk.document("audit", "--crate", new["crate"], "--key", key_of(desk), "--replay")["notices"]
    (told,) = desk.document("predict", old["crate"], "--at", "age=40")["notices"]
    assert told["status"] == "superseded"

    declare(desk)
    alike = analyse(desk)
    assert not alike["already_analysed"]
    assert alike["earlier"] == old["crate"]
    assert "state prior: {law: conjugate} to have it again" in alike["changed"]
    desk.edit_study("    alike: true", "    alike: true\n    prior: {law: conjugate}")
    again = analyse(desk)
    assert again["already_analysed"]
    assert again["crate"] == old["crate"]
    assert "changed" not in again
    assert (again["parts"]["law"], again["parts"]["declared"]) == ("alike", True)
    assert any("The study says that people were dealt out to them at random" in fact for fact in again["facts"])


@pytest.mark.slow
def test_a_declared_random_split_is_told_tried_and_audited(tmp_path: Path) -> None:
    desk = months(tmp_path / "desk")
    declare(desk)
    assert "people dealt out to them at random (alike: true)" in desk.run("check", desk.study).output
    found = analyse(desk)
    record = record_of(found)
    assert "parts" not in record["request"]
    assert (record["parts"]["law"], record["parts"]["declared"], record["parts"]["check"]["alarm"]) == (
        "alike",
        True,
        False,
    )
    assert flaws_of_record(Path(found["crate"])) == []
    assert "The releases do not contradict that people were dealt out at random" in page_of(found)
    shown = " ".join(desk.run("analyse", desk.study, "--period", LAST).output.split())
    assert "parts: The releases do not contradict" in shown
    whole = desk.document("audit", desk.study, "--replay")
    assert whole["ok"]
    assert "notices" not in whole

    desk.edit_study("\n    alike: true", "")
    other = analyse(desk)
    assert other["crate"] != found["crate"]
    assert other["earlier"] == found["crate"]
    assert "notices" not in desk.document("audit", desk.study)


@pytest.mark.slow
def test_releases_that_differ_contradict_the_declaration(tmp_path: Path) -> None:
    desk = months(tmp_path / "desk", older=10.0)
    declare(desk)
    found = analyse(desk)
    assert found["parts"]["check"]["alarm"]
    assert "age" in found["parts"]["check"]["columns"]
    assert "<strong>The releases contradict that people were dealt out at random</strong>" in page_of(found)
    assert desk.document("audit", desk.study)["ok"]
    files = load(Path(found["crate"]))
    assert read_as_requested(files) is None
    record = record_of(found)
    for changed, flaw in (
        ({"parts": record["parts"] | {"check": record["parts"]["check"] | {"alarm": False}}}, TRIED),
        ({"parts": {"declared": True, "law": "alike"}}, TRIED),
        ({"parts": {"declared": False, "law": "differ"}}, OTHERWISE),
        ({"request": record["request"] | {"parts": "differ"}}, OTHERWISE),
    ):
        forged = {**files, "posterior.json": json.dumps(record | changed).encode()}
        assert read_as_requested(forged) == flaw
    forged = {**files, "posterior.json": json.dumps(record | {"parts": record["parts"] | {"declared": False}}).encode()}
    assert analysis_problem(forged) == "study.yaml says otherwise than posterior.json whether its releases are alike"


@pytest.mark.slow
def test_crates_are_pooled_by_either_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = months(tmp_path / "desk")
    crates, place = fetched(desk, tmp_path / "crates"), tmp_path / "out"
    named = [word for crate in crates for word in ("--from", str(crate))]
    asked = ("analyse", *named, "--to", place, "--key", key_of(desk), *QUICK)
    (alike,) = desk.document(*asked, "--alike")["analyses"]
    assert record_of(alike)["parts"]["declared"]
    assert "Whoever analysed says that people were dealt out" in page_of(alike)
    (differ,) = desk.document(*asked)["analyses"]
    assert record_of(differ)["parts"].items() >= {"declared": False, "law": "differ"}.items()
    assert differ["earlier"] == alike["crate"]
    assert "--alike gives it again" in differ["changed"]
    for one in (alike, differ):
        audited = desk.document("audit", "--crate", one["crate"], "--key", key_of(desk), "--replay")
        assert (audited["ok"], audited["notices"]) == (True, [])
        assert flaws_of_record(Path(one["crate"])) == []
    error = desk.document("analyse", *named[:2], "--to", place, *QUICK, "--alike", exit_code=2)["error"]
    assert "--alike: one release has no parts that could be alike" in error["message"]
    error = desk.document("analyse", desk.study, "--period", LAST, "--alike", exit_code=2)["error"]
    assert "with --alike: the study file states it" in error["message"]


def test_one_release_has_no_parts_to_be_alike(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.study.write_text(arrivals().replace("periods: all", "alike: true"))
    error = desk.document("check", desk.study, exit_code=2)["error"]
    assert "one release has no parts that could be alike" in error["message"]


@pytest.mark.slow
def test_holders_of_one_table_are_parts_too(tmp_path: Path) -> None:
    desk = offices(tmp_path / "offices")
    analyses = ANALYSIS.replace("periods: all", "alike: true")
    desk.edit_study("covariates: [age, female, region]", "covariates: [age]")
    desk.edit_study("schedule:", f"{analyses}schedule:")
    planned = desk.document("plan", desk.study, "--period", "2026-01")["releases"][0]["foreseen"]
    words = {one["term"]: one["value"] for one in planned}
    assert "people dealt out to them at random (alike: true)" in words["Several releases"]
    desk.release()
    found = desk.document("analyse", desk.study, "--period", "2026-01")["analyses"][0]
    assert not found["parts"]["check"]["alarm"]  # whose office somebody is with was drawn by lot
    desk.edit_study("    alike: true\n", "")
    planned = desk.document("plan", desk.study, "--period", "2026-01")["releases"][0]["foreseen"]
    assert "their covariates may differ" in {one["term"]: one["value"] for one in planned}["Several releases"]
    other = desk.document("analyse", desk.study, "--period", "2026-01")["analyses"][0]
    assert (other["parts"]["law"], other["earlier"]) == ("differ", found["crate"])
    assert desk.document("audit", desk.study)["ok"]
