"""What an analyst sees of `dpbayes analyse`: a posterior that may be believed, or one that says it may not."""

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from cli import console
from dpbayes.analyses.prepare import prepare_analysis
from dpbayes.crates.parquet import read_draws
from dpbayes.markup.convergence_advice import LONGER
from dpbayes.study.load import load_study
from dpbayes_core.samplers.driver import sample
from storage.home.signatures import Signer
from storage.ledger.anchored import AnchoredLedger
from tests.support.desk import PERIOD, Desk
from tests.support.earlier import made_earlier

ALREADY = "already analysed: this is the stored crate, and nothing was drawn."


@pytest.fixture(scope="module")
def released(shared_desk: Desk) -> Desk:
    shared_desk.release()
    return shared_desk


def analyse(desk: Desk, exit_code: int = 0) -> dict[str, object]:
    return desk.document("analyse", desk.study, "--period", PERIOD, exit_code=exit_code)


def test_a_posterior_is_archived_with_its_report_and_spends_nothing(released: Desk) -> None:
    before = released.document("ledger", "show", released.study)
    document = analyse(released)
    analysis = document["analyses"][0]
    assert document.keys() >= {"study", "period", "analyses"}
    assert analysis.keys() >= {
        "analysis",
        "status",
        "calibrated",
        "caveat",
        "sampler",
        "coefficients",
        "seconds",
        "crate",
    }
    assert analysis["status"] == "converged"
    assert analysis["sampler"] == "collapsed"
    names = [row["name"] for row in analysis["coefficients"]]
    assert names == ["(intercept)", "age", "female[yes]", "region[south]", "region[east]", "sigma"]
    assert analysis["coefficients"][0].keys() >= {"name", "mean", "sd", "q025", "q975", "rhat", "ess_bulk", "ess_tail"}
    assert Path(analysis["report"]).read_text().startswith("<!doctype html>")
    after = released.document("ledger", "show", released.study)
    assert {**after, "head": None} == {**before, "head": None}  # its publication is on the ledger, and costs nothing
    assert after["head"]["seq"] == before["head"]["seq"] + 1


def test_coefficients_of_levels_are_shown_by_their_whole_name(released: Desk) -> None:
    shown = released.run("analyse", released.study, "--period", PERIOD).output
    for name in ("age ", "female[yes]", "region[south]", "region[east]"):
        assert name in shown


def test_what_the_prior_decided_is_said_in_the_document_on_the_screen_and_on_the_page(released: Desk) -> None:
    analysis = analyse(released)["analyses"][0]
    found = analysis["prior_check"]
    assert found.keys() >= {"conflict", "probability", "parameters", "words", "decides", "weakest", "dependence"}
    assert {"name", "probability", "left", "pull"} == found["parameters"][0].keys()
    shown = released.run("analyse", released.study, "--period", PERIOD).output
    page = html.unescape(Path(analysis["report"]).read_text())
    for said in (found["dependence"], found["words"]):
        assert f"prior:  {said}" in shown
        assert said in page
    assert "93%" not in analysis["caveat"]
    assert analysis["facts"]
    for said in analysis["facts"]:
        assert f"fact:   {said}" in shown
        assert said in page


def test_the_same_analysis_again_is_the_stored_one(released: Desk) -> None:
    first, second = analyse(released)["analyses"][0], analyse(released)["analyses"][0]
    assert second["already_analysed"]
    assert ALREADY in released.run("analyse", released.study, "--period", PERIOD).output.splitlines()[1]
    assert second["crate"] == first["crate"]
    assert second["coefficients"] == first["coefficients"]
    assert second["seconds"]["sampling"] == 0


def test_chains_on_dask_draw_what_one_process_draws(released: Desk) -> None:
    crate = Path(analyse(released)["analyses"][0]["crate"])
    stored = read_draws((crate / "draws.parquet").read_bytes())
    study = load_study(released.study)
    with AnchoredLedger.open(study.path) as anchored:
        analysis = prepare_analysis(study, "pay-posterior", PERIOD, anchored)
    request = analysis.request
    here = sample(
        analysis.evidence, analysis.prior, chains=request.chains, draws=request.draws, seed=request.seed, block=333
    )
    assert stored.keys() == here.draws.keys()
    for name, draws in here.draws.items():
        np.testing.assert_array_equal(stored[name], draws)


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_without_a_terminal_the_progress_of_long_chains_is_lines_on_stderr(
    released: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "BETWEEN_LINES", 0.0)
    text = released.study.read_text()
    released.edit_study("draws: 500", "draws: 600")
    done = released.run("analyse", released.study, "--period", PERIOD)
    released.study.write_text(text)
    assert done.exit_code == 0, done.output
    assert re.search(r"^sampling: 600 of 600 draws, .*about \d+ s left$", done.stderr, re.MULTILINE), done.stderr
    assert "sampling:" not in done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_another_prior_is_another_analysis_of_the_same_release(released: Desk) -> None:
    first = analyse(released)["analyses"][0]["crate"]
    text = released.study.read_text()
    released.edit_study("chains: 2", "prior: {coefficients: {sd: 1}}\n    chains: 2")
    second = analyse(released)["analyses"][0]["crate"]
    released.study.write_text(text)
    assert second != first
    release = [json.loads((Path(crate) / "posterior.json").read_text())["releases"] for crate in (first, second)]
    assert release[0] == release[1]


@pytest.mark.usefixtures("workers")
def test_chains_that_have_not_mixed_are_archived_and_say_so(released: Desk) -> None:
    text = released.study.read_text()
    released.edit_study("draws: 500", "draws: 10")
    analysis = analyse(released, exit_code=6)["analyses"][0]
    assert not analysis["already_analysed"]
    shown = released.run("analyse", released.study, "--period", PERIOD)
    released.study.write_text(text)
    assert analysis["status"] == "not-converged"
    assert analysis["why"]
    assert shown.exit_code == 6
    first, second, *_ = shown.output.splitlines()
    whose = "pay-posterior for 2026-01 (study pay, account staff)"
    assert first == f"{whose}: NOT CONVERGED. {analysis['why']}. Do not publish these numbers."
    assert second == f"  {analysis['advice']}"
    assert second.endswith(LONGER)
    assert analysis["draws"]["asked"] == 10 < analysis["draws"]["made"]
    assert f"  draws:  {analysis['draws']['made']} of each chain, where 10 were asked for" in shown.output
    assert "not converged" in Path(analysis["report"]).read_text().lower()


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_the_archive_says_in_its_name_that_a_posterior_is_not_to_be_published(released: Desk) -> None:
    text = released.study.read_text()
    released.edit_study("draws: 500", "draws: 12")
    crate = Path(analyse(released, exit_code=6)["analyses"][0]["crate"])
    again = analyse(released, exit_code=6)["analyses"][0]
    assert crate.name.startswith("pay-posterior-not-converged-")
    assert (again["already_analysed"], again["crate"]) == (True, str(crate))
    assert crate.name in (crate / "report.html").read_text()
    assert released.document("audit", released.study)["ok"]
    plain = crate.rename(crate.with_name(crate.name.replace("-not-converged", "")))
    assert not released.document("audit", released.study, exit_code=5)["ok"]
    plain.rename(crate)
    released.study.write_text(text)


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_what_an_earlier_version_named_like_any_other_though_it_had_not_converged_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk.set_up(tmp_path)
    desk.edit_study("draws: 500", "draws: 12")
    desk.document("release", desk.study, "--period", PERIOD)
    with monkeypatch.context() as patched:
        patched.setattr("dpbayes.analyses.publish.put_on_record", lambda *_: None)
        crate = Path(analyse(desk, exit_code=6)["analyses"][0]["crate"])
    before = made_earlier(crate, Signer.load(desk.home / "keys"))
    again = analyse(desk, exit_code=6)["analyses"][0]
    assert (again["already_analysed"], again["crate"]) == (True, str(before))
    assert desk.document("audit", desk.study)["ok"]


def test_nothing_released_is_nothing_to_analyse(desk: Desk) -> None:
    error = analyse(desk, exit_code=2)["error"]
    assert "Run `dpbayes release` first" in error["message"]


@pytest.mark.usefixtures("workers")
def test_a_run_is_a_release_and_its_analyses(desk: Desk) -> None:
    ran = desk.run("run", desk.study, "--period", PERIOD)
    assert ran.exit_code == 0
    assert ALREADY not in ran.output
    document = desk.document("run", desk.study, "--period", PERIOD)
    assert document["analyses"][0]["already_analysed"]
    assert document.keys() >= {"study", "period", "releases", "analyses"}
    assert document["analyses"][0]["status"] == "converged"


@pytest.mark.slow
def test_what_was_run_passes_its_audit_until_a_byte_changes(released: Desk) -> None:
    crate = Path(analyse(released)["analyses"][0]["crate"])
    audit = released.document("audit", released.study)
    assert audit["ok"]
    assert audit["checks"][0].keys() >= {"check", "ok", "detail"}
    path = crate / "report.html"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"noise-aware", b"noise-awars", 1))
    failed = released.document("audit", released.study, exit_code=5)
    path.write_bytes(whole)
    assert any("report.html" in check["detail"] for check in failed["checks"] if not check["ok"])


CURVED = """\
study: curve
population: workers
source: {path: "data/pay-{period}.parquet", rows: 50000, unit: person}
period: {grain: month, people: same}
columns:
  log_wage: {bounds: [0, 5]}
  age: {bounds: [16, 80]}
  age_squared: {bounds: [256, 6400]}
privacy: {neighbours: replace-one, delta: 1e-6, budget: {lifetime: {epsilon: 8}}}
releases:
  wages: {kind: regression, response: log_wage, covariates: [age, age_squared], mechanism: gaussian, epsilon: 1}
analyses:
  posterior:
    release: wages
    chains: 2
    draws: 500
    prior: {intercept: {sd: 10}, coefficients: {sd: 1.5}, noise: {shape: 1, scale: 0.1}}
"""


@pytest.mark.slow
def test_of_age_and_age_squared_the_prior_is_said_to_decide_before_any_number(tmp_path: Path) -> None:
    desk, generator, rows = Desk(tmp_path), np.random.default_rng(2), 50_000
    age = generator.uniform(18, 65, rows)
    wage = 0.6 + 0.09 * age - 0.0009 * age**2 + 0.4 * generator.standard_normal(rows)
    people = [f"P{number:06d}" for number in range(rows)]
    desk.study.write_text(CURVED)
    desk.write_table({"person": people, "log_wage": wage, "age": age, "age_squared": age**2}, rows_per_group=rows)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    (analysis,) = desk.document("run", desk.study, "--period", PERIOD)["analyses"]
    found = analysis["prior_check"]
    pulls = {one["name"]: one["pull"] for one in found["parameters"]}
    assert found["decides"]
    assert min(pulls["age"], pulls["age_squared"]) > 1
    assert {name for name, weight in found["weakest"]["combination"] if abs(weight) > 0.3} == {"age", "age_squared"}
    assert "The prior decides these numbers: without it " in found["dependence"]
    assert analysis["facts"][0].startswith(
        "Where the prior decides, no measured cell shows how often 95% intervals contain the coefficients"
    )
    page = html.unescape(Path(analysis["report"]).read_text())
    assert page.index("These numbers depend on the prior") < page.index(found["dependence"]) < page.index("<main>")
