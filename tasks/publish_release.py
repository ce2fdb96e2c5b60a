"""Write the crate of a release from the bytes the ledger keeps; again, it changes nothing."""

import json
from collections.abc import Sequence
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes.crates.release import REPORT, build_release_crate
from dpbayes.kinds.counted import Counted
from dpbayes.kinds.registry import texts_of
from dpbayes.pages.report.price import stated_epsilon
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.privacy.accounting import from_units
from dpbayes_core.releases import release_from_record
from storage.files.archive import MANIFEST
from storage.files.archive_paths import release_path
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.cap_document import account_document
from storage.ledger.entries import Entry
from storage.ledger.request import Request
from tasks.orders import ReleaseOrder
from tasks.progress import report
from tasks.release_statistics import requests_of
from tasks.secure_pass import validation_page


@task(
    name="publish-release",
    task_run_name="publish-release",
    retries=2,
    retry_delay_seconds=1,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def publish_release(order: ReleaseOrder, statuses: Sequence[str]) -> list[dict[str, Any]]:
    """The crates in the archive, one a holder, and what a person is told of each release."""
    return publish_once(order, statuses)


def publish_once(order: ReleaseOrder, statuses: Sequence[str]) -> list[dict[str, Any]]:
    """As the task, without Prefect."""
    study = load_study(order.study)
    with AnchoredLedger.open(study.path) as books:
        requests = requests_of(study, order)
        entries = [_stored(books, request) for request in requests]
        places = [store_crate(books, entry, study) for entry in entries]
        for entry in entries:
            if entry.payload["supersedes"] is not None:
                books.mark(entry, entry.payload["supersedes"], "superseded")
        withdrawn = [_withdrawn(books, entry) for entry in entries]
        account = next(one for one in books.ledger.accounts() if one.spec.population == study.population)
        caps = account_document(account, order.period)["caps"]
        pages = [validation_page(books.home, request) for request in requests]
    documents = [_document(*one) | {"caps": caps} for one in zip(entries, statuses, places, strict=True)]
    found = [None if page is None else str(page) for page in pages]
    more = zip(documents, found, withdrawn, strict=True)
    return [one | {"validation": page, "withdrawn": said} for one, page, said in more]


def _withdrawn(books: AnchoredLedger, entry: Entry) -> dict[str, str] | None:
    """When and why the release was withdrawn, if it was."""
    found = books.ledger.withdrawn(entry.key)
    return None if found is None else {name: found.payload[name] for name in ("date", "reason")}


def _stored(books: AnchoredLedger, request: Request) -> Entry:
    entry = books.ledger.known(request)
    if entry is None:
        raise IntegrityFailure(f"cannot publish {request.name}: the ledger lacks it. Release it.")
    return entry


def store_crate(books: AnchoredLedger, entry: Entry, study: Study) -> str:
    """The address of the release's crate, written now if a crash or a first run left it unwritten."""
    path = release_path(entry.to_record())
    if not books.archive.exists(f"{path}/{MANIFEST}"):
        report("writing the crate", 0.0)
        books.archive.write_folder(path, build_release_crate(entry.to_record(), study.text, books.home.signer()))
        report("writing the crate", 1.0)
    return books.archive.address(path)


def _document(entry: Entry, status: str, place: str) -> dict[str, Any]:
    stated = entry.payload
    mechanism = stated["mechanism"]
    release = release_from_record(json.loads(entry.release or b""))
    rows = getattr(release, "rows", None)
    return {
        "release": stated["release"],
        "holder": stated["holder"],
        "revision": stated["revision"],
        "status": status,
        "digest": stated["digest"],
        "cost": {
            "epsilon": stated_epsilon(stated),
            "rho": float(from_units(int(stated["cost"]["rho"]))),
            "delta": mechanism.get("delta"),
        },
        "mechanism": mechanism["name"],
        "neighbours": stated["neighbours"],
        "numbers": len(texts_of(release).lines(release)),
        "rows": rows,
        "counted": None if rows is None else Counted.of(stated).words(f"{rows:,}"),
        "limits": texts_of(release).limits(release) or None,
        "crate": place,
        "report": f"{place}/{REPORT}" if texts_of(release).answers else None,
    }
