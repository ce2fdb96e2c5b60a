"""`dpbayes inspect`: the pass without the charge."""

from cli.console import guarded
from cli.format import Document, line, of_whom, published, shortened, silent
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
    """Where the pages of a look are, and that it is on record."""
    line(f"Inspected the table for {document['period']} {of_whom(document)}. Nothing was charged.", "bold")
    line(f"  on record: entry {document['entry']['seq']} of the ledger notes that the table was looked at")
    published(document)
    silent(document)
    for one in document["inspected"]:
        at = "" if one["holder"] is None else f" at {one['holder']}"
        line(f"  validation of {one['release']}{at}, confidential: {shortened(one['page'])}")
