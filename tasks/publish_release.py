"""Write the crate of a release from the bytes in the ledger; safe to repeat."""

from collections.abc import Sequence
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes.study.load import load_study
from storage.ledger.anchored import AnchoredLedger
from tasks.answers import published
from tasks.orders import ReleaseOrder
from tasks.run_names import task_name


@task(
    name="publish-release",
    task_run_name=task_name("publish-release"),
    retries=2,
    retry_delay_seconds=1,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def publish_release(order: ReleaseOrder, statuses: Sequence[str]) -> list[dict[str, Any]]:
    """Write the crates, one for each holder, and return the document of each release."""
    return publish_once(order, statuses)


def publish_once(order: ReleaseOrder, statuses: Sequence[str]) -> list[dict[str, Any]]:
    """The task's work, without Prefect."""
    study = load_study(order.study, order.sha256)
    with AnchoredLedger.open(study.path) as anchored:
        return published(study, order, statuses, anchored)
