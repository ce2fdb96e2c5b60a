"""Catch up: of every study of a project, everything that is due and was missed."""

from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow

from dpbayes.calendar.caught_up import all_records, studies_at
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError
from flows.due import WorkedOff, work_off
from flows.run import make_again, run_period
from flows.states import NotConverged, converged, ends_in_named_state
from tasks.attempt import foreseen, now
from tasks.giving_up import give_up_without_server
from tasks.server_runs import end_orphans, forget_late


@flow(name="catch-up", flow_run_name="catch-up", persist_result=False)
@ends_in_named_state
def catch_up(folder: str, actor: str = "scheduler", *, eager: bool = False) -> dict[str, Any]:
    """Of each study, work off what is due; what fails at one study stops no other.

    Unless `eager`, a period that failed or waits for its table is left alone until its next try is due.
    """
    give_up_without_server()
    begun = now()
    studies, broken = studies_at(Path(folder))
    records: list[dict[str, Any]] = []
    failures: list[tuple[str, DpbayesError]] = []
    for study in studies:
        done = _caught_up(study, actor, eager=eager)
        records.append(done.document())
        failures += [(study.study, failure) for failure in _failures(done)]
    forget_late([str(study.path) for study in studies], begun)
    end_orphans()
    return all_records(Path(folder), records, broken, failures)


def _caught_up(study: Study, actor: str, *, eager: bool) -> WorkedOff:
    """What could be done of one study; without a schedule nothing is due."""
    if study.schedule is None and not study.reanalysed:
        return WorkedOff(study)
    try:
        path = str(study.path)
        return work_off(study, partial(run_period, path, actor), partial(make_again, path, actor), eager=eager)
    except Exception as error:
        return WorkedOff(study, failure=foreseen(error))


def _failures(done: WorkedOff) -> list[DpbayesError]:
    """What stopped a study, and posteriors of this time that are not to be published."""
    runs = {"runs": done.runs}
    found = [] if done.failure is None else [done.failure]
    return found if converged(runs) else [*found, NotConverged(runs)]
