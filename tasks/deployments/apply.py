"""Carries out the steps of a plan by the API of a Prefect server; each may be repeated."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate, WorkPoolCreate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions, StateType
from prefect.client.schemas.schedules import CronSchedule
from prefect.workers.process import ProcessWorker

from tasks.deployments.plan import RETIRING, Step
from tasks.deployments.present import PAGE, Present, PresentDeployment
from tasks.deployments.variables import CARRIED
from tasks.deployments.wanted import Deployment, Queue, Schedule, Wanted

CANCEL_NEW = ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)


def apply(client: SyncPrefectClient, wanted: Wanted, present: Present, steps: Sequence[Step]) -> None:
    """Bring the server in line; what is to be left is not touched."""
    for step in steps:
        if step.action == "leave":
            continue
        if step.kind == "pool":
            _make_pool(client, step.name)
        elif step.kind == "queue":
            _queue(client, wanted.pool, present, step)
        else:
            _deployment(client, step)


def _make_pool(client: SyncPrefectClient, name: str) -> None:
    template = ProcessWorker.get_default_base_job_template()
    client.create_work_pool(WorkPoolCreate(name=name, type=ProcessWorker.type, base_job_template=template))


def _queue(client: SyncPrefectClient, pool: str, present: Present, step: Step) -> None:
    found = present.queues.get(step.name)
    if step.action == "retire" and found is not None:
        client.delete_work_queue_by_id(found.id)
    elif isinstance(step.wanted, Queue):
        options: dict[str, Any] = {"concurrency_limit": step.wanted.limit, "description": step.wanted.description}
        if found is None:
            client.create_work_queue(step.name, work_pool_name=pool, **options)
        else:
            client.update_work_queue(found.id, **options)


def _deployment(client: SyncPrefectClient, step: Step) -> None:
    present = step.present
    if isinstance(step.wanted, Deployment):
        if present is None:
            _make(client, step.wanted)
        else:
            _change(client, step.wanted, present, {change.what for change in step.changes})
    elif present is not None:
        _take_off(client, present)
        if step.action == "retire":
            client.delete_deployment(present.found.id)


def _make(client: SyncPrefectClient, wanted: Deployment) -> None:
    client.create_deployment(
        flow_id=client.create_flow_from_name(wanted.flow),
        name=wanted.name,
        schedules=[_to_create(one) for one in wanted.schedules],
        concurrency_options=None if wanted.limit is None else CANCEL_NEW,
        pull_steps=[],
        **_options(wanted, {}, ()),
    )


def _change(client: SyncPrefectClient, wanted: Deployment, present: PresentDeployment, changed: set[str]) -> None:
    found = present.found
    if changed - {"schedule"}:
        options = _options(wanted, found.job_variables, found.tags)
        if wanted.limit is not None:
            options["concurrency_options"] = CANCEL_NEW
        if RETIRING in found.tags:
            options["paused"] = False
        client.update_deployment(found.id, DeploymentUpdate(**options))
    if "schedule" in changed:
        _reschedule(client, present, wanted.schedules)


def _options(wanted: Deployment, job_variables: Mapping[str, Any], tags: Sequence[str]) -> dict[str, Any]:
    """What making and changing have in common; variables and tags that others set are kept."""
    variables = {name: value for name, value in (job_variables.get("env") or {}).items() if name not in CARRIED}
    return {
        "entrypoint": wanted.entrypoint,
        "parameter_openapi_schema": dict(wanted.schema),
        "description": wanted.description,
        "parameters": dict(wanted.parameters),
        "work_pool_name": wanted.pool,
        "work_queue_name": wanted.queue,
        "job_variables": {**job_variables, "env": {**variables, **wanted.variables}},
        "tags": sorted({*tags, *wanted.tags} - {RETIRING}),
        "concurrency_limit": wanted.limit,
    }


def _reschedule(client: SyncPrefectClient, present: PresentDeployment, wanted: Sequence[Schedule]) -> None:
    """A schedule is changed, so that it keeps whether it is active; an empty list would change none at all.

    Where the deployment has none by the slug of the first, one that was added by hand is changed.
    """
    named = {each.slug: each for each in wanted}
    kept = {each.slug: each for each in present.schedules if each.slug in named}
    others = [each for each in present.schedules if each.slug not in named]
    if wanted and others and wanted[0].slug not in kept:
        kept[wanted[0].slug] = others.pop(0)
    for one in others:
        client.delete_deployment_schedule(present.found.id, one.id)
    for slug, one in kept.items():
        client.update_deployment_schedule(present.found.id, one.id, schedule=_cron(named[slug]), slug=slug)
    if new := [each for slug, each in named.items() if slug not in kept]:
        client.create_deployment_schedules(present.found.id, [_to_create(each) for each in new])


def _to_create(schedule: Schedule) -> DeploymentScheduleCreate:
    return DeploymentScheduleCreate(schedule=_cron(schedule), active=True, slug=schedule.slug)


def _cron(schedule: Schedule) -> CronSchedule:
    return CronSchedule(cron=schedule.cron, timezone=schedule.timezone)


def _take_off(client: SyncPrefectClient, present: PresentDeployment) -> None:
    """No run of it begins any more: paused, then without schedules, then without the runs that were scheduled."""
    deployment = present.found.id
    tags = sorted({*present.found.tags, RETIRING})
    client.update_deployment(deployment, DeploymentUpdate(paused=True, tags=tags))
    for schedule in present.schedules:
        client.delete_deployment_schedule(deployment, schedule.id)
    while scheduled := _scheduled(client, deployment):
        for run in scheduled:
            client.delete_flow_run(run)


def _scheduled(client: SyncPrefectClient, deployment: UUID) -> list[UUID]:
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED]))
    found = client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment])),
        flow_run_filter=FlowRunFilter(state=state),
        limit=PAGE,
    )
    return [run.id for run in found]
