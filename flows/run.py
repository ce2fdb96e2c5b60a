"""Run: release, then analyse. This is what a schedule deploys."""

from typing import Any
from zoneinfo import ZoneInfo

from prefect import flow, runtime

from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from flows.analyse import analyse_study
from flows.release import release_study
from flows.states import answer, ends_in_named_state
from storage.home.home import Home
from storage.ledger.periods import Period
from tasks.dask import shared_cluster
from tasks.giving_up import give_up_without_server


@flow(name="run", flow_run_name="run", persist_result=False)
@ends_in_named_state
def run_study(study: str, period: str = "previous", actor: str = "scheduler") -> dict[str, Any]:
    """Release the period unless it was released, then run every analysis; `previous` is the last completed period."""
    give_up_without_server()
    declared = load_study(study)
    named = _last_completed(declared) if period == "previous" else period
    home = Home.find(declared.path)
    with shared_cluster(home.dask, home.work, ahead=bool(declared.analyses)):
        released = release_study(study, named, None, actor=actor, sha256=declared.sha256)
        return released | answer(analyse_study, study, named, actor, declared.sha256)


def _last_completed(declared: Study) -> str:
    """The last period that had ended when this run was due, in the schedule's timezone."""
    timezone = declared.schedule.timezone if declared.schedule else "UTC"
    due = runtime.flow_run.scheduled_start_time.astimezone(ZoneInfo(timezone))
    return Period.previous(due, declared.period.grain).name
