"""What waits for a person: failures, late tables, broken studies, and what is due and nothing tries."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from dpbayes.calendar.reanalyses import attempt_name
from dpbayes.calendar.states import FAILURES, PeriodState
from dpbayes.markup.numbers import listed
from dpbayes.project.project import Broken
from dpbayes.status.look import StudyStatus
from storage.home.attempts import Attempt, minute

IDLE = timedelta(days=1)
"""How long something may be due before a person is asked why nothing tries it."""

NOT_CONVERGED = 6

Document = dict[str, Any]


def waits_of_broken(broken: Sequence[Broken]) -> list[Document]:
    """Study files that somebody has to correct."""
    return [_of_study(str(path), 2, sentence) for path, sentence in broken]


def waits_of(status: StudyStatus, now: datetime) -> Iterator[Document]:
    """What a person has to do for a study."""
    name = status.study.study
    if status.failure is not None:
        yield _of_study(name, status.failure.exit_code, str(status.failure))
    for each in status.periods:
        if each.who is not None:
            yield _of_period(name, each, each.who, each.exit_code, each.sentence)
    first = next((each for each in status.periods if not each.over), None)
    if first is not None and first.state == "due" and (idle := _idle(first.due, first.attempt, now)):
        yield _of_period(name, first, "operator", 1, idle)
    for due in status.again:
        tried = status.attempts.get(attempt_name(due.analysis))
        if tried is not None and tried.exit_code and tried.begun >= due.at:
            yield _of_study(name, tried.exit_code, tried.message or "", due.analysis)
        elif idle := _idle(due.at, tried, now):
            yield _of_study(name, 1, idle, due.analysis) | {"state": "due"}


def verdict(waits: Sequence[Document]) -> str:
    """In one sentence, whether anything waits for a person."""
    if not waits:
        return "Nothing waits for a person."
    people = listed(sorted({one["who"] for one in waits}))
    return f"{len(waits)} matter{' waits' if len(waits) == 1 else 's wait'} for a person: {people}."


def _idle(due: datetime, tried: Attempt | None, now: datetime) -> str:
    """A sentence about what is due and that nothing tries; empty where something did a short time ago."""
    silence = now - (due if tried is None else max(due, tried.seen))
    if silence <= IDLE:
        return ""
    days = "a day" if silence.days == 1 else f"{silence.days} days"
    said = f"It is due since {minute(due)}, and nothing has tried it for {days}."
    return f"{said} See that a worker runs, or run `dpbayes catch-up`."


def _of_period(study: str, state: PeriodState, who: str, code: int, sentence: str) -> Document:
    about = {"study": study, "period": state.period, "analysis": None, "state": state.state}
    return {**about, "who": who, "exit_code": code, "sentence": sentence}


def _of_study(what: str, code: int, sentence: str, analysis: str | None = None) -> Document:
    """A study, the file of one, or an analysis to be made again, that cannot be read, used or made."""
    state, who = ("not-converged", "analyst") if code == NOT_CONVERGED else FAILURES.get(code, FAILURES[1])
    about = {"study": what, "period": None, "analysis": analysis, "state": state}
    return {**about, "who": who, "exit_code": code, "sentence": sentence}
