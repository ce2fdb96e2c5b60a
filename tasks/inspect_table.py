"""Inspect a table for the steward without a charge; the ledger records it before any value is read."""

from collections.abc import Sequence
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes.secure.leak_guard import guard_leaks
from dpbayes.secure.read_table import check_shape
from dpbayes.secure.validation.suites import read_expectations
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.request import Request
from tasks.orders import InspectOrder
from tasks.run_names import task_name
from tasks.sealed_pass import require_secure_address
from tasks.secure_pass import Stewardship, TablePass
from tasks.stamp import stamp_of


@task(
    name="inspect-table",
    task_run_name=task_name("inspect-table"),
    retries=0,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def inspect_table(order: InspectOrder) -> dict[str, Any]:
    """Rows never leave this call; it returns only the paths of the validation pages and the ledger entry's number."""
    return inspect_once(order)


def inspect_once(order: InspectOrder) -> dict[str, Any]:
    """Record the inspection in the ledger, then make one pass over the table for each release, charging nothing."""
    require_secure_address()
    study = load_study(order.study, order.sha256)
    holder = study.only(order.holder)[0]
    requests = [study.request(name, order.period, holder=holder) for name in study.releases]
    steward = Stewardship(order.actor, order.holder, read_expectations(study))
    with AnchoredLedger.open(study.path) as anchored:
        for request in requests:  # like a release, refused unless the account is open; the budget may be used up
            anchored.ledger.quote(request, study.design(request.release).mechanism)
        _check_shapes(study, requests, steward)
        about = {"study": study.study, "account": study.population, "period": requests[0].period}
        entry = anchored.ledger.note(_note(anchored, requests, order.holder), stamp_of(order.actor), about)
        anchored.anchor_pending()
        pages = _write_pages(study, requests, anchored, steward, entry.seq)
    return {"inspected": pages, "entry": {"seq": entry.seq}}


def _note(anchored: AnchoredLedger, requests: Sequence[Request], holder: str | None) -> str:
    """The ledger's note of the inspection, which says for auditors which releases were made before it."""
    first = requests[0]
    released = [request.release for request in requests if anchored.ledger.find(request.key) is not None]
    coming = [request.release for request in requests if request.release not in released]
    before = f" before its release: {', '.join(coming)}" if coming else ""
    after = f" after its release: {', '.join(released)}" if released else ""
    at = "" if holder is None else f" at {holder}"
    return (
        f"table of {first.study} for {first.period}{at} was inspected{before}{' and' * bool(before and after)}{after}"
    )


@guard_leaks()
def _check_shapes(study: Study, requests: Sequence[Request], steward: Stewardship) -> None:
    """Refuse a table of another shape before the note; no value is read."""
    for request in requests:
        check_shape(study.table(request.release, request.period, holder=steward.holder))


@guard_leaks()
def _write_pages(
    study: Study, requests: Sequence[Request], anchored: AnchoredLedger, steward: Stewardship, entry: int
) -> list[dict[str, Any]]:
    """Write the validation page of each release; of an exception in here only the type gets out."""
    pages = [TablePass(study, request, anchored, steward).inspect(entry) for request in requests]
    return [
        {"release": request.release, "holder": steward.holder, "page": str(page)}
        for request, page in zip(requests, pages, strict=True)
    ]
