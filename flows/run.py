"""Run: release, then analyse, one period or everything that is due. This is what a schedule deploys."""

from functools import partial
from typing import Any

from prefect import flow

from dpbayes.study.load import load_study
from flows.analyse import analyse_study
from flows.due import work_off
from flows.release import release_study
from flows.states import answer, ends_in_named_state
from storage.home.home import Home
from tasks.attempt import tried
from tasks.dask import shared_cluster
from tasks.giving_up import give_up_without_server
from tasks.run_names import DUE, PREVIOUS, flow_name, last_completed


@flow(name="run", flow_run_name=flow_name, persist_result=False)
@ends_in_named_state
def run_study(study: str, period: str = "previous", actor: str = "scheduler") -> dict[str, Any]:
    """Release the period unless it was released, then run every analysis.

    `previous` is the last completed period; `due` is every period that is due, oldest first, each in a run of its own,
    and then every analysis that is due by a schedule of its own.
    """
    give_up_without_server()
    declared = load_study(study)
    if period == DUE:
        done = work_off(declared, partial(run_period, study, actor), partial(make_again, study, actor))
        if done.failure is not None:
            raise done.failure
        return done.document()
    named = last_completed(declared) if period == PREVIOUS else declared.parse_period(period).name
    home = Home.find(declared.path)
    with tried(declared, named), shared_cluster(home.dask, home.work):
        released = release_study(study, named, None, actor=actor, sha256=declared.sha256)
        return released | answer(analyse_study, study, named, actor, declared.sha256)


def run_period(study: str, actor: str, period: str) -> dict[str, Any]:
    """One period, in a run of its own."""
    return answer(run_study, study, period, actor)


def make_again(study: str, actor: str, analysis: str, period: str) -> dict[str, Any]:
    """One analysis of what is stored until a period, in a run of its own; nothing is released."""
    return {"reanalysis": analysis, "releases": []} | answer(analyse_study, study, period, actor, analysis=analysis)
