"""`dpbayes release`: one pass over the table, one charge, one crate."""

from typing import Annotated

import typer

from cli.console import guarded
from cli.format import Document, caps, cost, line, shortened, study_and_account
from cli.launch import actor, partial_on_failure, ready, start
from cli.options import AsJson, Debug, Holder, PeriodName, StudyFile
from tasks.answers import Which, stored_answer

Revision = Annotated[
    int, typer.Option(help="A number above 1 makes a new, fully charged release that supersedes the one before.")
]
Reason = Annotated[str | None, typer.Option(help="Why a revision is needed; recorded for ever.")]


def release(
    study: StudyFile,
    period: PeriodName,
    *,
    revision: Revision = 1,
    reason: Reason = None,
    holder: Holder = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Read the table once, charge the budget, store the release; a second call returns the stored one at no cost."""
    with guarded(json, debug) as console:
        declared = ready(study, [period])
        declared.only(holder)
        document = stored_answer(declared, period, Which(revision, reason, holder))
        if document is None:
            start(declared, "flows.release")
            from flows.release import release_study

            named = {"holder": holder, "actor": actor(), "sha256": declared.sha256}
            with partial_on_failure(console, declared, period, show), console.progress():
                document = release_study(str(study), period, revision, reason, **named)
        console.show(document, show)


def show(document: Document) -> None:
    """Print what was released, its cost and what remains; after a failure also what was charged but not published."""
    for one in document["releases"]:
        at = "" if one["holder"] is None else f" at {one['holder']}"
        which = f"{one['release']}{at} for {document['period']} {study_and_account(document)}"
        if one["status"] == "released":
            line(f"Released {which}, revision {one['revision']}.", "bold")
            line(f"  cost: {cost(one['cost'])}")
        else:
            line(
                f"Already released: {which}, revision {one['revision']}. Nothing was spent.",
                "bold",
            )
        if one["withdrawn"] is not None:
            line(f"  WITHDRAWN on {one['withdrawn']['date']}: {one['withdrawn']['reason']}", "bold red")
        if one["counted"] is not None:
            line(f"  of:     {one['counted']}, a number that is public")
        if one["limits"] is not None:
            line(f"  limits: {one['limits']}")
        line(f"  digest: {one['digest']}")
        line(f"  crate:  {shortened(one['crate'])}")
        if one["report"] is not None:
            line(f"  report: {shortened(one['report'])}")
        if one["validation"] is not None:
            line(f"  validation, confidential: {shortened(one['validation'])}")
        caps("  budget now", one["caps"])
    _unpublished(document)


def _unpublished(document: Document) -> None:
    """Print the releases that were charged and stored, but whose crates are not written yet."""
    for one in document.get("unpublished", ()):
        how = "Charged and stored" if one["status"] == "released" else "Stored since an earlier run"
        whose = f"{one['release']} for {document['period']} {study_and_account(document)}"
        line(f"{how}: {whose}. Its crate is not written yet.", "bold")
