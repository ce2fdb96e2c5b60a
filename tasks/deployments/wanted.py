"""What a Prefect server should have for a project: a pool, a queue for each population, a deployment for each study."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbayes.project.project import Project
from dpbayes.study.study import Study

RUN, CATCH_UP = "run", "catch-up"
"""The names of the flows that are deployed."""

PERIOD = "due"
"""What the runs of a study take: every period that is due, oldest first."""

MARK = "dpbayes"
"""Tag of all deployments, and slug of all schedules, that `dpbayes deploy` makes."""


def project_tag(folder: Path) -> str:
    """The tag by which the deployments of a project are known."""
    return f"project:{folder}"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A flow as a deployment names it."""

    flow: str
    entrypoint: str  # a module and a name in it, which exists wherever dpbayes is installed
    schema: Mapping[str, Any]  # of its parameters, for the server's form of a run by hand


@dataclass(frozen=True)
class Schedule:
    """When runs begin."""

    cron: str
    timezone: str
    slug: str = MARK  # by which it is known among those of its deployment

    def __str__(self) -> str:
        return f"{self.cron} {self.timezone}"


@dataclass(frozen=True)
class Queue:
    """A work queue of the pool; runs above its limit wait in it."""

    name: str
    limit: int | None
    description: str


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One deployment, as far as dpbayes decides on it."""

    flow: str
    name: str
    entrypoint: str
    schema: Mapping[str, Any]
    description: str
    parameters: Mapping[str, str]
    schedules: tuple[Schedule, ...]
    pool: str
    queue: str
    variables: Mapping[str, str]
    tags: frozenset[str]
    limit: int | None  # of runs at a time: one more is cancelled

    @property
    def full_name(self) -> str:
        """The name as Prefect's commands take it."""
        return f"{self.flow}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Everything that a server should have for a project."""

    folder: Path
    pool: str
    queues: tuple[Queue, ...]
    deployments: tuple[Deployment, ...]


def wanted(project: Project, entries: Mapping[str, Entry], variables: Mapping[str, str]) -> Wanted:
    """What a project asks of a server, with the flows that there are and the variables of all runs."""
    populations = sorted({study.population for study in project.studies})
    queues = [
        Queue(queue_of(name), 1, f"{MARK}: runs that charge population {name} wait here for each other")
        for name in populations
    ]
    deployments = [_of_study(study, project, entries[RUN], variables) for study in project.studies]
    if project.studies or project.broken:
        queues.append(Queue(CATCH_UP, None, f"{MARK}: runs that look for what is due"))
        deployments.append(_catch_up(project, entries[CATCH_UP], variables))
    pool = project.settings.prefect.pool
    return Wanted(folder=project.folder, pool=pool, queues=tuple(queues), deployments=tuple(deployments))


def queue_of(population: str) -> str:
    """The name of a population's queue."""
    return f"population-{population}"


def _of_study(study: Study, project: Project, entry: Entry, variables: Mapping[str, str]) -> Deployment:
    return Deployment(
        flow=entry.flow,
        name=study.study,
        entrypoint=entry.entrypoint,
        schema=entry.schema,
        description=f"Release and analyse what is due of study {study.study}, population {study.population}.",
        parameters={"study": str(study.path), "period": PERIOD},
        schedules=tuple(_schedules(study)),
        pool=project.settings.prefect.pool,
        queue=queue_of(study.population),
        variables=variables,
        tags=_tags(project),
        limit=None,
    )


def _schedules(study: Study) -> Iterator[Schedule]:
    """When its periods are due, and when each of its analyses is made again."""
    if study.schedule is not None:
        yield Schedule(study.schedule.cron, study.schedule.timezone)
    for name, spec in study.analyses.items():
        if spec.schedule is not None:
            yield Schedule(spec.schedule.cron, spec.schedule.timezone, f"{MARK}-{name}")


def _catch_up(project: Project, entry: Entry, variables: Mapping[str, str]) -> Deployment:
    settings = project.settings.prefect
    return Deployment(
        flow=entry.flow,
        name=_name_of(project.folder),
        entrypoint=entry.entrypoint,
        schema=entry.schema,
        description=f"Work off everything that is due in project {project.folder}.",
        parameters={"folder": str(project.folder)},
        schedules=(Schedule(settings.catch_up, "UTC"),),
        pool=settings.pool,
        queue=CATCH_UP,
        variables=variables,
        tags=_tags(project),
        limit=1,
    )


def _tags(project: Project) -> frozenset[str]:
    return frozenset((MARK, project_tag(project.folder)))


def _name_of(folder: Path) -> str:
    """The whole path, since many projects are in folders of one name."""
    return re.sub(r"[^\w.-]+", "-", str(folder)).strip("-")
