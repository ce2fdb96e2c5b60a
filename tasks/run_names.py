"""Names of flow and task runs: what is done, the study, the period and the part of it; nothing else of a parameter."""

from collections.abc import Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from prefect.runtime import flow_run

from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError
from storage.ledger.periods import Period
from tasks.orders import AnalysisOrder, CratesOrder, ReleaseOrder

PREVIOUS = "previous"
DUE = "due"
"""Words for periods that a schedule asks for: the last completed one, and every one that is due."""


def flow_name() -> str:
    """`run wages 2026-01` for the flow run that begins; without a valid study and period the flow's name alone."""
    given = flow_run.parameters
    return _name(flow_run.flow_name, given.get("study"), given.get("period", ""))


def task_name(verb: str) -> Callable[..., str]:
    """Names a task's runs `release-statistics wages 2026-01 pay-regression`, by the order or analysis it is given."""

    def name(parameters: Mapping[str, Any]) -> str:
        order = parameters.get("order")
        if "orders" in parameters:  # of one study and period
            return _name(verb, parameters["orders"][0].study, parameters["orders"][0].period)
        if order is None:  # the analysis itself: its names come from files that were checked
            request = parameters["prepared"].analysis.request
            return f"{verb} {request.study} {request.period} {request.analysis}"
        if isinstance(order, CratesOrder):
            return verb
        return _name(verb, order.study, order.period, _part(order))

    return name


def last_completed(study: Study) -> str:
    """The last period that had ended when the present flow run was due, in the schedule's timezone."""
    timezone = study.schedule.timezone if study.schedule else "UTC"
    due = flow_run.scheduled_start_time.astimezone(ZoneInfo(timezone))
    return Period.previous(due, study.period.grain).name


def _name(verb: str, study: str | None, period: str, *parts: str) -> str:
    if study is None:
        return verb
    try:
        declared = load_study(study)
        return " ".join((verb, declared.study, _period(declared, period), *parts)).rstrip()
    except DpbayesError:
        return verb


def _period(study: Study, asked: str) -> str:
    if asked == PREVIOUS:
        return last_completed(study)
    return asked if asked == DUE else Period.parse(asked, study.period.grain).name


def _part(order: Any) -> str:
    """The release or analysis of an order; an inspection has none."""
    if isinstance(order, ReleaseOrder):
        return order.release
    return order.analysis if isinstance(order, AnalysisOrder) else ""
