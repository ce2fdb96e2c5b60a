"""The same as a plan makes, as a `prefect.yaml` for those who keep their deployments in a file."""

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpbayes_core.errors import StudyInvalid
from tasks.deployments.wanted import Deployment, Wanted

NAME = "prefect.yaml"
_FIRST = "# Made by `dpbayes deploy --files`; do not edit."


def write_files(wanted: Wanted) -> Path:
    """Write the file into the project folder; a file that somebody else wrote is not overwritten."""
    path = wanted.folder / NAME
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(_FIRST):
        raise StudyInvalid(f"cannot write {path}: it was not made by `dpbayes deploy --files`. Move it away first.")
    path.write_text(prefect_yaml(wanted), encoding="utf-8")
    return path


def prefect_yaml(wanted: Wanted) -> str:
    """The file's text; JSON is YAML too, and needs no rules for quotes."""
    lines = [
        _FIRST,
        *_head(wanted),
        f"name: {json.dumps(wanted.folder.name)}",
        f"prefect-version: {version('prefect')}",
    ]
    lines += ["pull: []", "", "deployments:"]
    for each in wanted.deployments:
        for number, (key, value) in enumerate(_properties(each).items()):
            lines.append(f"{'    ' if number else '  - '}{key}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join([*lines, ""])


def _head(wanted: Wanted) -> Iterator[str]:
    yield "# Once: the pool and its queues, which no such file can make."
    yield f"#   prefect work-pool create {wanted.pool} --type process"
    for queue in wanted.queues:
        limit = "" if queue.limit is None else f" --limit {queue.limit}"
        yield f"#   prefect work-queue create {queue.name} --pool {wanted.pool}{limit}"
    yield "# Then, and after every change: prefect deploy --all"


def _properties(wanted: Deployment) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": wanted.name,
        "description": wanted.description,
        "tags": sorted(wanted.tags),
        "entrypoint": wanted.entrypoint,
        "parameters": dict(wanted.parameters),
        "schedules": [{"cron": one.cron, "timezone": one.timezone, "slug": one.slug} for one in wanted.schedules],
        "work_pool": {
            "name": wanted.pool,
            "work_queue_name": wanted.queue,
            "job_variables": {"env": dict(wanted.variables)},
        },
    }
    if wanted.limit is not None:
        found["concurrency_limit"] = {"limit": wanted.limit, "collision_strategy": "CANCEL_NEW"}
    return found
