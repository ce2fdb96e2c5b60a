"""Archive a posterior with its report; the same request finds what is stored."""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes_core.posterior import Posterior
from dpbayes_core.samplers.driver import sample
from dpbayes_core.samplers.registry import SAMPLERS
from storage.analysis import Analysis, prepare_analysis
from storage.archive import MANIFEST
from storage.books import Books
from storage.checkpoints import Checkpoints
from storage.crate_posterior import RECORD, REPORT, build_posterior_crate
from storage.crates import release_path
from storage.study.load import load_study
from storage.study.study import Study
from tasks.progress import report
from tasks.publish_release import store_crate
from tasks.software import software_versions

if TYPE_CHECKING:
    from dpbayes_core.networks.release import NetworkRelease


@task(
    name="archive-posterior",
    task_run_name="archive-posterior",
    retries=2,
    retry_delay_seconds=1,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def archive_posterior(order: Mapping[str, str], sampled: tuple[Posterior, float]) -> dict[str, Any]:
    """The crate of the posterior, and what a person is told of it."""
    begun = time.monotonic()
    posterior, sampling = sampled
    study = load_study(order["study"])
    with Books.open(study.path) as books:
        analysis = prepare_analysis(study, order["analysis"], order["period"], books)
        report("writing the report", 0.0)
        books.archive.write_folder(analysis.path, _crate(analysis, posterior, study, books))
        Checkpoints(books.home.work, analysis.key, software_versions()).drop()
        report("writing the report", 1.0)
        return _document(analysis, books, sampling=sampling, total=sampling + time.monotonic() - begun)


@task(name="find-posterior", task_run_name="find-posterior", persist_result=False, cache_policy=NO_CACHE)
def stored_posterior(order: Mapping[str, str]) -> dict[str, Any] | None:
    """What was archived before for the same request, if it was."""
    study = load_study(order["study"])
    with Books.open(study.path) as books:
        analysis = prepare_analysis(study, order["analysis"], order["period"], books)
        if not books.archive.exists(f"{analysis.path}/{MANIFEST}"):
            return None
        return _document(analysis, books, sampling=0.0, total=0.0)


def _crate(analysis: Analysis, posterior: Posterior, study: Study, books: Books) -> dict[str, bytes]:
    """Everything a reader needs, the naive posterior beside the noise-aware one."""
    store_crate(books, analysis.entry, study)
    request = analysis.request
    beside = _beside(analysis)
    naive = beside and sample(
        analysis.release,
        analysis.prior,
        sampler=beside,
        chains=request.chains,
        draws=request.draws,
        seed=request.seed,
    )
    return build_posterior_crate(
        request,
        posterior,
        naive=naive or None,
        tried=_tried(analysis, posterior, naive or None),
        release_crate=books.archive.read_folder(release_path(analysis.entry.to_record())),
        study_text=study.text,
        software=software_versions(),
        signer=books.home.signer(),
    )


def _tried(analysis: Analysis, posterior: Posterior, naive: Posterior | None) -> dict[str, Any] | None:
    """How often the likeliest level is the right one, on the public records that the study names."""
    if analysis.test is None:
        return None
    from dpbayes_core.networks.prediction import accuracy

    test, release = analysis.test, cast("NetworkRelease", analysis.release)
    found = accuracy(release.schema, posterior.draws, test.target, test.records)
    plain = None if naive is None else accuracy(release.schema, naive.draws, test.target, test.records)
    return {**test.to_record(), "accuracy": found, "naive": plain}


def _beside(analysis: Analysis) -> str | None:
    """The sampler to show for comparison, where there is one that takes the release."""
    name = SAMPLERS[analysis.request.sampler].beside
    return None if name is None or SAMPLERS[name].refusal(analysis.release) else name


def _document(analysis: Analysis, books: Books, *, sampling: float, total: float) -> dict[str, Any]:
    files = books.archive.read_folder(analysis.path)
    record = json.loads(files[RECORD])
    return {
        "analysis": record["analysis"],
        "status": record["status"],
        "why": record["why"],
        "calibrated": record["sampler"]["calibrated"],
        "caveat": record["sampler"]["caveat"],
        "sampler": record["sampler"]["name"],
        "coefficients": record["coefficients"],
        "seconds": {"sampling": round(sampling, 3), "total": round(total, 3)},
        "crate": books.archive.address(analysis.path),
        "report": books.archive.address(f"{analysis.path}/{REPORT}"),
    }
