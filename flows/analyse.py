"""Analyse: chains on Dask, diagnostics, an archived posterior and its report. Spends nothing."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from prefect import flow

from dpbayes.study.load import load_study
from flows.states import ends_in_named_state
from storage.home.home import Home
from tasks import progress
from tasks.answers import crates_answer
from tasks.archive_posterior import Found, archive_posterior, find_posterior, find_posteriors
from tasks.dask import shared_cluster
from tasks.orders import AnalysisOrder, CratesOrder, PosteriorOrder
from tasks.run_names import flow_name
from tasks.sample_chains import sample_chains


@flow(name="analyse", flow_run_name=flow_name, persist_result=False)
@ends_in_named_state
def analyse_study(
    study: str, period: str, actor: str = "scheduler", sha256: str | None = None, *, analysis: str | None = None
) -> dict[str, Any]:
    """Run every analysis of the study for one period, or one; what is archived already is returned as it is."""
    declared = load_study(study, sha256)
    common = {"study": study, "sha256": declared.sha256, "period": period, "actor": actor}
    orders = [
        AnalysisOrder(analysis=name, **common) for name in (declared.analyses if analysis is None else [analysis])
    ]
    analysed = []
    home = Home.find(declared.path)
    with shared_cluster(home.dask, home.work):
        known = find_posteriors(orders) if len(orders) > 1 else []
        for order, found in zip_longest(orders, known):
            analysed.append(_analysed(order, found))
            progress.analysed(analysed[-1])
    return {"study": declared.study, "account": declared.population, "period": period, "analyses": analysed}


@flow(name="analyse-crates", flow_run_name="analyse-crates", persist_result=False)
@ends_in_named_state
def analyse_crates(order: Mapping[str, Any]) -> dict[str, Any]:
    """Draw and archive one posterior of the releases in published crates, or return the one stored at that address."""
    return crates_answer(_analysed(CratesOrder(**order)))


def _analysed(order: PosteriorOrder, known: Found | None = None) -> dict[str, Any]:
    """The document of one posterior: archived already, or drawn and archived now."""
    prepared, found = known or find_posterior(order)
    return found or archive_posterior(order, prepared, sample_chains(prepared))
