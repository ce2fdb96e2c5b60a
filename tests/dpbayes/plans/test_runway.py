"""The budget runway of a population is what its ledger then does, and for a study alone what its plan says."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes.plans.plan import plan
from dpbayes.status.look import project_at, status_of
from dpbayes.study.study import Study
from dpbayes_core.errors import BudgetExceeded
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.ledger import Ledger
from storage.ledger.reading import AccountSnapshot
from tests.support.accounts import open_where_missing
from tests.support.desk import STUDY
from tests.support.ledger_cases import STAMP
from tests.support.sums import sums_of

NOW = datetime(2026, 2, 10, tzinfo=UTC)
BUDGET = "    lifetime: {epsilon: 8}\n    per-period: {epsilon: 2}\n"


def project(folder: Path, **studies: dict[str, str]) -> Path:
    """A folder of studies with a ledger in which no account is open; each study has its own texts."""
    for name, edits in studies.items():
        text = STUDY.replace("study: pay", f"study: {name}").replace(BUDGET, "    lifetime: {epsilon: 1.2}\n")
        text = text.replace("epsilon: 1\n", "epsilon: 0.5\n")
        for old, new in edits.items():
            assert old in text
            text = text.replace(old, new)
        path = folder / name / "study.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    with AnchoredLedger.create(Home.create(folder, {}), STAMP):
        return folder


def budget(folder: Path, now: datetime = NOW) -> list[dict[str, Any]]:
    return [one.to_record() for one in status_of(project_at(folder), now).budget]


def charged(ledger: Ledger, study: Study, period: str) -> bool:
    """Whether the ledger takes every release of a period."""
    open_where_missing(ledger, study.account())
    try:
        for name in study.releases:
            design = study.design(name)
            zeros = sums_of(np.zeros(len(design.schema.entries)), 2000)
            ledger.commit(study.request(name, period), design, zeros, OpenDPNoise(), stamp=STAMP)
    except BudgetExceeded:
        return False
    return True


def test_the_runway_of_one_study_is_that_of_its_plan(tmp_path: Path) -> None:
    folder = project(tmp_path, pay={})
    (study,) = project_at(folder).studies
    with AccountSnapshot.near(study.path, study.account()) as snapshot:
        year = plan(study, snapshot, study.parse_period("2026-01")).year
    statuses = [one.status for one in year]
    first = statuses.index("refused")
    (found,) = budget(folder)
    assert 0 < first < len(year)
    assert (found["fit"], found["coming"]) == (first, len(year) + 1)  # what is due, then a year of it
    refused = found["first_refused"]
    assert (refused["study"], refused["period"]) == ("pay", year[first].period.name)
    assert refused["due"][:7] == year[first].period.next().name
    assert (found["population"], found["cap"], found["limit"], found["spent"]) == ("staff", "lifetime", 1.2, 0.0)
    assert found["account"] == "as stated"


def test_studies_of_one_population_use_up_its_budget_together_as_the_real_ledger_has_it(tmp_path: Path) -> None:
    later = {'cron: "0 2 1 * *"': 'cron: "0 2 2 * *"', "epsilon: 0.5\n": "epsilon: 0.3\n"}
    folder = project(tmp_path, pay={}, hours=later)
    (found,) = budget(folder)
    studies = {study.study: study for study in project_at(folder).studies}
    assert found["studies"] == ["hours", "pay"]
    taken = 0
    with AnchoredLedger.open(folder) as anchored:
        for month in range(1, 13):
            for name in ("pay", "hours"):  # on the first and on the second of the next month
                if not charged(anchored.ledger, studies[name], f"2026-{month:02d}"):
                    assert (found["fit"], found["first_refused"]["study"]) == (taken, name)
                    assert found["first_refused"]["period"] == f"2026-{month:02d}"
                    return
                taken += 1
                assert budget(folder)[0]["fit"] == found["fit"] - taken
    pytest.fail("nothing was refused")


def test_a_programme_is_one_budget_for_all_its_populations(tmp_path: Path) -> None:
    shared = {"    lifetime: {epsilon: 1.2}\n": "    programme: {name: labour, epsilon: 1.2}\n"}
    firms = {**shared, "population: staff": "population: firms"}
    alone = budget(project(tmp_path / "alone", pay=shared))
    (found,) = budget(project(tmp_path / "both", pay=shared, firms=firms))
    assert (found["cap"], found["studies"]) == ("programme labour", ["firms", "pay"])
    assert found["fit"] == alone[0]["fit"]
    assert found["first_refused"]["due"] < alone[0]["first_refused"]["due"]


def test_other_populations_are_counted_by_themselves_and_a_cap_on_each_period_by_period(tmp_path: Path) -> None:
    each = {"    lifetime: {epsilon: 1.2}\n": "    lifetime: {epsilon: 1.2}\n    per-period: {epsilon: 0.6}\n"}
    folder = project(tmp_path, pay=each, hours=each, firms={"population: staff": "population: firms"})
    found = {(one["population"], one["cap"]): one for one in budget(folder)}
    assert set(found) == {("staff", "lifetime"), ("staff", "per-period"), ("firms", "lifetime")}
    assert found["staff", "per-period"]["fit"] == 1
    assert found["staff", "per-period"]["first_refused"]["study"] == "pay"  # after hours, by name
    assert found["staff", "lifetime"]["fit"] == found["firms", "lifetime"]["fit"]  # half of them cost nothing


def test_all_studies_are_looked_at_up_to_the_same_day(tmp_path: Path) -> None:
    yearly = {"grain: month": "grain: year", 'cron: "0 2 1 * *"': 'cron: "0 2 1 2 *"'}
    (found,) = budget(project(tmp_path, pay={"epsilon: 0.5\n": "epsilon: 0.001\n"}, census=yearly))
    assert found["first_refused"] is None
    assert found["until"] == "2027-03-01T02:00:00+00:00"
    assert found["fit"] == found["coming"] == 14 + 2


def test_what_is_stored_or_closed_is_no_more_to_come(tmp_path: Path) -> None:
    folder = project(tmp_path, pay={})
    (before,) = budget(folder)
    (study,) = project_at(folder).studies
    with AnchoredLedger.open(folder) as anchored:
        assert charged(anchored.ledger, study, "2026-02")
        anchored.ledger.close("staff", "2026-03", reason="no table", stamp=STAMP)
    (after,) = budget(folder)
    assert (after["coming"], after["fit"]) == (before["coming"] - 3, before["fit"] - 1)  # January was never owed
    assert after["account"] == "open"
    assert after["spent"] > 0


def test_a_study_without_a_schedule_has_nothing_to_come(tmp_path: Path) -> None:
    folder = project(tmp_path, pay={'schedule: {cron: "0 2 1 * *"}\n': ""})
    (found,) = budget(folder)
    assert (found["coming"], found["fit"], found["until"], found["first_refused"]) == (0, 0, None, None)
