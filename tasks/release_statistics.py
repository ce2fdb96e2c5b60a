"""The task that releases from confidential rows: read, clip, sum, draw noise, charge. Nothing confidential leaves."""

from dataclasses import replace

from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes.analyses.stored_releases import newest_complete
from dpbayes.secure.leak_guard import guard_leaks
from dpbayes.secure.read_table import check_shape
from dpbayes.secure.resume import PassCheckpoint
from dpbayes.secure.validation.suites import read_expectations
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError, TableMissing
from dpbayes_core.privacy.noise import NoiseSource, OpenDPNoise
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.request import Request
from tasks.answers import STORED, requests_of
from tasks.orders import ReleaseOrder
from tasks.progress import report
from tasks.run_names import task_name
from tasks.sealed_pass import require_secure_address
from tasks.secure_pass import Stewardship, TablePass
from tasks.stamp import stamp_of


@task(
    name="release-statistics",
    task_run_name=task_name("release-statistics"),
    retries=0,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def release_statistics(order: ReleaseOrder) -> tuple[str, ...]:
    """Rows never leave this call; it returns only, for each holder, whether the release was made now or before."""
    return release_once(order, OpenDPNoise())


def release_once(order: ReleaseOrder, noise: NoiseSource) -> tuple[str, ...]:
    """Charge and release, for all holders in one transaction, or find what was released under the same name."""
    study = load_study(order.study, order.sha256)
    requests = requests_of(study, order)
    with AnchoredLedger.open(study.path) as anchored:
        stored = anchored.ledger.stored(requests)
        due = [request for request, entry in zip(requests, stored, strict=True) if entry is None]
        if not due:
            _checkpoint(requests[0], anchored).forget()  # the attempt that committed may have been killed before
            return tuple(STORED for _ in requests)
        require_secure_address()
        _refuse(study, due, anchored)
        own = read_expectations(study)
        made = _read_and_charge(study, due, anchored, noise, Stewardship(order.actor, order.holder, own))
    return tuple("released" if request.holder in made else STORED for request in requests)


def newest_revision(study: Study, release: str, period: str) -> tuple[int, str | None]:
    """The revision that a scheduled run returns, and its reason: the newest complete one, else the first."""
    with AnchoredLedger.open(study.path) as anchored:
        return newest_complete(study, release, period, anchored)


def missing_table(study: Study, period: str) -> TableMissing | None:
    """What is said of a table that is not there yet; None where there is one, even if its shape differs."""
    try:
        _check_shapes(study, period)
    except TableMissing as missing:
        return missing
    except DpbayesError:
        return None  # the pass says it
    return None


@guard_leaks()
def _check_shapes(study: Study, period: str) -> None:
    for name in study.releases:
        check_shape(study.table(name, period))


def _refuse(study: Study, due: list[Request], anchored: AnchoredLedger) -> None:
    """Refuse, before any row is read, what the commit would refuse, for all holders together and each by itself."""
    mechanism = study.design(due[0].release).mechanism
    anchored.ledger.check(due[0], mechanism, tuple(request.holder for request in due[1:] if request.holder is not None))
    for request in due[1:]:
        anchored.ledger.check(request, mechanism)


@guard_leaks()
def _read_and_charge(
    study: Study, due: list[Request], anchored: AnchoredLedger, noise: NoiseSource, steward: Stewardship
) -> set[str | None]:
    """Make one pass and one transaction; the holders released. Of an exception in here only the type gets out."""
    design = study.design(due[0].release)
    checkpoint = _checkpoint(due[0], anchored)
    done = TablePass(study, due[0], anchored, steward).release(checkpoint)
    with done.room:
        exact = done.statistics
        parts = dict(zip(study.holders, exact.parts if study.source.holder else (exact,), strict=True))
        summed = {request.holder: parts[request.holder] for request in due}
        answers = anchored.ledger.commit_all(due[0], design, summed, noise, stamp=stamp_of(steward.actor))
        made = {holder for holder, answer in zip(summed, answers, strict=True) if answer.made}
        if made:
            done.keep()
    checkpoint.forget()
    anchored.anchor_pending()  # the charges
    if made:
        report("charged and released", 1.0)
    return made


def _checkpoint(request: Request, anchored: AnchoredLedger) -> PassCheckpoint:
    """The checkpoint of interrupted passes for this request, over all holders."""
    return PassCheckpoint.open(anchored.home.open_vault(), anchored.home.keys, replace(request, holder=None).key)
