"""`dpbayes inspect`: read and validate the table without a charge."""

from cli.console import guarded
from cli.format import Document, line, missing_values_note, public_count_note, shortened, study_and_account
from cli.launch import actor, ready, start
from cli.options import AsJson, Debug, Holder, PeriodName, StudyFile


def inspect(
    study: StudyFile, period: PeriodName, *, holder: Holder = None, json: AsJson = False, debug: Debug = False
) -> None:
    """Make a table's validation page for the steward, without a charge; the ledger records the inspection."""
    with guarded(json, debug) as console:
        declared = ready(study, [period])
        declared.only(holder)
        start(declared, "flows.inspect_source")
        from flows.inspect_source import inspect_study

        with console.progress():
            document = inspect_study(str(study), period, holder=holder, actor=actor())
        console.show(document, show)


def show(document: Document) -> None:
    """Print where the validation pages are, and that the ledger records the inspection."""
    line(f"Inspected the table for {document['period']} {study_and_account(document)}. Nothing was charged.", "bold")
    line(f"  on record: entry {document['entry']['seq']} of the ledger notes that the table was looked at")
    public_count_note(document)
    missing_values_note(document)
    for one in document["inspected"]:
        at = "" if one["holder"] is None else f" at {one['holder']}"
        line(f"  validation of {one['release']}{at}, confidential: {shortened(one['page'])}")
