"""What has to be done so that a server has what a project wants, decided before anything is changed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dpbayes.project.project import Broken
from tasks.deployments.present import Present, PresentDeployment
from tasks.deployments.variables import CARRIED
from tasks.deployments.wanted import Deployment, Queue, Schedule, Wanted

Action = Literal["make", "change", "pause", "retire", "leave"]

RETIRING = "retiring"
"""Tag of a deployment whose study is gone and of which a run is still active."""


@dataclass(frozen=True)
class Change:
    """One property that differs."""

    what: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """What becomes of one object of the server."""

    action: Action
    kind: Literal["pool", "queue", "deployment"]
    name: str
    changes: tuple[Change, ...] = ()
    why: str = ""
    problem: bool = False  # something that a person has to correct first
    wanted: Deployment | Queue | None = None
    present: PresentDeployment | None = None

    def to_record(self) -> dict[str, Any]:
        """The step for people and programs."""
        changes = [{"what": one.what, "from": one.old, "to": one.new} for one in self.changes]
        return {"action": self.action, "kind": self.kind, "name": self.name, "changes": changes, "why": self.why}


def plan(wanted: Wanted, present: Present, broken: Sequence[Broken] = ()) -> tuple[Step, ...]:
    """Every object with what is done to it, in an order in which it can be done."""
    asked = {each.full_name: each for each in wanted.deployments}
    steps = [_deployment(each, present.deployments.get(name)) for name, each in asked.items()]
    kept = {str(each.path): each.sentence for each in broken}
    ours = [each for name, each in sorted(present.deployments.items()) if each.ours and name not in asked]
    steps += [_unwanted(each, kept) for each in ours]
    queues = [_queue(each, present) for each in wanted.queues]
    pool = Step(action="leave" if present.pool else "make", kind="pool", name=wanted.pool)
    return (pool, *queues, *steps, *_idle_queues(wanted, present, steps))


def properties(wanted: Deployment) -> dict[str, Any]:
    """What dpbayes decides on of a deployment, by the words of the plan."""
    return {
        "description": wanted.description,
        "entrypoint": wanted.entrypoint,
        "parameters": dict(wanted.parameters),
        "form": _filled(wanted.schema),
        "pool": wanted.pool,
        "queue": wanted.queue,
        "limit": wanted.limit,
        "schedule": ", ".join(sorted(map(str, wanted.schedules))) or None,
    }


def present_properties(present: PresentDeployment) -> dict[str, Any]:
    """The same of what the server has."""
    found = present.found
    limit = found.global_concurrency_limit
    return {
        "description": found.description,
        "entrypoint": found.entrypoint,
        "parameters": found.parameters,
        "form": _filled(found.parameter_openapi_schema or {}),
        "pool": found.work_pool_name,
        "queue": found.work_queue_name,
        "limit": None if limit is None else limit.limit,
        "schedule": ", ".join(sorted(_schedule_words(each.schedule) for each in present.schedules)) or None,
    }


def _schedule_words(schedule: Any) -> str:
    """A schedule of ours, or what somebody added by hand, which may be of another type."""
    cron = getattr(schedule, "cron", None)
    return str(Schedule(cron, schedule.timezone or "UTC")) if cron else type(schedule).__name__


def _filled(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without its empty parts, which some of Prefect's clients leave out."""
    return {name: value for name, value in schema.items() if value}


def _deployment(wanted: Deployment, present: PresentDeployment | None) -> Step:
    named: dict[str, Any] = {"kind": "deployment", "name": wanted.full_name, "wanted": wanted, "present": present}
    if present is None:
        return Step(action="make", **named)
    if not present.ours:
        why = (
            "a deployment of that name exists which this project did not make. Rename the study, or delete it with "
            f"`prefect deployment delete {wanted.full_name}`."
        )
        return Step(action="leave", why=why, problem=True, **named)
    changes = tuple(_differences(wanted, present))
    return Step(action="change" if changes else "leave", changes=changes, **named)


def _differences(wanted: Deployment, present: PresentDeployment) -> Iterator[Change]:
    old, new = present_properties(present), properties(wanted)
    yield from (Change(name, _said(name, old), _said(name, new)) for name in new if old[name] != new[name])
    stated: Mapping[str, str] = present.found.job_variables.get("env") or {}
    for name in sorted({*CARRIED, *wanted.variables}):
        if stated.get(name) != wanted.variables.get(name):
            yield Change(name, stated.get(name) or "not set", wanted.variables.get(name) or "not set")
    if RETIRING in present.found.tags:
        yield Change("study", "removed", "back")


def _said(name: str, values: Mapping[str, Any]) -> str:
    value = values[name]
    if name == "form":
        return ", ".join(value.get("properties", {}))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={each}" for key, each in value.items())
    return "none" if value is None else str(value)


def _unwanted(present: PresentDeployment, broken: Mapping[str, str]) -> Step:
    """A deployment of a study that is gone, was renamed, or cannot be read at the moment."""
    named: dict[str, Any] = {"kind": "deployment", "name": present.full_name, "present": present}
    if why := broken.get(str(present.found.parameters.get("study"))):
        return Step(action="leave", why=why, **named)
    if not present.active:
        return Step(action="retire", why="no study of the project has that name.", **named)
    why = (
        "no study of the project has that name, but Prefect says that a run of it is active. Deploy again when it has "
        f"ended; if no worker is at it any more, `prefect deployment delete {present.full_name}`."
    )
    done = present.found.paused and RETIRING in present.found.tags and not present.schedules
    return Step(action="leave" if done else "pause", why=why, **named)


def _queue(wanted: Queue, present: Present) -> Step:
    found = present.queues.get(wanted.name)
    if found is None:
        return Step(action="make", kind="queue", name=wanted.name, wanted=wanted)
    pairs = (("limit", found.concurrency_limit, wanted.limit), ("description", found.description, wanted.description))
    changes = tuple(Change(name, str(old), str(new)) for name, old, new in pairs if old != new)
    return Step(action="change" if changes else "leave", kind="queue", name=wanted.name, changes=changes, wanted=wanted)


def _idle_queues(wanted: Wanted, present: Present, steps: Sequence[Step]) -> Iterator[Step]:
    """Queues that dpbayes made and that no deployment of any project uses any more."""
    asked = {each.name for each in wanted.queues}
    leaving = {
        str(step.present.found.id)
        for step in steps
        if step.present is not None and (step.action == "retire" or (step.action == "change" and _moves(step)))
    }
    for name, users in sorted(present.users.items()):
        if name not in asked and users <= leaving:
            yield Step(action="retire", kind="queue", name=name, why="no deployment uses it.")


def _moves(step: Step) -> bool:
    return any(change.what in ("queue", "pool") for change in step.changes)
