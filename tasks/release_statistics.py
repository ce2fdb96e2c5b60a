"""The one task that touches rows: read, clip, sum, charge, draw noise. Nothing confidential leaves it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes_core.noise import NoiseSource, OpenDPNoise
from dpbayes_core.statistic import Statistic
from storage.books import Books
from storage.ledger.entries import Entry
from storage.ledger.request import Request
from storage.sealed import sealed
from storage.study.load import load_study
from storage.study.study import Study
from storage.tables import read_statistics
from storage.unfinished import Unfinished
from storage.validation import validate
from storage.validation_page import keep_validation
from tasks.progress import report
from tasks.software import stamp_of


@dataclass(frozen=True, kw_only=True)
class ReleaseOrder:
    """What a flow asks for: names only, so that Prefect's database can hold nothing else."""

    study: str  # path of the study file
    release: str
    period: str
    revision: int = 1
    reason: str | None = None
    actor: str = "scheduler"


@task(
    name="release-statistics",
    task_run_name="release-statistics",
    retries=0,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def release_statistics(order: Mapping[str, Any]) -> str:
    """Rows live and die inside this call; only whether something was released leaves it."""
    return release_once(ReleaseOrder(**order), OpenDPNoise())


def release_once(order: ReleaseOrder, noise: NoiseSource) -> str:
    """Charge and release, or find what was released before under the same name."""
    study = load_study(order.study)
    request = study.request(order.release, order.period, order.revision, order.reason)
    with Books.open(study.path) as books:
        if books.ledger.known(request):
            _unfinished(request, books).forget()  # the attempt that was committed may have died before it did
            return "already-released"
        books.ledger.check(request, study.design(order.release).mechanism)
        _read_and_charge(study, request, books, noise, order.actor)
        books.settle()  # anchors the charge, and the account if this charge opened it
    return "released"


@sealed()
def _read_and_charge(study: Study, request: Request, books: Books, noise: NoiseSource, actor: str) -> Entry:
    """The pass and the transaction; a failure in here says only of which type it was."""
    design = study.design(request.release)
    unfinished = _unfinished(request, books)
    exact = _read(study, request, books, design.statistic(), unfinished)
    entry = books.ledger.commit(request, design, exact, noise, stamp=stamp_of(actor))
    unfinished.forget()
    return entry


def _unfinished(request: Request, books: Books) -> Unfinished:
    """What earlier attempts at this request had summed."""
    return Unfinished.open(books.home.open_vault(), books.home.keys, request.key)


def _read(study: Study, request: Request, books: Books, statistic: Statistic, unfinished: Unfinished) -> Any:
    """One pass over the table; what it saw of the values goes to the vault and nowhere else."""
    table = study.table(request.release, request.period)
    done = read_statistics(
        table,
        statistic,
        key=books.home.contribution_key(),
        progress=lambda share: report("reading the table", share),
        unfinished=unfinished,
    )
    report("validating", 0.0)
    place = f"{study.study}/{request.period}/{request.release}-r{request.revision}"
    keep_validation(books.home.open_vault(), place, done.profile, table, validate(done.profile, table))
    report("validating", 1.0)
    return done.statistics
