"""What a Prefect server has of a project already, asked of its API."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
    WorkQueueFilter,
    WorkQueueFilterName,
)
from prefect.client.schemas.objects import DeploymentSchedule, StateType, WorkQueue
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound

from tasks.deployments.wanted import CATCH_UP, MARK, RUN, Wanted, project_tag

PAGE = 200
"""The most that the server answers at once."""

ACTIVE = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING, StateType.PAUSED]


@dataclass(frozen=True)
class PresentDeployment:
    """A deployment as the server has it."""

    full_name: str
    found: DeploymentResponse
    ours: bool  # made by `dpbayes deploy` for this project
    active: bool  # a run of it has begun and has not ended

    @property
    def schedules(self) -> Sequence[DeploymentSchedule]:
        """Its schedules, also those that were added by hand."""
        return self.found.schedules


@dataclass(frozen=True, kw_only=True)
class Present:
    """What the server has, as far as a project is concerned."""

    pool: bool
    queues: Mapping[str, WorkQueue]  # of the pool, by name
    deployments: Mapping[str, PresentDeployment]  # of the two flows, by full name
    users: Mapping[str, frozenset[str]]  # of a queue that dpbayes made: the deployments that use it


def read_present(client: SyncPrefectClient, wanted: Wanted) -> Present:
    """Ask the server; nothing is changed."""
    try:
        client.read_work_pool(wanted.pool)
    except ObjectNotFound:
        return Present(pool=False, queues={}, deployments=_deployments(client, wanted), users={})
    queues = {queue.name: queue for queue in _queues(client, wanted.pool)}
    ours = [name for name, queue in queues.items() if (queue.description or "").startswith(f"{MARK}:")]
    users = {name: _users(client, wanted.pool, name) for name in ours}
    return Present(pool=True, queues=queues, deployments=_deployments(client, wanted), users=users)


def _queues(client: SyncPrefectClient, pool: str) -> Iterable[WorkQueue]:
    return pages(lambda offset: client.read_work_queues(pool, limit=PAGE, offset=offset))


def _users(client: SyncPrefectClient, pool: str, queue: str) -> frozenset[str]:
    found = pages(
        lambda offset: client.read_deployments(
            work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[pool])),
            work_queue_filter=WorkQueueFilter(name=WorkQueueFilterName(any_=[queue])),
            limit=PAGE,
            offset=offset,
        )
    )
    return frozenset(str(each.id) for each in found)


def _deployments(client: SyncPrefectClient, wanted: Wanted) -> dict[str, PresentDeployment]:
    tags = {MARK, project_tag(wanted.folder)}
    found: dict[str, DeploymentResponse] = {}
    for flow in (RUN, CATCH_UP):
        chosen = FlowFilter(name=FlowFilterName(any_=[flow]))
        deployed = pages(
            lambda offset, chosen=chosen: client.read_deployments(flow_filter=chosen, limit=PAGE, offset=offset)
        )
        found |= {f"{flow}/{each.name}": each for each in deployed}
    ours = {name for name, each in found.items() if tags <= set(each.tags)}
    active = _active(client, [found[name].id for name in sorted(ours)])
    return {name: PresentDeployment(name, each, name in ours, each.id in active) for name, each in found.items()}


def _active(client: SyncPrefectClient, deployments: Sequence[UUID]) -> set[UUID | None]:
    """Those of which a run has begun and has not ended."""
    if not deployments:
        return set()
    runs = pages(
        lambda offset: client.read_flow_runs(
            deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=list(deployments))),
            flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=ACTIVE))),
            limit=PAGE,
            offset=offset,
        )
    )
    return {run.deployment_id for run in runs}


def pages(read: Callable[[int], Sequence[Any]]) -> list[Any]:
    """Everything, page by page."""
    found: list[Any] = []
    while True:
        page = read(len(found))
        found.extend(page)
        if len(page) < PAGE:
            return found
