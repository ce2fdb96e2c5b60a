"""What a steward sees of `dpbayes plan`, before anything is spent."""

import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.support.charged import charge
from tests.support.command import ROOT
from tests.support.desk import PERIOD, Desk

HEAVY = ("prefect", "distributed", "great_expectations", "pandas", "pyarrow", "numba", "opendp", "scipy.stats")


@pytest.fixture(scope="module")
def document(shared_desk: Desk) -> dict[str, Any]:
    """What programs read of the plan of the shared desk."""
    return shared_desk.document("plan", shared_desk.study, "--period", PERIOD)


@pytest.fixture(scope="module")
def shown(shared_desk: Desk) -> str:
    """What people read of it."""
    return shared_desk.run("plan", shared_desk.study, "--period", PERIOD).stdout


def with_one_covariate(desk: Desk) -> Desk:
    """The same desk, whose plans take half as long."""
    desk.edit_study("covariates: [age, female, region]", "covariates: [age]")
    return desk


def test_the_plan_document_keeps_its_contract(document: dict[str, Any]) -> None:
    assert document.keys() >= {"study", "period", "releases", "year", "verdict"}
    assert (document["study"], document["period"]) == ("pay", PERIOD)
    assert len(document["year"]) == 13
    for cap in document["releases"][0]["caps"]:
        assert cap.keys() >= {"cap", "window", "limit", "spent", "after", "largest_epsilon", "fits"}


@pytest.mark.slow
def test_people_read_the_costs_the_year_and_at_last_the_verdict(document: dict[str, Any], shown: str) -> None:
    assert shown.splitlines()[-1] == document["verdict"]
    for word in ("pay-regression", "gaussian", "lifetime", "per-period", "largest epsilon", "sensitivity", "2026-12"):
        assert word in shown


def test_people_read_the_predicted_precision_that_programs_read(document: dict[str, Any], shown: str) -> None:
    (release,) = document["releases"]
    assert release["predicted"][-1]["coefficient"] == "sigma"
    for one in release["predicted"]:
        line = next(line for line in shown.splitlines() if line.startswith(one["coefficient"]))
        assert f"{one['sd']:.3g}" in line.split()


@pytest.mark.slow
def test_a_plan_needs_no_table_no_home_and_no_ledger(desk: Desk) -> None:
    with_ledger = with_one_covariate(desk).document("plan", desk.study, "--period", PERIOD)
    shutil.rmtree(desk.folder / "data")
    assert desk.document("plan", desk.study, "--period", PERIOD) == with_ledger
    shutil.rmtree(desk.home)
    without = desk.document("plan", desk.study, "--period", PERIOD)
    nowhere = f"no .dpbayes folder above {desk.study}"
    assert without == with_ledger | {"account": "as stated", "known_accounts": [], "ledger": None, "home": nowhere}
    assert not desk.home.exists()


@pytest.mark.slow
def test_the_month_that_the_plan_says_is_refused_is_refused(desk: Desk) -> None:
    shutil.rmtree(desk.home)
    with_one_covariate(desk).edit_study("lifetime: {epsilon: 8}", "lifetime: {epsilon: 1.2}")
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    planned = desk.document("plan", desk.study, "--period", PERIOD)
    assert planned["fits"]
    assert planned["verdict"] == "2026-02 would be refused by lifetime (epsilon 1.2 at delta 1e-06)."
    released = desk.release()["releases"][0]
    assert released["cost"] == planned["releases"][0]["cost"]
    after = {cap["cap"]: cap["after"] for cap in planned["releases"][0]["caps"]}
    assert {cap["cap"]: cap["spent"] for cap in released["caps"]} == after
    refused = desk.document("release", desk.study, "--period", "2026-02", exit_code=3)["error"]["message"]
    now = desk.document("plan", desk.study)
    assert (now["period"], now["fits"], now["year"][0]["refused_by"]) == ("2026-02", False, "lifetime")
    assert f"Ask for epsilon {now['releases'][0]['largest_epsilon']:g} or less" in refused
    assert desk.document("plan", desk.study, "--period", PERIOD)["year"][0]["status"] == "charged"


@pytest.mark.slow
def test_a_plan_writes_one_page_that_says_the_same(desk: Desk) -> None:
    page = desk.folder / "plan.html"
    document = desk.document("plan", desk.study, "--period", PERIOD, "--html", page)
    assert document["page"] == str(page)
    assert document["verdict"] in page.read_text()


@pytest.mark.parametrize("name", ["study.yaml", "plan"])
def test_a_page_never_replaces_a_file_that_is_no_page(desk: Desk, name: str) -> None:
    before = desk.study.read_text()
    refused = desk.document("plan", desk.study, "--period", PERIOD, "--html", desk.folder / name, exit_code=2)
    assert ".html" in refused["error"]["message"]
    assert desk.study.read_text() == before


@pytest.mark.slow
def test_a_page_that_cannot_be_written_is_said_in_one_sentence(shared_desk: Desk) -> None:
    nowhere = shared_desk.folder / "no-such-folder" / "plan.html"
    refused = shared_desk.document("plan", shared_desk.study, "--html", nowhere, exit_code=1)["error"]
    assert refused["message"].startswith("cannot write the plan to ")


@pytest.mark.parametrize("period", ["2026-1", "2026-13", "2026-Q1", "2026-01..2026-03"])
def test_a_period_of_another_name_is_a_wrong_argument(shared_desk: Desk, period: str) -> None:
    refused = shared_desk.document("plan", shared_desk.study, "--period", period, exit_code=2)["error"]
    assert refused["kind"] == "study-invalid"


@pytest.mark.slow
def test_planning_imports_neither_the_orchestrator_nor_anything_that_opens_a_table(shared_desk: Desk) -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from cli.commands import app; "
        f"done = CliRunner().invoke(app, ['plan', {str(shared_desk.study)!r}, '--json']); assert done.exit_code == 0; "
        f"print(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


@pytest.mark.slow
def test_help_says_which_period_is_planned_without_one(desk: Desk) -> None:
    said = " ".join(re.sub("[│╭╰─]", " ", desk.run("plan", "--help").stdout).split())
    assert "by default the one after the last that the study was charged for" in said
    charge(with_one_covariate(desk).study, "2026-05")
    assert desk.document("plan", desk.study)["period"] == "2026-06"


def test_check_says_what_the_schedule_of_a_study_is_for(desk: Desk) -> None:
    said = "  schedule: cron 0 2 1 * *, UTC. `plan` counts with it, and `deploy` has a Prefect server follow it\n"
    assert said in desk.run("check", desk.study).stdout
    assert desk.document("check", desk.study)["schedule"] == {"cron": "0 2 1 * *", "timezone": "UTC"}


@pytest.mark.slow
def test_a_closed_period_is_planned_as_closed(desk: Desk) -> None:
    with_one_covariate(desk).document("ledger", "close", desk.study, "--period", PERIOD, "--reason", "published")
    shown = desk.run("plan", desk.study, "--period", PERIOD).stdout
    assert shown.splitlines()[-1].startswith(f"{PERIOD} was closed and takes no further charges.")
    assert "largest epsilon that fits: none now" in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith(("lifetime ", "per-period "))]
    assert [row[-1] for row in rows] == ["closed", "closed"]


def test_people_read_every_width_and_every_kind_of_noise_that_programs_read(
    document: dict[str, Any], shown: str
) -> None:
    (release,) = document["releases"]
    lines = shown.splitlines()
    for one in release["predicted"]:
        line = next(line for line in lines if line.startswith(one["coefficient"])).replace(" (rough)", "").split()
        widths = one["interval95"], one["prior_interval95"], one["without_noise"]["interval95"]
        assert [f"{width:.3g}" for width in widths] == line[2:5]
        assert line[5] == ("-" if one["told_from_zero"] is None else f"{one['told_from_zero']:.2g}")
    for one in release["blocks"]:
        assert any(line.startswith(f"{one['block']} ") and f" {one['numbers']} " in line for line in lines)
    assert sum(one["numbers"] for one in release["blocks"]) == release["entries"]
    assert any(line.startswith("  can tell from 0: effects of age beyond ") for line in lines)
