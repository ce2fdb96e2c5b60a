"""Analyse: chains on Dask, diagnostics, an archived posterior and its report. Spends nothing."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from dpbayes.study.load import load_study
from flows.states import stated
from tasks import progress
from tasks.archive_posterior import archive_posterior, stored_posterior
from tasks.orders import AnalysisOrder, CratesOrder, PosteriorOrder
from tasks.sample_chains import sample_chains


@flow(name="analyse", flow_run_name="analyse", persist_result=False)
@stated
def analyse_study(study: str, period: str, actor: str = "scheduler") -> dict[str, Any]:
    """Run every analysis of the study for one period, or answer what is archived already."""
    declared = load_study(study)
    analysed = []
    for name in declared.analyses:
        analysed.append(_analysed(AnalysisOrder(study=study, analysis=name, period=period, actor=actor)))
        progress.analysed(analysed[-1])
    return {"study": declared.study, "account": declared.population, "period": period, "analyses": analysed}


@flow(name="analyse-crates", flow_run_name="analyse-crates", persist_result=False)
@stated
def analyse_crates(order: Mapping[str, Any]) -> dict[str, Any]:
    """One posterior of the releases in published crates, or the crate that stands where it goes."""
    found = _analysed(CratesOrder(**order))
    told = ("study", "account", "period", "sources", "notices", "not_verified", "signed_by")
    about = {name: found.pop(name) for name in told}
    return {**about, "analyses": [found]}


def _analysed(order: PosteriorOrder) -> dict[str, Any]:
    """What is archived already, or chains, diagnostics and a crate made now."""
    return stored_posterior(order) or archive_posterior(order, sample_chains(order))
