"""How far each due period is, and who has to act: from the ledger's facts first, then from what was tried last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from dpbayes.calendar.due import Due, due_periods
from dpbayes.calendar.facts import PeriodFacts, StudyFacts
from dpbayes.study.study import Study
from storage.home.attempts import AWAITING_TABLE, DIED, DONE, STOPPED, Attempt, minute

State = Literal[
    "done",
    "due",
    "running",
    "waiting",
    "late",
    "refused",
    "failed",
    "not-converged",
    "shape-differs",
    "integrity",
]
Who = Literal["steward", "analyst", "operator", "auditor"]

MOST_SERIOUS_FIRST = (5, 3, 4, 6, 2, 1)
"""Exit codes in the order in which they are reported where several things need a person."""

FAILURES: Mapping[int, tuple[State, Who]] = {
    1: ("failed", "operator"),
    2: ("failed", "steward"),
    3: ("refused", "steward"),
    4: ("shape-differs", "steward"),
    5: ("integrity", "auditor"),
}
"""The state that a failed attempt leaves, and who has to act, by the exit code of the command."""


@dataclass(frozen=True, kw_only=True)
class PeriodState:
    """How far a due period is, in a sentence; `who` has to act, if anybody."""

    period: str
    state: State
    due: datetime
    sentence: str
    exit_code: int = 0
    who: Who | None = None
    until: datetime | None = None  # how long it waits for its table
    stored: bool = False  # whether every release of it is on the ledger: its table is not needed any more
    attempt: Attempt | None = None

    @property
    def over(self) -> bool:
        """Whether the calendar is through with it: a posterior that has not converged is archived as such."""
        return self.state in ("done", "not-converged")

    def to_record(self) -> dict[str, Any]:
        """Plain data for JSON documents."""
        return {
            "period": self.period,
            "state": self.state,
            "due": _second(self.due),
            "sentence": self.sentence,
            "exit_code": self.exit_code,
            "who": self.who,
            "until": None if self.until is None else _second(self.until),
            "attempt": None if self.attempt is None else self.attempt.to_record(),
        }


def worst(codes: Iterable[int]) -> int:
    """The most serious of some exit codes; 0 where all is well."""
    found = set(codes)
    return next((code for code in MOST_SERIOUS_FIRST if code in found), 1 if found - {0} else 0)


def period_states(
    study: Study, facts: StudyFacts, attempts: Mapping[str, Attempt], now: datetime
) -> tuple[PeriodState, ...]:
    """The state of every period that is due, oldest first.

    Periods are released in order: one that is not over stops those after it, and their sentences say so.
    """
    found: list[PeriodState] = []
    for due in due_periods(study, facts.first_entry, now):
        before = next((one for one in found if not one.over), None)
        name = due.period.name
        found.append(_state(_Asked(study, due, facts.of(name), attempts.get(name), now), before))
    return tuple(found)


@dataclass(frozen=True)
class _Asked:
    study: Study
    due: Due
    facts: PeriodFacts
    attempt: Attempt | None
    now: datetime

    def state(self, state: State, sentence: str, **more: Any) -> PeriodState:
        """This period in that state."""
        about = {"period": self.due.period.name, "due": self.due.at, "stored": self.facts.stored}
        return PeriodState(**about, attempt=self.attempt, state=state, sentence=sentence, **more)


def _state(asked: _Asked, before: PeriodState | None) -> PeriodState:
    if asked.facts.done:
        return _done(asked)
    attempt = asked.attempt
    since = f"It is due since {minute(asked.due.at)}."
    if attempt is not None and attempt.alive(asked.now):
        where = f"on {attempt.host} (process {attempt.pid})"
        return asked.state("running", f"A run began at {minute(attempt.begun)} {where} and is at work.")
    if before is not None:
        return asked.state("due", f"{since} It is released after {before.period}, which is {before.state}.")
    if attempt is None or attempt.outcome in (DONE, STOPPED):
        return asked.state("due", since)
    if attempt.outcome == DIED or attempt.dead(asked.now):
        return asked.state("due", f"{attempt.died().message} It is due again.")
    if attempt.outcome == AWAITING_TABLE:
        return _awaiting(asked)
    state, who = FAILURES.get(attempt.exit_code or 1, FAILURES[1])
    return asked.state(state, attempt.message or since, exit_code=attempt.exit_code or 1, who=who)


def _done(asked: _Asked) -> PeriodState:
    facts = asked.facts
    if not facts.released:
        return asked.state("done", _unreleased(facts))
    if facts.withdrawn:
        return asked.state("done", "It is released, and withdrawn.")
    if facts.analysed == "not-converged":
        said = "It is released. A posterior has not converged and is archived as such: do not publish it."
        return asked.state("not-converged", said, exit_code=6, who="analyst")
    return asked.state("done", "It is released." if not asked.study.analyses else "It is released and analysed.")


def _unreleased(facts: PeriodFacts) -> str:
    """Why a period is over although it lacks releases that the study declares."""
    if facts.closed:
        what = "everything was released" if facts.charged else "it was released"
        return f"The period was closed before {what}."
    if facts.charged:
        return "It was released before the study declared all that it does now. Run it by hand to release the rest."
    return "It was passed over: a later period was released. Run it by hand, or state `schedule.first`."


def _awaiting(asked: _Asked) -> PeriodState:
    ready = asked.study.source.ready
    if ready is None:  # the rule was taken out of the study since
        return asked.state("due", f"It is due since {minute(asked.due.at)}.")
    until = asked.due.at + ready.after.length
    if asked.now < until:
        said = f"Its table is not there yet. It is looked for every {ready.retry} until {minute(until)}."
        return asked.state("waiting", said, until=until)
    said = f"Its table was awaited until {minute(until)} and is not there. Put it in place, or close the period."
    return asked.state("late", said, exit_code=4, who="steward", until=until)


def _second(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
