"""`dpbayes status`: what is due, done, late or failed, who has to act, and how long the budgets last."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import guarded
from cli.environment import configure_prefect
from cli.format import Document, grid, line, measured, number, remaining, shortened
from cli.options import AsJson, Debug, Near, Trusted
from dpbayes.status.document import add_server, status_document
from dpbayes.status.look import ProjectStatus, project_at, status_of
from dpbayes.status.prometheus import prometheus_text
from dpbayes.status.words import (
    analysed_words,
    day,
    deployment_words,
    fit_words,
    going_on,
    matter_name,
    moment,
    refused_words,
)
from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.files.durable import replace_file

MODE = 0o644  # the agent that serves the file is another user


def status(
    place: Near = Path(),
    *,
    page: Annotated[Path | None, typer.Option(help="Also write a web page.", show_default=False)] = None,
    prometheus: Annotated[
        Path | None, typer.Option(help="Also write the numbers for Prometheus' text collector.", show_default=False)
    ] = None,
    key: Trusted = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what is due, done, late or failed of a folder of studies or one study, who has to act, and the budgets."""
    with guarded(json, debug) as console:
        document = project_status(place, page, prometheus, key or [])
        console.show(document, show)
        if document["exit_code"]:
            raise typer.Exit(document["exit_code"])


def project_status(
    place: Path, page: Path | None = None, prometheus: Path | None = None, keys: Sequence[str] = ()
) -> dict[str, Any]:
    """The status of the studies at a place, also written as a page and for Prometheus where that is asked for."""
    for path, ending in ((page, ".html"), (prometheus, ".prom")):
        if path is not None and path.suffix != ending:
            raise StudyInvalid(f"cannot write {path}: its name does not end in {ending}. Choose one that does.")
    found = status_of(project_at(place), datetime.now(UTC), keys)
    document = status_document(found)
    if os.environ.get("PREFECT_API_URL"):
        document = add_server(document, _asked(found))
    if page is not None:
        from dpbayes.pages.status.page import render

        _write(page, render(document))
    if prometheus is not None:
        _write(prometheus, prometheus_text(document))
    return document


def _asked(found: ProjectStatus) -> dict[str, Any]:
    configure_prefect()
    from tasks.server_status import Asked, server_status

    project = found.project
    return server_status(
        Asked(
            folder=str(project.folder),
            pool=project.settings.prefect.pool,
            studies={str(study.path) for study in project.studies},
            attempts=[attempt for each in found.studies for attempt in each.attempts.values()],
            now=found.now,
        )
    )


def _write(path: Path, text: str) -> None:
    """Write a file that readers find whole at any moment."""
    try:
        replace_file(path, text.encode(), path.parent, mode=MODE)
    except OSError as error:
        raise DpbayesError(f"cannot write {path}: {error.strerror}. Choose another file.") from error


def show(document: Document) -> None:
    """Print what waits for a person first, then each study, the budgets, and what a Prefect server says."""
    studies = document["studies"]
    line(f"Status of {shortened(document['folder'])} at {moment(document['at'])}. {document['verdict']}", "bold")
    for one in document["waits"]:
        line(f"{matter_name(one)}: {one['state'].upper()}, for the {one['who']}. {one['sentence']}", "bold red")
    if studies:
        grid("", ("study", "population", "last release", "next", "due", "open"), [_study(one) for one in studies], 2)
    else:
        line("There is no study here.")
    for one in going_on(document):
        line(f"{matter_name(one)}: {one['state']}. {one['sentence']}")
    if document["budget"]:
        grid(
            "Budgets: how many of the coming periods of all studies fit, in the order in which they are due",
            ("population", "cap", "limit", "spent", "remaining", "fit", "first that does not"),
            [_cap(one) for one in document["budget"]],
            2,
        )
    if document["server"] is not None:
        _server(document)


def _study(study: Document) -> tuple[str, ...]:
    last, due = study["last"], study["next"]
    released = "-" if last is None else f"{last['period']} on {last['day']}, {analysed_words(last)}"
    coming = ("no schedule", "-") if due is None else (due["period"], day(due["due"]))
    opened = sum(many for state, many in study["counts"].items() if state not in ("done", "not-converged"))
    return (study["study"], study["population"], released, *coming, "?" if study["error"] else str(opened))


def _cap(one: Document) -> tuple[str, ...]:
    cap = one["cap"] if one["period"] is None else f"{one['cap']} {one['period']}"
    spent = number(one["spent"]), remaining(one["remaining"])
    return (one["population"], cap, measured(one), *spent, fit_words(one), refused_words(one))


def _server(document: Document) -> None:
    server = document["server"]
    if not server["answers"]:
        line(server["sentence"], "yellow")
        return
    line(f"Prefect's server at {server['url']}", "bold")
    for study in document["studies"]:
        line(f"  {study['study']}: {deployment_words(study['deployment'])}")
    if server["catch_up"] is not None:
        line(f"  {server['catch_up']['name']}: {deployment_words(server['catch_up'])}")
    for worker in server["workers"]:
        line(f"  worker {worker['worker']} of pool {worker['pool']}: last sign of life {moment(worker['seen'])}")
    if not server["workers"]:
        line("  No worker was ever seen: nothing that is scheduled runs.", "yellow")
    for run in server["runs"]:
        line(f"  {run['deployment']}: {run['sentence']}", "yellow" if run["life"] == "dead" else None)
