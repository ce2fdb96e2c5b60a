"""Cron expressions of five fields."""

import pytest

from dpbayes.study.schedule import cron_problem


@pytest.mark.parametrize(
    "expression",
    [
        "0 2 1 * *",
        "*/15 * * * *",
        "0 0 1,15 * *",
        "0 9-17 * * mon-fri",
        "30 4 29 feb *",
        "0 0 * * 7",
        "0 0 30 2 1",
        "  0  2 1 * * ",
    ],
)
def test_what_fires_is_accepted(expression: str) -> None:
    assert cron_problem(expression) is None


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "this has 0"),
        ("0 2 1 *", "this has 4"),
        ("0 2 1 * * *", "this has 6"),
        ("@monthly", "this has 1"),
        ("60 2 1 * *", "minute"),
        ("0 24 1 * *", "hour"),
        ("0 2 0 * *", "day of month"),
        ("0 2 32 * *", "day of month"),
        ("0 2 1 13 *", "month"),
        ("0 2 1 * 8", "day of week"),
        ("0 2 1 * funday", "day of week"),
        ("0 2 5-1 * *", "day of month"),
        ("0 2 1-2-3 * *", "day of month"),
        ("*/0 2 1 * *", "minute"),
        ("5/10 2 1 * *", "minute"),
        ("1, 2 1 * *", "minute"),
        ("-1 2 1 * *", "minute"),
        ("1-a 2 1 * *", "minute"),
        ("٣ 2 1 * *", "minute"),
        ("0 2 31 2,4,6 *", "no month"),
        ("0 2 30 feb *", "no month"),
    ],
)
def test_what_is_wrong_or_never_fires_is_said(expression: str, words: str) -> None:
    assert words in str(cron_problem(expression))


def test_the_scheduler_takes_what_is_accepted_here() -> None:
    from prefect.client.schemas.schedules import CronSchedule

    for expression in ("0 2 1 * *", "*/15 * * * *", "0 9-17 * * mon-fri", "30 4 29 feb *", "0 0 30 2 1"):
        assert cron_problem(expression) is None
        assert CronSchedule(cron=expression, timezone="Europe/Amsterdam").cron == expression
