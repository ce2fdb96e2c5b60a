"""Inspect: validate the table for the steward without a charge; the ledger records it."""

from typing import Any

from prefect import flow

from dpbayes.plans.cautions import query_words, unstated_words
from dpbayes.study.load import load_study
from flows.states import ends_in_named_state
from tasks.inspect_table import inspect_table
from tasks.orders import InspectOrder
from tasks.run_names import flow_name


@flow(name="inspect", flow_run_name=flow_name, persist_result=False)
@ends_in_named_state
def inspect_study(study: str, period: str, *, holder: str | None = None, actor: str = "scheduler") -> dict[str, Any]:
    """Record in the ledger that the table is inspected, then write its validation pages to the vault."""
    declared = load_study(study)
    found = inspect_table(InspectOrder(study=study, sha256=declared.sha256, period=period, holder=holder, actor=actor))
    return {
        "study": declared.study,
        "account": declared.population,
        "period": period,
        **found,
        "public_count": query_words(declared),
        "missing": unstated_words(declared),
    }
