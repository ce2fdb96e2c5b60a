"""The status of a project as one document, which people, programs and monitors read."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dpbayes.calendar.facts import PeriodFacts
from dpbayes.calendar.reanalyses import attempt_name, made_again
from dpbayes.calendar.states import PeriodState, worst
from dpbayes.status.look import ProjectStatus, StudyStatus
from dpbayes.status.waits import verdict, waits_of, waits_of_broken
from dpbayes_core.errors import DpbayesError

SCHEMA_VERSION = 1

Document = dict[str, Any]


def status_document(status: ProjectStatus) -> Document:
    """The whole document; `server` is None until a Prefect server was asked."""
    broken = [{"file": str(path), "message": sentence} for path, sentence in status.project.broken]
    waits = waits_of_broken(status.project.broken)
    for each in status.studies:
        waits += waits_of(each, status.now)
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
        "again": [_again(status, name) for name in study.reanalysed],
        "error": None if status.failure is None else _error(status.failure),
        "deployment": None,
    }


def _last(period: str, facts: PeriodFacts) -> Document:
    return {"period": period, "day": facts.day, "analysed": facts.analysed, "withdrawn": facts.withdrawn}


def _again(status: StudyStatus, analysis: str) -> Document:
    """An analysis with a schedule of its own: whether it is due, when it was made again, and what was tried last."""
    due = next((each.at for each in status.again if each.analysis == analysis), None)
    made, tried = made_again(status.attempts).get(analysis), status.attempts.get(attempt_name(analysis))
    return {
        "analysis": analysis,
        "due": None if due is None else _second(due),
        "made": None if made is None else _second(made),
        "attempt": None if tried is None else tried.to_record(),
    }


def _counts(periods: tuple[PeriodState, ...]) -> dict[str, int]:
    """How many of the due periods are in each state, as far as any is."""
    states = [each.state for each in periods]
    return {state: states.count(state) for state in dict.fromkeys(states)}


def _error(failure: DpbayesError) -> Document:
    return {"kind": failure.kind, "message": str(failure), "exit_code": failure.exit_code}


def add_server(document: Mapping[str, Any], server: Mapping[str, Any]) -> Document:
    """The document with what a Prefect server says; it changes neither states nor exit code."""
    deployments = server["deployments"]
    studies = [{**study, "deployment": deployments.get(study["file"])} for study in document["studies"]]
    about = {name: value for name, value in server.items() if name != "deployments"}
    return {**document, "studies": studies, "server": about}


def _second(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
