"""What Prefect's server believes of runs: told of those that died, and rid of those that have nothing left to do."""

from collections.abc import Collection
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
    FlowRunFilterState,
    FlowRunFilterStateName,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from storage.home.attempts import Attempt
from tasks.deployments.wanted import MARK

_AT_WORK = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING]))
_LATE = FlowRunFilterState(name=FlowRunFilterStateName(any_=["Late"]))


def crash(dead: Collection[Attempt]) -> None:
    """Let the server know which runs died with their process, and the runs that these had started."""
    said = {UUID(one.flow_run_id): one.message or "" for one in dead if one.flow_run_id is not None}
    if not said:
        return
    with get_client(sync_client=True) as client:
        for run, message in said.items():
            _crash(client, FlowRunFilter(id=FlowRunFilterId(any_=[run])), message)


def _crash(client: SyncPrefectClient, asked: FlowRunFilter, message: str) -> None:
    for run in client.read_flow_runs(flow_run_filter=asked.model_copy(update={"state": _AT_WORK})):
        client.set_flow_run_state(run.id, Crashed(message=message), force=True)
        _crash(client, FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run.id])), message)


def forget_late(studies: Collection[str], before: datetime) -> int:
    """Delete the runs of our deployments of these study files that were due before a moment and never began."""
    tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[MARK]))
    with get_client(sync_client=True) as client:
        found = client.read_deployments(deployment_filter=tagged)
        deployed = [one.id for one in found if one.parameters.get("study") in studies]
        if not deployed:
            return 0
        of_ours = DeploymentFilter(id=DeploymentFilterId(any_=deployed))
        late = FlowRunFilter(
            state=_LATE, expected_start_time=FlowRunFilterExpectedStartTime.model_validate({"before_": before})
        )
        forgotten = 0
        while runs := client.read_flow_runs(deployment_filter=of_ours, flow_run_filter=late):
            for run in runs:
                with suppress(ObjectNotFound):  # another catch-up was quicker
                    client.delete_flow_run(run.id)
            forgotten += len(runs)
        return forgotten
