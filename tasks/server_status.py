"""What a Prefect server believes of a project's studies: asked for a few seconds, and never needed."""

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.settings import (
    PREFECT_API_REQUEST_TIMEOUT,
    PREFECT_CLIENT_MAX_RETRIES,
    get_current_settings,
    temporary_settings,
)

from storage.home.attempts import DIED, Attempt, minute
from tasks.deployments.present import PAGE, pages
from tasks.deployments.wanted import CATCH_UP, RUN
from tasks.surroundings import known

PATIENCE = 4.0
"""Seconds in which a server has to answer one question."""

WHOLE = 10.0
"""Seconds in which it has to answer all of them."""

Document = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked about: the folder and pool of a project, its study files, and what was tried last of any period."""

    folder: str
    pool: str
    studies: Collection[str]
    attempts: Sequence[Attempt]
    now: datetime


def server_status(asked: Asked) -> Document:
    """What the server says; where it does not answer, a sentence instead."""
    url = _without_user(get_current_settings().api.url or "")
    nothing: Document = {"url": url, "answers": False, "deployments": {}, "workers": [], "runs": [], "catch_up": None}
    found: list[Document] = []
    failures: list[Exception] = []

    def ask() -> None:
        try:
            found.append(_answers(asked))
        except Exception as failure:
            failures.append(failure)

    asking = threading.Thread(target=ask, name="server-status", daemon=True)
    asking.start()
    asking.join(WHOLE)
    if found:
        return {**nothing, "answers": True, "sentence": None, **found[0]}
    return {**nothing, "sentence": _sentence(url, failures)}


def _sentence(url: str, failures: Sequence[Exception]) -> str:
    foreseen = known(failures[0]) if failures else None
    if foreseen is None and failures:
        return f"Prefect's server at {url} could not be asked: an unforeseen {type(failures[0]).__name__}."
    if foreseen is not None and "does not answer" not in str(foreseen):
        return f"Prefect's server at {url} could not be asked: {str(foreseen).removeprefix('cannot go on: ')}"
    return f"Prefect's server at {url} does not answer. What it knows of runs and workers is missing here."


def _answers(asked: Asked) -> Document:
    limits = {PREFECT_API_REQUEST_TIMEOUT: PATIENCE, PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(limits), get_client(sync_client=True) as client:
        deployments = _deployments(client, asked)
        catch_up = next((each for each in deployments.values() if "study" not in each.parameters), None)
        pools = {asked.pool, *(each.work_pool_name for each in deployments.values() if each.work_pool_name)}
        names = {str(each.id): name for name, each in deployments.items()}
        files = {os.path.realpath(study): study for study in asked.studies}
        return {
            "deployments": {
                files[_place(each, "study")]: _deployment(client, name, each)
                for name, each in deployments.items()
                if "study" in each.parameters
            },
            "catch_up": None if catch_up is None else _deployment(client, f"{CATCH_UP}/{catch_up.name}", catch_up),
            "workers": [worker for pool in sorted(pools) for worker in _workers(client, pool)],
            "runs": [_run(names[str(run.deployment_id)], run, asked) for run in _running(client, deployments)],
        }


def _deployments(client: SyncPrefectClient, asked: Asked) -> dict[str, DeploymentResponse]:
    """The deployments of the studies, and the one that catches up on the project."""
    found: dict[str, DeploymentResponse] = {}
    for flow, parameter, named in ((RUN, "study", asked.studies), (CATCH_UP, "folder", [asked.folder])):
        places = {os.path.realpath(place) for place in named}
        chosen = FlowFilter(name=FlowFilterName(any_=[flow]))
        deployed = pages(
            lambda offset, chosen=chosen: client.read_deployments(flow_filter=chosen, limit=PAGE, offset=offset)
        )
        found |= {f"{flow}/{one.name}": one for one in deployed if _place(one, parameter) in places}
    return found


def _place(deployment: DeploymentResponse, parameter: str) -> str | None:
    """The file or folder that a deployment is for, by its only name."""
    place = deployment.parameters.get(parameter)
    return os.path.realpath(place) if isinstance(place, str) else None


def _deployment(client: SyncPrefectClient, name: str, found: DeploymentResponse) -> Document:
    runs = client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[found.id])),
        flow_run_filter=_in_state(StateType.SCHEDULED),
        sort=FlowRunSort.EXPECTED_START_TIME_ASC,
        limit=1,
    )
    coming = next((run.expected_start_time for run in runs), None)
    active = any(schedule.active for schedule in found.schedules)
    return {"name": name, "paused": found.paused, "scheduled": active, "next_run": _second(coming)}


def _workers(client: SyncPrefectClient, pool: str) -> list[Document]:
    try:
        client.read_work_pool(pool)  # the next question would fail otherwise if there is none
        workers = client.read_workers_for_work_pool(pool, limit=PAGE)
    except ObjectNotFound:
        return []
    described = [
        {"pool": pool, "worker": one.name, "online": one.status == "ONLINE", "seen": _second(one.last_heartbeat_time)}
        for one in workers
    ]
    return sorted(described, key=lambda one: one["seen"] or "", reverse=True)


def _running(client: SyncPrefectClient, deployments: Mapping[str, DeploymentResponse]) -> list[FlowRun]:
    if not deployments:
        return []
    return client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[each.id for each in deployments.values()])),
        flow_run_filter=_in_state(StateType.RUNNING, StateType.CANCELLING),
        sort=FlowRunSort.EXPECTED_START_TIME_ASC,
        limit=PAGE,
    )


def _run(deployment: str, run: FlowRun, asked: Asked) -> Document:
    """A run that the server believes to be at work, and what the home knows of its life."""
    named = [each for each in asked.attempts if each.flow_run_id == str(run.id)]
    dead = [each for each in named if each.dead(asked.now) or each.outcome == DIED]
    began = run.start_time or run.expected_start_time
    since = "" if began is None else f" since {minute(began)}"
    about = {"deployment": deployment, "flow_run_id": str(run.id), "began": _second(began)}
    if any(each.alive(asked.now) for each in named):
        return {**about, "life": "alive", "sentence": f"A run is at work{since}."}
    if dead:
        said = f"Prefect believes that a run is at work{since}, but it is dead. {dead[0].died().message}"
        return {
            **about,
            "life": "dead",
            "sentence": f"{said} The next run of a worker, or `dpbayes catch-up` with PREFECT_API_URL set, tells it.",
        }
    said = f"Prefect believes that a run is at work{since}. The home has no sign that it is, nor that it is dead."
    return {**about, "life": "unknown", "sentence": said}


def _in_state(*states: StateType) -> FlowRunFilter:
    return FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(states))))


def _second(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
