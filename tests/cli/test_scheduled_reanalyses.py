"""An analysis with a schedule of its own is made again of what is stored: new versions, compared, and no charge."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dpbayes.analyses.again import missing_versions
from dpbayes.analyses.stored_releases import stored_periods
from dpbayes.study.load import load_study
from storage.ledger.anchored import AnchoredLedger
from tests.support.calendars import charged
from tests.support.charged import charge
from tests.support.desk import STUDY, Desk, people

MONTHS = [f"2025-{month:02}" for month in range(1, 13)]
NIGHTLY = 'schedule: {cron: "0 0 * * *"}'


def text(periods: str, *, people: str = "disjoint") -> str:
    """The desk's study without a schedule of its own, with an analysis that has one."""
    start = STUDY.index("analyses:")
    analysis = (
        f"  pay-posterior: {{release: pay-regression, sampler: naive, chains: 2, draws: 500, periods: {periods}, "
    )
    return STUDY[:start].replace("people: same", f"people: {people}") + f"analyses:\n{analysis}{NIGHTLY}}}\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A year of small tables, and a ledger."""
    desk = Desk(tmp_path)
    desk.study.write_text(text("all"))
    for number, month in enumerate(MONTHS):
        desk.write_table(people(300, seed=number), month)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    return desk


def runs(document: dict[str, Any]) -> list[dict[str, Any]]:
    (study,) = document["studies"]
    return study["runs"]


def archived(desk: Desk, folder: str) -> list[str]:
    """The names of the finished folders below one of the archive's."""
    root = desk.home / "archive" / folder
    return sorted(place.parent.relative_to(root).as_posix() for place in root.rglob("MANIFEST.json"))


def compared(run: dict[str, Any]) -> dict[str, Any]:
    """The comparison's record, next to the page that the document names."""
    return json.loads(Path(run["analyses"][0]["comparison"]).with_suffix(".json").read_text())


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_twelve_stored_periods_are_analysed_again_as_a_new_version_with_a_comparison_and_no_charge(desk: Desk) -> None:
    for month in MONTHS[:-1]:
        desk.document("release", desk.study, "--period", month)
    first = desk.document("analyse", desk.study, "--period", MONTHS[-2])
    assert "comparison" not in first["analyses"][0]
    desk.document("release", desk.study, "--period", MONTHS[-1])
    desk.edit_study("periods: all", "periods: all, prior: {law: conjugate, coefficients: {sd: 0.5}}")
    (run,) = runs(desk.document("catch-up", desk.study))
    assert (run["reanalysis"], run["period"], run["releases"]) == ("pay-posterior", MONTHS[-1], [])
    assert [each["period"] for each in run["analyses"][0]["releases"]] == MONTHS
    assert charged(desk) == MONTHS
    record = compared(run)
    assert [one["period"] for one in record["changed"]["releases"]["added"]] == [MONTHS[-1]]
    assert record["changed"]["releases"]["kept"] == 11
    assert record["changed"]["prior"]["new"]["coefficient_sd"] == 0.5
    assert record["old"]["crate"].startswith(f"posteriors/pay/{MONTHS[-2]}/pay-posterior-")
    page = Path(run["analyses"][0]["comparison"]).read_text()
    assert "Since the version of 2025-11 was archived, 1 release came in and the prior is another one." in page
    before = archived(desk, "posteriors"), archived(desk, "comparisons")
    assert [len(each) for each in before] == [2, 1]
    assert desk.document("audit", desk.study)["ok"]
    _nothing_is_made_where_nothing_changed(desk)
    assert (archived(desk, "posteriors"), archived(desk, "comparisons")) == before


def _nothing_is_made_where_nothing_changed(desk: Desk) -> None:
    """Neither on the same day, nor at the next firing, nor where nobody remembers what was tried."""
    from flows.run import run_study

    assert runs(desk.document("catch-up", desk.study)) == []
    shutil.rmtree(desk.home / "runs")
    assert run_study(str(desk.study), "due")["runs"] == []
    assert desk.run("catch-up", desk.study).stdout == "Nothing is due (study pay, account staff).\n"


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_each_stored_period_is_analysed_again_and_compared_with_its_own_last_version(desk: Desk) -> None:
    desk.study.write_text(text("this"))
    for month in MONTHS[:2]:
        desk.document("run", desk.study, "--period", month)
    desk.edit_study("periods: this", "periods: this, prior: {law: conjugate, coefficients: {sd: 0.5}}")
    found = runs(desk.document("catch-up", desk.study))
    assert [run["period"] for run in found] == MONTHS[:2]
    assert [compared(run)["old"]["period"] for run in found] == MONTHS[:2]
    assert "came in" not in Path(found[1]["analyses"][0]["comparison"]).read_text()
    shutil.rmtree(desk.home / "archive" / "comparisons")  # as if the run had been killed before it wrote them
    again = desk.document("analyse", desk.study, "--period", MONTHS[0])
    assert again["analyses"][0]["already_analysed"]
    assert Path(again["analyses"][0]["comparison"]).exists()
    assert desk.document("audit", desk.study)["ok"]
    assert charged(desk) == MONTHS[:2]


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_an_analysis_that_fails_is_said_and_tried_again_and_stops_no_other(desk: Desk) -> None:
    charge(desk.study, MONTHS[0])
    lines = desk.study.read_text().splitlines()[-1]
    desk.edit_study(lines, lines + "\n" + lines.replace("pay-posterior", "pay-second"))
    desk.edit_study("sampler: naive, chains: 2, draws: 500, periods: all, ", "sampler: naive, periods: all, ")
    broken = desk.home / "archive" / "posteriors"
    broken.write_text("a file where the folder would be")
    document = desk.document("catch-up", desk.study, exit_code=1)
    assert [run["reanalysis"] for run in runs(document)] == ["pay-posterior", "pay-second"]
    assert {run["error"]["kind"] for run in runs(document)} == {"archive-unavailable"}
    broken.unlink()
    desk.document("catch-up", desk.study)  # their crates were on the ledger, and are archived now
    assert [name.rpartition("/")[2].rpartition("-")[0] for name in archived(desk, "posteriors")] == [
        "pay-posterior",
        "pay-second",
    ]
    assert desk.document("audit", desk.study)["ok"]
    assert runs(desk.document("catch-up", desk.study)) == []


def test_a_withdrawn_period_is_not_stored_and_a_new_revision_is(desk: Desk) -> None:
    first, _ = charge(desk.study, MONTHS[0]), charge(desk.study, MONTHS[1])
    declared = load_study(desk.study)
    assert stored(desk) == (MONTHS[0], MONTHS[1])
    words = ("pay-regression", "--period", MONTHS[0], "--reason", "the source was wrong")
    assert desk.run("ledger", "withdraw", desk.study, *words).exit_code == 0
    assert first.payload["revision"] == 1
    assert stored(desk) == (MONTHS[1],)
    charge(desk.study, MONTHS[0], revision=2)
    assert stored(desk) == (MONTHS[0], MONTHS[1])
    assert missing_versions(declared, "pay-posterior") == (MONTHS[1],)


def stored(desk: Desk) -> tuple[str, ...]:
    with AnchoredLedger.open(desk.study) as anchored:
        return stored_periods(load_study(desk.study), "pay-regression", anchored)
