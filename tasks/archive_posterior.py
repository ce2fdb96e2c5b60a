"""Archive a posterior with its report, or find the one stored for the same request."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes.analyses.checkpoints import Checkpoints
from dpbayes.analyses.prepare import Analysis
from dpbayes.analyses.workspace import StudyWorkspace, Workspace, open_workspace, open_workspaces
from dpbayes.crates.posterior import build_posterior_crate
from dpbayes_core.samplers.driver import sample
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.posterior import Posterior
from tasks.answers import found_posterior, posterior_document, store_crate
from tasks.orders import AnalysisOrder, PosteriorOrder
from tasks.progress import report
from tasks.run_names import task_name
from tasks.stamp import software_versions, stamp_of

Found = tuple[Workspace, dict[str, Any] | None]
"""A prepared analysis, and the document of its posterior if that is archived."""

if TYPE_CHECKING:
    from dpbayes_core.networks.release import NetworkRelease


@task(
    name="archive-posterior",
    task_run_name=task_name("archive-posterior"),
    retries=2,
    retry_delay_seconds=1,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def archive_posterior(order: PosteriorOrder, prepared: Workspace, sampled: tuple[Posterior, float]) -> dict[str, Any]:
    """Write the crate of a posterior, and return its document; `sampled` is the posterior and the seconds it took."""
    start = time.monotonic()
    posterior, sampling = sampled
    with open_workspace(asdict(order), prepared) as workspace:
        report("writing the report", 0.0)
        files = _crate(workspace, posterior)
        workspace.keep(files, stamp_of(order.actor))
        Checkpoints(workspace.work, workspace.analysis.key, software_versions()).drop()
        report("writing the report", 1.0)
        total = sampling + time.monotonic() - start
        return posterior_document(files, workspace, found=False, sampling=sampling, total=total)


@task(name="find-posteriors", task_run_name=task_name("find-posteriors"), persist_result=False, cache_policy=NO_CACHE)
def find_posteriors(orders: Sequence[AnalysisOrder]) -> list[Found]:
    """What `find_posterior` returns, of several analyses of one study with one opening of its ledger.

    It ends before the first analysis that cannot be prepared or found, which `find_posterior` says in its turn.
    """
    found: list[Found] = []
    with suppress(Exception), open_workspaces([asdict(order) for order in orders]) as workspaces:
        found.extend(map(_found, workspaces))
    return found


@task(name="find-posterior", task_run_name=task_name("find-posterior"), persist_result=False, cache_policy=NO_CACHE)
def find_posterior(order: PosteriorOrder) -> Found:
    """The prepared analysis, and the document of the posterior archived for the same request, if there is one.

    The ledger of a study's analysis is closed again; the tasks that follow reopen it.
    """
    with open_workspace(asdict(order)) as workspace:
        return _found(workspace)


def _found(workspace: Workspace) -> Found:
    files = workspace.stored()
    return workspace, None if files is None else found_posterior(files, workspace)


def _crate(workspace: Workspace, posterior: Posterior) -> dict[str, bytes]:
    """The files of the posterior's crate, with a naive posterior for comparison where there is one."""
    analysis, request = workspace.analysis, workspace.analysis.request
    if isinstance(workspace, StudyWorkspace):
        for entry in analysis.entries:
            store_crate(workspace.anchored, entry, workspace.study)
    comparison = _comparison_sampler(analysis)
    naive = comparison and sample(
        analysis.evidence,
        analysis.prior,
        sampler=comparison,
        chains=request.chains,
        draws=request.draws,
        seed=request.seed,
    )
    return build_posterior_crate(
        request,
        posterior,
        workspace.provenance(),
        naive=naive or None,
        tried=_test_accuracy(analysis, posterior, naive or None),
        software=software_versions(),
        signer=workspace.signer,
    )


def _test_accuracy(analysis: Analysis, posterior: Posterior, naive: Posterior | None) -> dict[str, Any] | None:
    """The accuracy of network predictions on the study's public test records, None if it names none."""
    if analysis.test is None:
        return None
    from dpbayes_core.networks.prediction import accuracy

    test, release = analysis.test, cast("NetworkRelease", analysis.evidence)
    found = accuracy(release.schema, posterior.draws, test.target, test.records)
    naive_accuracy = None if naive is None else accuracy(release.schema, naive.draws, test.target, test.records)
    return {**test.to_record(), "accuracy": found, "naive": naive_accuracy}


def _comparison_sampler(analysis: Analysis) -> str | None:
    """The name of the sampler to compare with, if there is one that accepts the release."""
    name = SAMPLERS[analysis.request.sampler].compared_with
    return None if name is None or SAMPLERS[name].refusal(analysis.evidence) else name
