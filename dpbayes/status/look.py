"""How far each study of a project is, and how far its budget lasts: read from homes alone, nothing is written."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from dpbayes.calendar.due import Due, coming_due, due_at
from dpbayes.calendar.facts import PeriodFacts, StudyFacts, facts_of_all
from dpbayes.calendar.reanalyses import DueAnalysis, due_analyses, made_again
from dpbayes.calendar.states import PeriodState, period_states
from dpbayes.plans.runway import CapRunway, Payer, runways
from dpbayes.project.place import project_above
from dpbayes.project.project import Project, load_project
from dpbayes.project.settings import load_settings
from dpbayes.study.load import load_study
from dpbayes.study.schedule import coming
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError
from storage.home.attempts import Attempt, Attempts
from storage.home.home import Home
from storage.ledger.page import Page
from storage.ledger.reading import AccountSnapshot, Reading, look


@dataclass(kw_only=True)
class StudyStatus:
    """One study; with `failure`, as far as it could be read."""

    study: Study
    home: Path | None = None
    periods: tuple[PeriodState, ...] = ()
    """Every period that is due, oldest first."""
    next: Due | None = None
    """The period that is due next."""
    last: tuple[str, PeriodFacts] | None = None
    """The newest period that is released."""
    again: tuple[DueAnalysis, ...] = ()
    """The analyses that are due by schedules of their own."""
    attempts: Mapping[str, Attempt] = field(default_factory=dict[str, Attempt])
    failure: DpbayesError | None = None


@dataclass(frozen=True, kw_only=True)
class ProjectStatus:
    """Everything that the homes near the studies of a project have on record."""

    project: Project
    studies: tuple[StudyStatus, ...]
    budget: tuple[CapRunway, ...]
    now: datetime


def project_at(place: Path) -> Project:
    """The project in a folder; of a study file, a project of this study alone."""
    if place.is_dir():
        return load_project(place)
    study = load_study(place)
    folder = project_above(study.path) or study.path.parent
    return Project(folder=folder.resolve(), settings=load_settings(folder), studies=(study,), broken=())


def status_of(project: Project, now: datetime, keys: Sequence[str] = ()) -> ProjectStatus:
    """Look at every study; what fails at one stops no other. `keys` are trusted fingerprints, for other users."""
    studies = [StudyStatus(study=study, next=_next(study, now)) for study in project.studies]
    budget: list[CapRunway] = []
    for group in _by_home(studies):
        try:
            with look(group[0].study.path, keys) as reading, reading.ledger.snapshot() as page:
                payers = list(_look_at(group, reading, page, now))
                budget += runways(payers, now)
        except DpbayesError as failure:
            for each in group:
                each.failure = each.failure or failure
    return ProjectStatus(project=project, studies=tuple(studies), budget=tuple(budget), now=now)


def _next(study: Study, now: datetime) -> Due | None:
    return None if study.schedule is None else coming_due(study, now)


def _by_home(studies: Sequence[StudyStatus]) -> list[list[StudyStatus]]:
    """The studies of each home, which is read once for all of them."""
    groups: dict[Path, list[StudyStatus]] = {}
    for each in studies:
        try:
            each.home = Home.look(each.study.path).folder
            groups.setdefault(each.home, []).append(each)
        except DpbayesError as failure:
            each.failure = failure
    return list(groups.values())


def _look_at(group: Sequence[StudyStatus], reading: Reading, page: Page, now: datetime) -> Iterator[Payer]:
    """Fill in what is known of studies of one home; of each that can pay, its account and its coming periods."""
    facts = facts_of_all([each.study for each in group], page, reading.archive)
    for each in group:
        study, found = each.study, facts[each.study.study]
        each.attempts = Attempts(reading.home.runs, study.study).read()
        each.last = _last(found)
        each.again = due_analyses(study, now, made_again(each.attempts))
        if study.schedule is not None:
            each.periods = period_states(study, found, each.attempts, now)
        try:
            snapshot = AccountSnapshot.on(page, study.account(), study.study)
            yield Payer(study, snapshot, tuple(_coming(each)))
        except DpbayesError as failure:
            each.failure = failure


def _last(facts: StudyFacts) -> tuple[str, PeriodFacts] | None:
    released = {name: found for name, found in facts.charged.items() if found.released}
    return max(released.items(), default=None, key=lambda item: item[0])


def _coming(status: StudyStatus) -> Iterator[Due]:
    """The periods that are due and not over, then those of a year."""
    study = status.study
    if study.schedule is None or status.next is None:
        return
    yield from (Due(study.parse_period(each.period), each.due) for each in status.periods if not each.over)
    with suppress(OverflowError):  # the calendar ends in the year 9999
        for period in coming(status.next.period, study.schedule.cron):
            yield Due(period, due_at(study, period))
