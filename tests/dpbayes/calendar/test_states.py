"""How far a period is, in a word and a sentence, and who has to act."""

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dpbayes.calendar.facts import PeriodFacts, StudyFacts
from dpbayes.calendar.states import period_states, worst
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from storage.home.attempts import Attempt
from tests.support.desk import STUDY

FIRST = 'schedule: {cron: "0 2 1 * *", first: 2026-01}'
DUE = datetime(2026, 2, 1, 2, tzinfo=UTC)
RELEASED = PeriodFacts(charged=True, released=True, analysed="converged")
GONE = 2**22 + 1  # no process has this number


def study(folder: Path, ready: str = "") -> Study:
    text = STUDY.replace('schedule: {cron: "0 2 1 * *"}', FIRST).replace("unit: person}", f"unit: person{ready}}}")
    (folder / "study.yaml").write_text(text)
    return load_study(folder / "study.yaml")


def attempt(outcome: str, period: str = "2026-01", **said: Any) -> Attempt:
    about: dict[str, Any] = {"begun": DUE, "seen": DUE, "host": socket.gethostname(), "pid": GONE}
    return Attempt(study="pay", period=period, outcome=outcome, **{**about, **said})


def states(study: Study, *tried: Attempt, now: datetime = DUE, **facts: PeriodFacts) -> list[Any]:
    known = StudyFacts({name.replace("_", "-").strip("m"): each for name, each in facts.items()})
    return list(period_states(study, known, {each.period: each for each in tried}, now))


def test_nothing_is_owed_before_it_is_due_and_then_it_is_due(tmp_path: Path) -> None:
    pay = study(tmp_path)
    assert states(pay, now=DUE - timedelta(minutes=1)) == []
    (state,) = states(pay)
    assert (state.period, state.state, state.exit_code, state.who) == ("2026-01", "due", 0, None)
    assert state.sentence == "It is due since 2026-02-01 02:00 UTC."


def test_the_ledger_and_the_archive_decide_whatever_was_tried(tmp_path: Path) -> None:
    failed = attempt("failed", exit_code=1, message="cannot go on.")
    (state,) = states(study(tmp_path), failed, m2026_01=RELEASED)
    assert (state.state, state.sentence, state.exit_code) == ("done", "It is released and analysed.", 0)
    (state,) = states(study(tmp_path), attempt("done"))
    assert state.state == "due"


def test_a_posterior_that_has_not_converged_is_for_the_analyst_and_stops_nothing(tmp_path: Path) -> None:
    facts = PeriodFacts(charged=True, released=True, analysed="not-converged")
    first, second = states(study(tmp_path), now=DUE + timedelta(days=30), m2026_01=facts)
    assert (first.state, first.exit_code, first.who) == ("not-converged", 6, "analyst")
    assert (second.state, second.sentence) == ("due", "It is due since 2026-03-01 02:00 UTC.")


def test_what_was_withdrawn_or_closed_is_owed_no_more(tmp_path: Path) -> None:
    withdrawn = PeriodFacts(charged=True, released=True, withdrawn=True)
    known = StudyFacts({"2026-01": withdrawn}, frozenset({"2026-02"}))
    first, second = period_states(study(tmp_path), known, {}, DUE + timedelta(days=30))
    assert [first.state, second.state] == ["done", "done"]
    assert (first.sentence, second.sentence) == (
        "It is released, and withdrawn.",
        "The period was closed before it was released.",
    )


def test_a_living_run_is_running_and_a_dead_one_is_due_again(tmp_path: Path) -> None:
    pay, seen = study(tmp_path), {"seen": DUE}
    (state,) = states(pay, attempt("running", pid=os.getpid(), **seen))
    assert (state.state, state.exit_code) == ("running", 0)
    assert f"(process {os.getpid()}) and is at work" in state.sentence
    for dead in (attempt("running", **seen), attempt("running", host="elsewhere", seen=DUE - timedelta(seconds=61))):
        (state,) = states(pay, dead)
        assert (state.state, state.exit_code) == ("due", 0)
        assert state.sentence.endswith("died before its end. It is due again.")
    (state,) = states(pay, attempt("running", host="elsewhere", seen=DUE - timedelta(seconds=59)))
    assert state.state == "running"


def test_a_missing_table_is_waited_for_by_the_rule_of_the_study_and_then_late(tmp_path: Path) -> None:
    pay, missing = study(tmp_path, ", ready: {after: 3d, retry: 2h}"), attempt("awaiting-table", exit_code=4)
    (state,) = states(pay, missing)
    assert (state.state, state.until, state.exit_code) == ("waiting", DUE + timedelta(days=3), 0)
    assert state.sentence == "Its table is not there yet. It is looked for every 2h until 2026-02-04 02:00 UTC."
    (state,) = states(pay, missing, now=DUE + timedelta(days=3))
    assert (state.state, state.exit_code, state.who) == ("late", 4, "steward")
    assert "awaited until 2026-02-04 02:00 UTC and is not there" in state.sentence


@pytest.mark.parametrize(
    ("exit_code", "state", "who"),
    [
        (1, "failed", "operator"),
        (2, "failed", "steward"),
        (3, "refused", "steward"),
        (4, "shape-differs", "steward"),
        (5, "integrity", "auditor"),
    ],
)
def test_a_failure_says_who_has_to_act_and_stops_the_periods_after_it(
    tmp_path: Path, exit_code: int, state: str, who: str
) -> None:
    failed = attempt("failed", exit_code=exit_code, message="cannot do it: a reason. Do that.")
    found, after = states(study(tmp_path), failed, now=DUE + timedelta(days=30))
    assert (found.state, found.exit_code, found.who) == (state, exit_code, who)
    assert found.sentence == "cannot do it: a reason. Do that."
    assert (after.state, after.exit_code) == ("due", 0)
    assert after.sentence.endswith(f"It is released after 2026-01, which is {state}.")
    assert found.to_record()["attempt"]["begun"] == "2026-02-01T02:00:00+00:00"


def test_the_most_serious_exit_code_is_reported() -> None:
    assert [worst(codes) for codes in ([], [0, 0], [1, 2], [6, 1], [4, 6], [3, 4], [5, 3, 0])] == [0, 0, 2, 6, 4, 3, 5]
