"""The pass without the charge: a table looked at for the steward, on record before the look."""

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
from tasks.secure_pass import Stewardship, TablePass
from tasks.stamp import stamp_of


@task(
    name="inspect-table",
    task_run_name="inspect-table",
    retries=0,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def inspect_table(order: InspectOrder) -> dict[str, Any]:
    """Rows live and die inside this call; only where the pages are leaves it."""
    return inspect_once(order)


def inspect_once(order: InspectOrder) -> dict[str, Any]:
    """Note in the ledger that the table is looked at, then look: one pass for each release, which charges nothing."""
    study = load_study(order.study, order.sha256)
    holder = study.only(order.holder)[0]
    requests = [study.request(name, order.period, holder=holder) for name in study.releases]
    by = Stewardship(order.actor, order.holder, read_expectations(study))
    with AnchoredLedger.open(study.path) as anchored:
        for request in requests:  # refused as a release is where the account is not open, whatever the budget says
            anchored.ledger.quote(request, study.design(request.release).mechanism)
        _check_shapes(study, requests, by)
        about = {"study": study.study, "account": study.population, "period": requests[0].period}
        entry = anchored.ledger.note(_words(anchored, requests, order.holder), stamp_of(order.actor), about)
        anchored.anchor_pending()
        pages = _look(study, requests, anchored, by, entry.seq)
    return {"inspected": pages, "entry": {"seq": entry.seq}}


def _words(anchored: AnchoredLedger, requests: Sequence[Request], holder: str | None) -> str:
    """What the ledger says of the look: whether the releases were made by then is what an auditor asks."""
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
def _check_shapes(study: Study, requests: Sequence[Request], by: Stewardship) -> None:
    """No value is looked at, so that a table of another shape is refused without a note."""
    for request in requests:
        check_shape(study.table(request.release, request.period, holder=by.holder))


@guard_leaks()
def _look(
    study: Study, requests: Sequence[Request], anchored: AnchoredLedger, by: Stewardship, entry: int
) -> list[dict[str, Any]]:
    """The pages, release by release; a failure in here says only of which type it was."""
    pages = [TablePass(study, request, anchored, by).inspect(entry) for request in requests]
    return [
        {"release": request.release, "holder": by.holder, "page": str(page)}
        for request, page in zip(requests, pages, strict=True)
    ]
