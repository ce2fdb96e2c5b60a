"""Which analyses are due by schedules of their own, and since when."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dpbayes.calendar.reanalyses import DueAnalysis, attempt_name, due_analyses, made_again
from dpbayes.study.load import load_study
from dpbayes.study.schedule import last_firing
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from storage.home.attempts import DONE, Attempt
from tests.support.desk import STUDY


def study(folder: Path, *schedules: str) -> Study:
    """A study with an analysis for each schedule."""
    named = (
        f"  {name}: {{release: pay-regression, schedule: {text}}}\n"
        for name, text in zip("abc", schedules, strict=False)
    )
    text = STUDY[: STUDY.index("analyses:")] + "analyses:\n" + "".join(named)
    (folder / "study.yaml").write_text(text)
    return load_study(folder / "study.yaml")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


YEARLY, MONTHLY = '{cron: "0 4 1 1 *"}', '{cron: "0 4 1 * *", timezone: Europe/Amsterdam}'


def test_an_analysis_is_due_from_the_last_firing_of_its_own_schedule_on(tmp_path: Path) -> None:
    pay = study(tmp_path, YEARLY, MONTHLY)
    found = due_analyses(pay, at("2027-03-05T00:00"))
    assert found == (DueAnalysis("a", at("2027-01-01T04:00")), DueAnalysis("b", at("2027-03-01T03:00")))


def test_what_was_made_again_since_is_not_due_and_several_missed_firings_are_one(tmp_path: Path) -> None:
    pay = study(tmp_path, YEARLY, MONTHLY)
    made = {"a": at("2027-01-01T04:00"), "b": at("2026-11-20T00:00")}
    assert [due.analysis for due in due_analyses(pay, at("2027-03-05T00:00"), made)] == ["b"]
    assert due_analyses(pay, at("2027-03-01T02:59"), {**made, "b": at("2027-02-01T03:00")}) == ()


def test_the_firing_itself_counts_and_the_moment_before_does_not(tmp_path: Path) -> None:
    pay = study(tmp_path, MONTHLY)
    made = {"a": at("2027-06-10T00:00")}
    assert due_analyses(pay, at("2027-07-01T01:59"), made) == ()
    assert due_analyses(pay, at("2027-07-01T02:00"), made) == (DueAnalysis("a", at("2027-07-01T02:00")),)


def test_an_analysis_without_a_schedule_is_never_due(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    pay = load_study(tmp_path / "study.yaml")
    assert due_analyses(pay, at("2027-03-05T00:00")) == ()


@pytest.mark.parametrize(
    ("cron", "now", "fired"),
    [
        ("*/15 * * * *", "2027-03-05T10:44", "2027-03-05T10:30"),
        ("0 0 29 2 *", "2027-03-05T00:00", "2024-02-29T00:00"),
        ("30 23 * * 0", "2026-11-22T23:29", "2026-11-15T23:30"),
    ],
)
def test_the_last_firing_is_found_however_rare_it_is(cron: str, now: str, fired: str) -> None:
    assert last_firing(cron, "UTC", at(now)) == at(fired)


def test_attempts_at_analyses_say_when_each_was_made_and_failures_do_not_count() -> None:
    def tried(name: str, outcome: str) -> Attempt:
        begun = at("2027-01-01T04:10")
        return Attempt(study="pay", period=name, begun=begun, host="here", pid=1, outcome=outcome, seen=begun)

    attempts = [tried(attempt_name("a"), DONE), tried(attempt_name("b"), "failed"), tried("2026-12", DONE)]
    assert made_again({one.period: one for one in attempts}) == {"a": at("2027-01-01T04:10")}


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ('{cron: "0 2 1"}', "cron has 5 fields"),
        ('{cron: "0 2 31 2 *"}', "no month chosen by this cron expression has that day"),
        ('{cron: "0 2 1 * *", timezone: Mars}', "is not a timezone"),
        ('{cron: "0 2 1 * *", first: 2026-01}', "first"),
    ],
)
def test_a_schedule_that_never_fires_is_refused_with_its_place(tmp_path: Path, schedule: str, said: str) -> None:
    with pytest.raises(StudyInvalid, match=said) as refused:
        study(tmp_path, schedule)
    assert "analyses.a.schedule" in str(refused.value)
