"""Which periods a schedule releases, against the scheduler that runs it."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from dpbayes.study.schedule import FEWEST, coming
from storage.ledger.periods import Period


def names(first: str, cron: str | None, grain: Any = "month") -> list[str]:
    return [period.name for period in coming(Period.parse(first, grain), cron)]


def test_a_monthly_schedule_releases_every_month_of_the_year() -> None:
    found = names("2026-01", "0 2 1 * *")
    assert found[:3] == ["2026-01", "2026-02", "2026-03"]
    assert found[-1] == "2027-01"
    assert len(found) == FEWEST + 1


def test_without_a_schedule_the_next_twelve_periods_follow() -> None:
    assert names("2026-Q3", None, "quarter")[1:] == [p.name for p in Period.range("2026-Q4..2029-Q3", "quarter")]


def test_a_schedule_that_runs_each_quarter_releases_the_month_before_each_run() -> None:
    assert names("2026-01", "0 2 1 jan,apr,jul,oct *")[:4] == ["2026-01", "2026-03", "2026-06", "2026-09"]


def test_a_schedule_that_runs_twice_in_a_month_releases_it_once() -> None:
    assert names("2026-01", "0 2 1,15 * *") == names("2026-01", "0 2 1 * *")


def test_a_year_of_days_is_a_year() -> None:
    found = names("2026-01-01", "0 2 * * *", "day")
    assert found[-1] == "2027-01-01"
    assert len(found) == 366


def test_a_schedule_of_working_days_skips_the_days_before_a_weekend() -> None:
    """A run on a Monday takes the Sunday before it."""
    assert names("2026-01-01", "0 2 * * mon-fri", "day")[:4] == ["2026-01-01", "2026-01-04", "2026-01-05", "2026-01-06"]


def test_the_end_of_the_calendar_ends_the_list() -> None:
    assert len(names("9999-12-31", None, "day")) == 1
    assert names("9988", None, "year") == ["9988", "9989", "9990"]


CRONS = (
    "0 2 1 * *",
    "30 2 * * *",
    "0 2 1 */3 *",
    "0 2 10-20/5 feb-nov/2 *",
    "0 0 31 * *",
    "0 0 29 2 *",
    "0 9 * * mon-fri",
    "0 9 * * 7",
    "0 9 13 * fri",
    "0 9 */1 * fri",
    "0 9 */2 * fri",
    "0 9 1-31 * tue,thu",
    "0 9 1 * 0-7",
    "0 9 1-31 * */2",
    "0 9 */2 * 0-6",
)


@pytest.mark.parametrize("cron", CRONS)
@pytest.mark.parametrize("grain", ["day", "month", "quarter", "year"])
def test_the_periods_are_those_that_the_scheduler_would_run(cron: str, grain: Any) -> None:
    first = Period.containing(datetime(2026, 2, 11, tzinfo=UTC), grain)
    expected = scheduled(first, cron)
    found = coming(first, cron)[1:]
    assert list(found[: len(expected)]) == expected[: len(found)]
    assert all(one < two for one, two in pairwise(found))


def scheduled(first: Period, cron: str) -> list[Period]:
    """What Prefect's own schedule releases, from the same moment on."""
    from prefect.server.schemas.schedules import CronSchedule

    day = first.next().next().first_day
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    runs = asyncio.run(CronSchedule(cron=cron, timezone="UTC").get_dates(n=60, start=start))
    return list(dict.fromkeys(Period.previous(run, first.grain) for run in runs))
