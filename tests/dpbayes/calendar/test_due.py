"""Which periods are due, and since when, against the scheduler that would run them."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dpbayes.calendar.due import coming_due, due_at, due_periods
from dpbayes.study.load import load_study
from dpbayes.study.schedule import first_firing, releases
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from storage.ledger.periods import Period
from tests.support.desk import STUDY

SCHEDULE = 'schedule: {cron: "0 2 1 * *"}'


def study(folder: Path, schedule: str) -> Study:
    text = STUDY.replace(SCHEDULE, f"schedule: {schedule}" if schedule else "")
    (folder / "study.yaml").write_text(text)
    return load_study(folder / "study.yaml")


def names(found: Any) -> list[str]:
    return [each.period.name for each in found]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_month_is_due_when_the_schedule_fires_after_it_in_the_timezone_of_the_schedule(tmp_path: Path) -> None:
    amsterdam = study(tmp_path, '{cron: "0 2 1 * *", timezone: Europe/Amsterdam}')
    assert due_at(amsterdam, "2026-01") == at("2026-02-01T01:00")
    assert due_at(amsterdam, "2026-06") == at("2026-07-01T00:00")  # summer time
    auckland = study(tmp_path, '{cron: "0 2 1 * *", timezone: Pacific/Auckland}')
    assert due_at(auckland, "2026-01") == at("2026-01-31T13:00")


def test_three_months_are_due_after_three_months_oldest_first(tmp_path: Path) -> None:
    pay = study(tmp_path, '{cron: "0 2 1 * *", first: 2026-01}')
    assert due_periods(pay, None, at("2026-02-01T01:59")) == ()
    assert names(due_periods(pay, None, at("2026-02-01T02:00"))) == ["2026-01"]
    assert names(due_periods(pay, "2020-01", at("2026-04-02T00:00"))) == ["2026-01", "2026-02", "2026-03"]


def test_without_a_first_period_the_ledger_says_where_to_begin_and_else_only_the_newest_is_due(tmp_path: Path) -> None:
    pay = study(tmp_path, '{cron: "0 2 1 * *"}')
    assert names(due_periods(pay, "2026-02", at("2026-05-02T00:00"))) == ["2026-02", "2026-03", "2026-04"]
    assert names(due_periods(pay, None, at("2026-05-02T00:00"))) == ["2026-04"]
    assert names(due_periods(pay, None, at("2026-05-01T01:00"))) == ["2026-03"]  # it has not fired yet in May


def test_a_period_whose_successor_has_no_firing_is_never_due(tmp_path: Path) -> None:
    quarterly = study(tmp_path, '{cron: "0 2 15 jan,apr,jul,oct *", first: 2025-12}')
    assert names(due_periods(quarterly, None, at("2026-07-20T00:00"))) == ["2025-12", "2026-03", "2026-06"]
    assert due_periods(quarterly, None, at("2026-04-14T00:00"))[-1].period.name == "2025-12"
    assert coming_due(quarterly, at("2026-04-14T00:00")).at == at("2026-04-15T02:00")


def test_what_comes_next_is_the_first_firing_after_a_moment(tmp_path: Path) -> None:
    pay = study(tmp_path, '{cron: "0 2 1 * *"}')
    assert coming_due(pay, at("2026-05-01T01:59")).period.name == "2026-04"
    assert coming_due(pay, at("2026-05-01T02:00")).period.name == "2026-05"
    later = study(tmp_path, '{cron: "0 2 1 * *", first: 2027-01}')
    assert coming_due(later, at("2026-05-01T02:00")).at == at("2027-02-01T02:00")


def test_a_study_without_a_schedule_owes_nothing_that_could_be_said(tmp_path: Path) -> None:
    with pytest.raises(StudyInvalid, match=r"pay: it has no schedule\. Add one"):
        due_periods(study(tmp_path, ""), None, at("2026-05-01T02:00"))


@pytest.mark.parametrize(
    ("period", "cron", "expected"),
    [
        ("2026-03-28", "30 2 * * *", "2026-03-29T01:30"),  # 02:30 does not exist on that day
        ("2026-10-24", "30 2 * * *", "2026-10-25T00:30"),  # 02:30 exists twice on that day
        ("2026-03-28", "0 4 * * *", "2026-03-29T02:00"),
        ("2026-10-24", "0 4 * * *", "2026-10-25T03:00"),
    ],
)
def test_where_clocks_change_a_period_is_due_once(period: str, cron: str, expected: str) -> None:
    assert first_firing(Period.named(period), cron, "Europe/Amsterdam") == at(expected)


@pytest.mark.parametrize("timezone", ["UTC", "Europe/Amsterdam", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("cron", ["0 2 1 * *", "15,45 9-17/2 * * mon-fri", "30 3 10-20/5 * *", "0 0 13 * fri"])
@pytest.mark.parametrize("grain", ["day", "month"])
def test_a_period_is_due_when_the_scheduler_fires_with_it_as_the_previous_one(
    cron: str, timezone: str, grain: Any
) -> None:
    start = datetime(2026, 2, 11, tzinfo=UTC)
    fired = scheduled(cron, timezone, start)
    first: dict[Period, datetime] = {}
    for run in fired:
        first.setdefault(Period.previous(run, grain), run)
    for period, run in list(first.items())[1:]:  # of the first one, earlier firings are not in the list
        assert releases(period, cron)
        assert first_firing(period, cron, timezone) == run


def scheduled(cron: str, timezone: str, start: datetime) -> list[datetime]:
    """When Prefect's own schedule fires, in its timezone, from a moment on."""
    from prefect.server.schemas.schedules import CronSchedule

    runs = asyncio.run(CronSchedule(cron=cron, timezone=timezone).get_dates(n=60, start=start))
    assert len(runs) == 60
    assert runs[-1] - runs[0] > timedelta(days=2)
    return list(runs)
