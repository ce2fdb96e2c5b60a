"""Release: one pass, one charge, one crate."""

from typing import Any

from prefect import flow

from dpbayes.analyses.public_records import refuse_table
from dpbayes.study.load import load_study
from flows.states import ends_in_named_state
from tasks import progress
from tasks.orders import ReleaseOrder
from tasks.publish_release import publish_release
from tasks.release_statistics import newest_revision, release_statistics
from tasks.run_names import flow_name


@flow(name="release", flow_run_name=flow_name, persist_result=False)
@ends_in_named_state
def release_study(
    study: str,
    period: str,
    revision: int | None = 1,  # None: the newest released one
    reason: str | None = None,
    *,
    holder: str | None = None,
    actor: str = "scheduler",
    sha256: str | None = None,  # of the study file, if the caller has read it
) -> dict[str, Any]:
    """Release every statistic of the study for one period, each exactly once."""
    declared = load_study(study, sha256)
    refuse_table(declared)  # before anything is charged
    released: list[dict[str, Any]] = []
    for name in declared.releases:
        number, why = newest_revision(declared, name, period) if revision is None else (revision, reason)
        order = ReleaseOrder(
            study=study,
            sha256=declared.sha256,
            release=name,
            period=period,
            revision=number,
            reason=why,
            holder=holder,
            actor=actor,
        )
        statuses = release_statistics(order)
        progress.charged(name, statuses)
        published = publish_release(order, statuses)
        progress.published(published)
        released += published
    return {"study": declared.study, "account": declared.population, "period": period, "releases": released}
