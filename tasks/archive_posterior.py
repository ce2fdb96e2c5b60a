"""Archive a posterior with its report; the same request finds what is stored."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes.analyses.checkpoints import Checkpoints
from dpbayes.analyses.prepare import Analysis
from dpbayes.analyses.workspace import StudyWorkspace, Workspace, open_workspace
from dpbayes.crates.posterior import REPORT, build_posterior_crate
from dpbayes.kinds.registry import KINDS
from dpbayes.kinds.regression.clipping import clipping_alarm
from dpbayes.kinds.regression.facts import facts
from dpbayes.kinds.regression.pooled_parts import parts_record
from dpbayes.kinds.regression.texts import missing_caveat
from dpbayes.markup.convergence_advice import advice
from dpbayes_core.regression.pool import parts_of
from dpbayes_core.samplers.driver import sample
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.posterior import Posterior
from storage.files.archive_paths import POSTERIOR, links_of
from tasks.orders import PosteriorOrder
from tasks.progress import report
from tasks.publish_release import store_crate
from tasks.stamp import software_versions, stamp_of

if TYPE_CHECKING:
    from dpbayes_core.networks.release import NetworkRelease
    from dpbayes_core.regression.pool import Evidence


@task(
    name="archive-posterior",
    task_run_name="archive-posterior",
    retries=2,
    retry_delay_seconds=1,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def archive_posterior(order: PosteriorOrder, sampled: tuple[Posterior, float]) -> dict[str, Any]:
    """The crate of the posterior, and what a person is told of it."""
    begun = time.monotonic()
    posterior, sampling = sampled
    with open_workspace(asdict(order)) as workspace:
        report("writing the report", 0.0)
        files = _crate(workspace, posterior)
        workspace.keep(files, stamp_of(order.actor))
        Checkpoints(workspace.work, workspace.analysis.key, software_versions()).drop()
        report("writing the report", 1.0)
        return _document(files, workspace, found=False, sampling=sampling, total=sampling + time.monotonic() - begun)


@task(name="find-posterior", task_run_name="find-posterior", persist_result=False, cache_policy=NO_CACHE)
def stored_posterior(order: PosteriorOrder) -> dict[str, Any] | None:
    """The archived posterior of the same request, or None where there is none."""
    with open_workspace(asdict(order)) as workspace:
        files = workspace.stored()
        return None if files is None else _document(files, workspace, found=True, sampling=0.0, total=0.0)


def _crate(workspace: Workspace, posterior: Posterior) -> dict[str, bytes]:
    """Everything a reader needs, the naive posterior beside the noise-aware one."""
    analysis, request = workspace.analysis, workspace.analysis.request
    if isinstance(workspace, StudyWorkspace):
        for entry in analysis.entries:
            store_crate(workspace.books, entry, workspace.study)
    beside = _beside(analysis)
    naive = beside and sample(
        analysis.evidence,
        analysis.prior,
        sampler=beside,
        chains=request.chains,
        draws=request.draws,
        seed=request.seed,
    )
    return build_posterior_crate(
        request,
        posterior,
        workspace.provenance(),
        naive=naive or None,
        tried=_tried(analysis, posterior, naive or None),
        software=software_versions(),
        signer=workspace.signer,
    )


def _tried(analysis: Analysis, posterior: Posterior, naive: Posterior | None) -> dict[str, Any] | None:
    """How often the likeliest level is the right one, on the public records that the study names."""
    if analysis.test is None:
        return None
    from dpbayes_core.networks.prediction import accuracy

    test, release = analysis.test, cast("NetworkRelease", analysis.evidence)
    found = accuracy(release.schema, posterior.draws, test.target, test.records)
    plain = None if naive is None else accuracy(release.schema, naive.draws, test.target, test.records)
    return {**test.to_record(), "accuracy": found, "naive": plain}


def _beside(analysis: Analysis) -> str | None:
    """The sampler to show for comparison, where there is one that takes the release."""
    name = SAMPLERS[analysis.request.sampler].compared_with
    return None if name is None or SAMPLERS[name].refusal(analysis.evidence) else name


def _caveat(sampler: Mapping[str, Any]) -> str:
    """As it is known today: what an earlier version said of its intervals may have been found untrue."""
    known = SAMPLERS.get(sampler["name"])
    return known.caveat if known else sampler["caveat"]


def _parts(evidence: Any) -> tuple[Any, ...]:
    return parts_of(evidence) if evidence.kind == "regression" else (evidence,)


def _document(
    files: Mapping[str, bytes], workspace: Workspace, *, found: bool, sampling: float, total: float
) -> dict[str, Any]:
    analysis, record = workspace.analysis, json.loads(files[POSTERIOR])
    evidence = analysis.evidence
    parts = parts_record(evidence, analysis.request, declared=analysis.alike)
    record |= {} if parts is None else {"parts": parts}  # who declared it may have done so since
    return {
        "analysis": record["analysis"],
        "status": record["status"],
        "why": record["why"],
        "advice": advice(record),
        "already_analysed": found,
        "calibrated": record["sampler"]["calibrated"],
        "caveat": _caveat(record["sampler"]),
        "facts": list(facts(_parts(evidence), record, [entry.payload for entry in analysis.entries])),
        "sampler": record["sampler"]["name"],
        **{part: record["sampler"].get(part, "") for part in ("target", "choice", "cost")},
        "numbers": KINDS[evidence.kind].texts.spread.numbers,
        "coefficients": record["coefficients"],
        "draws": {"asked": record["request"]["draws"], "made": record["diagnostics"]["draws"]},
        "prior_check": record.get("prior_check"),
        "parts": parts,
        "clipping": clipping_alarm(cast("Evidence", evidence)) if evidence.kind == "regression" else "",
        "missing": missing_caveat(cast("Evidence", evidence).schema) if evidence.kind == "regression" else "",
        "releases": links_of(record),
        "seconds": {"sampling": round(sampling, 3), "total": round(total, 3)},
        "crate": workspace.address(),
        "report": workspace.address(REPORT),
        **workspace.told(files),
    }
