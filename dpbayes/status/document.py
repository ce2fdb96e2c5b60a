"""The status of a project as one document, which people, programs and monitors read."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from dpbayes.calendar.states import FAILURES, PeriodState, worst
from dpbayes.status.look import ProjectStatus, StudyStatus
from dpbayes_core.errors import DpbayesError
from storage.home.attempts import minute

SCHEMA_VERSION = 1

IDLE = timedelta(days=1)
"""How long a period may be due before a person is asked why nothing tried it."""

Document = dict[str, Any]


def status_document(status: ProjectStatus) -> Document:
    """The whole document; `server` is None until a Prefect server was asked."""
    broken = [{"file": str(path), "message": sentence} for path, sentence in status.project.broken]
    waits = [*(_wait_for(one["file"], 2, one["message"]) for one in broken)]
    for each in status.studies:
        waits += _waits(each, status.now)
    return {
        "schema_version": SCHEMA_VERSION,
        "folder": str(status.project.folder),
        "at": _second(status.now),
        "exit_code": worst(one["exit_code"] for one in waits),
        "verdict": verdict(waits),
        "waits": waits,
        "studies": [_study(each) for each in status.studies],
        "broken": broken,
        "budget": [runway.to_record() for runway in status.budget],
        "server": None,
    }


def verdict(waits: list[Document]) -> str:
    """In one sentence, whether anything waits for a person."""
    if not waits:
        return "Nothing waits for a person."
    people = sorted({one["who"] for one in waits})
    named = people[0] if len(people) == 1 else f"{', '.join(people[:-1])} and {people[-1]}"
    return f"{len(waits)} matter{' waits' if len(waits) == 1 else 's wait'} for a person: {named}."


def _study(status: StudyStatus) -> Document:
    study, due, last = status.study, status.next, status.last
    schedule = study.schedule
    return {
        "study": study.study,
        "population": study.population,
        "file": str(study.path),
        "home": None if status.home is None else str(status.home),
        "schedule": None if schedule is None else {"cron": schedule.cron, "timezone": schedule.timezone},
        "next": None if due is None else {"period": due.period.name, "due": _second(due.at)},
        "last": None if last is None else _last(*last),
        "counts": _counts(status.periods),
        "periods": [state.to_record() for state in status.periods if state.state != "done"],
        "error": None if status.failure is None else _error(status.failure),
        "deployment": None,
    }


def _last(period: str, facts: Any) -> Document:
    return {"period": period, "day": facts.day, "analysed": facts.analysed, "withdrawn": facts.withdrawn}


def _counts(periods: tuple[PeriodState, ...]) -> dict[str, int]:
    """How many of the due periods are in each state, as far as any is."""
    states = [each.state for each in periods]
    return {state: states.count(state) for state in dict.fromkeys(states)}


def _error(failure: DpbayesError) -> Document:
    return {"kind": failure.kind, "message": str(failure), "exit_code": failure.exit_code}


def _waits(status: StudyStatus, now: datetime) -> Iterator[Document]:
    """What a person has to do for a study."""
    name = status.study.study
    if status.failure is not None:
        yield _wait_for(name, status.failure.exit_code, str(status.failure))
    for each in status.periods:
        if each.who is not None:
            yield _wait(name, each, each.who, each.exit_code, each.sentence)
    first = next((each for each in status.periods if not each.over), None)
    if first is not None and first.state == "due" and now - _last_sign(first) > IDLE:
        said = (
            f"It is due since {minute(first.due)}, and nothing has tried it for {(now - _last_sign(first)).days} days"
        )
        said = said.replace(" 1 days", " a day")
        yield _wait(name, first, "operator", 1, f"{said}. See that a worker runs, or run `dpbayes catch-up`.")


def _last_sign(state: PeriodState) -> datetime:
    return state.due if state.attempt is None else max(state.due, state.attempt.seen)


def _wait(study: str, state: PeriodState, who: str, code: int, sentence: str) -> Document:
    about = {"study": study, "period": state.period, "state": state.state}
    return {**about, "who": who, "exit_code": code, "sentence": sentence}


def _wait_for(what: str, code: int, sentence: str) -> Document:
    """A study, or the file of one, that cannot be used or read."""
    state, who = FAILURES.get(code, FAILURES[1])
    return {"study": what, "period": None, "state": state, "who": who, "exit_code": code, "sentence": sentence}


def add_server(document: Mapping[str, Any], server: Mapping[str, Any]) -> Document:
    """The document with what a Prefect server says; it changes neither states nor exit code."""
    deployments = server["deployments"]
    studies = [{**study, "deployment": deployments.get(study["file"])} for study in document["studies"]]
    about = {name: value for name, value in server.items() if name != "deployments"}
    return {**document, "studies": studies, "server": about}


def _second(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
