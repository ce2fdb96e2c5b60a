"""What Prefect's server believes of runs: told of those that died, and rid of those that have nothing left to do."""

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterId,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterParentTaskRunId,
    FlowRunFilterState,
    FlowRunFilterStateName,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from tasks.deployments.wanted import CATCH_UP, MARK, RUN

OF_A_WORKER = "PREFECT__FLOW_RUN_ID"
"""The environment variable in which a worker names the flow run that it started a process for."""

DEAD = "The process of this run died before its end."

_AT_WORK = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING]))
_STARTED_BY_A_RUN = FlowRunFilterParentTaskRunId(is_null_=False)
_OURS = DeploymentFilter(tags=DeploymentFilterTags(all_=[MARK]))
_ORPHANED = "The run that started this one is over; Prefect's server was away when this one ended."
_NOBODY_ASKED = FlowRunFilterTags(all_=["auto-scheduled"])  # the server's tag of runs that a schedule made
_LATE = FlowRunFilterState(name=FlowRunFilterStateName(any_=["Late"]))


def crash(dead: Mapping[str, str | None]) -> None:
    """Let the server know which runs died with their process, and the runs that these had started; with a message."""
    own = os.environ.get(OF_A_WORKER)
    with get_client(sync_client=True) as client:
        for name, message in dead.items():
            run = UUID(name)
            if name != own and _is_our_flow(client, run):
                _crash(client, FlowRunFilter(id=FlowRunFilterId(any_=[run])), message or DEAD)


def _is_our_flow(client: SyncPrefectClient, run: UUID) -> bool:
    """Whether a run is of a flow that we deploy: another's, in which somebody calls dpbayes, is not ours to end."""
    found = client.read_flow_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run])))
    return any(client.read_flow(each.flow_id).name in (RUN, CATCH_UP) for each in found)


def _crash(client: SyncPrefectClient, asked: FlowRunFilter, message: str) -> None:
    for run in client.read_flow_runs(flow_run_filter=asked.model_copy(update={"state": _AT_WORK})):
        client.set_flow_run_state(run.id, Crashed(message=message), force=True)
        _crash(client, FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run.id])), message)


def end_orphans() -> int:
    """End the runs of our deployments that are at work by the server, and were started by a run that is over.

    A run starts others in its own process. Their end is unknown to a server that was away when they came to it.
    """
    with get_client(sync_client=True) as client:
        ours = {one.id for one in client.read_deployments(deployment_filter=_OURS)}
        asked = FlowRunFilter(state=_AT_WORK, parent_task_run_id=_STARTED_BY_A_RUN)
        ended = 0
        for run in client.read_flow_runs(flow_run_filter=asked) if ours else ():
            with suppress(ObjectNotFound):  # somebody deleted it, or what started it
                if _is_orphan(client, run, ours):
                    client.set_flow_run_state(run.id, Crashed(message=_ORPHANED), force=True)
                    ended += 1
        return ended


def _is_orphan(client: SyncPrefectClient, run: FlowRun, ours: Collection[UUID]) -> bool:
    """Whether a run that started this one, directly or not, is over, and the first of them is of our deployments."""
    over = False
    while run.parent_task_run_id is not None:
        started_by = client.read_task_run(run.parent_task_run_id).flow_run_id
        if started_by is None:
            return False
        run = client.read_flow_run(started_by)
        over = over or (run.state is not None and run.state.is_final())
    return over and run.deployment_id in ours


def forget_late(studies: Collection[str], before: datetime) -> int:
    """Delete runs that schedules of these study files made, were due before a moment and never began.

    A run that a person asked for stays.
    """
    with get_client(sync_client=True) as client:
        found = client.read_deployments(deployment_filter=_OURS)
        deployed = [one.id for one in found if one.parameters.get("study") in studies]
        if not deployed:
            return 0
        of_ours = DeploymentFilter(id=DeploymentFilterId(any_=deployed))
        late = FlowRunFilter(
            state=_LATE,
            tags=_NOBODY_ASKED,
            expected_start_time=FlowRunFilterExpectedStartTime.model_validate({"before_": before}),
        )
        forgotten = 0
        while runs := client.read_flow_runs(deployment_filter=of_ours, flow_run_filter=late):
            for run in runs:
                with suppress(ObjectNotFound):  # another catch-up was quicker
                    client.delete_flow_run(run.id)
            forgotten += len(runs)
        return forgotten
