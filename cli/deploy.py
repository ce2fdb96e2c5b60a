"""`dpbayes deploy`: the schedules of a folder of studies on a Prefect server, shown as a plan and carried out."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from cli.console import guarded
from cli.environment import ALWAYS, configure_prefect
from cli.format import Document, counted, line, shortened
from cli.options import AsJson, Debug
from dpbayes.project.project import Project, load_project
from dpbayes_core.errors import StudyInvalid
from tasks.deployments.files import write_files
from tasks.deployments.variables import run_variables
from tasks.deployments.wanted import Entry, Wanted, wanted

WRONG = 2


def deploy(
    folder: Annotated[Path, typer.Argument(help="The folder of the studies.", show_default="here")] = Path(),
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    files: Annotated[
        bool, typer.Option("--files", help="Write an equivalent prefect.yaml into the folder; ask no server.")
    ] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make, change and retire deployments on a Prefect server until they are those of a folder's studies."""
    with guarded(json, debug) as console:
        document = deploy_project(folder, dry_run=dry_run, files=files)
        console.show(document, show)
        if document["problems"]:
            raise typer.Exit(WRONG)


def deploy_project(folder: Path, *, dry_run: bool = False, files: bool = False) -> dict[str, Any]:
    """The plan for a project, carried out unless it is only to be shown or written down."""
    project = load_project(folder)
    variables = {**ALWAYS, **run_variables(project, os.environ)}
    configure_prefect()
    asked = wanted(project, _entries(), variables)
    if files:
        return _document(project, asked) | {"file": str(write_files(asked))}
    return _on_server(project, asked, dry_run=dry_run)


def _entries() -> dict[str, Entry]:
    """The flows that are deployed."""
    from flows.catch_up import catch_up
    from flows.run import run_study
    from tasks.deployments.entries import entry

    return {each.flow: each for each in (entry(run_study), entry(catch_up))}


def _on_server(project: Project, asked: Wanted, *, dry_run: bool) -> dict[str, Any]:
    from prefect.client.orchestration import get_client
    from prefect.settings import get_current_settings

    from tasks.deployments.apply import apply
    from tasks.deployments.plan import plan
    from tasks.deployments.present import read_present

    server = get_current_settings().api.url
    if not server:
        raise StudyInvalid(
            "cannot deploy: no Prefect server is named. Set PREFECT_API_URL, or write a prefect.yaml with --files."
        )
    with get_client(sync_client=True) as client:
        present = read_present(client, asked)
        if not (project.studies or project.broken or any(each.ours for each in present.deployments.values())):
            patterns = ", ".join(project.settings.studies)
            raise StudyInvalid(f"cannot deploy {project.folder}: no study is in it ({patterns}). Name another folder.")
        steps = plan(asked, present, project.broken)
        if not dry_run:
            apply(client, asked, present, steps)
    document = _document(project, asked)
    return document | {
        "server": _without_user(server),
        "dry_run": dry_run,
        "steps": [step.to_record() for step in steps],
        "problems": document["problems"] + [f"{step.name}: {step.why}" for step in steps if step.problem],
    }


def _document(project: Project, asked: Wanted) -> dict[str, Any]:
    return {
        "folder": str(project.folder),
        "pool": asked.pool,
        "studies": [study.study for study in project.studies],
        "variables": dict(asked.deployments[0].variables) if asked.deployments else {},
        "problems": [f"{path}: {sentence}" for path, sentence in project.broken],
        "server": None,
        "file": None,
        "dry_run": False,
        "steps": [],
    }


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def show(document: Document) -> None:
    """What was done, or would be, and what a person has to correct."""
    if document["file"] is not None:
        line(f"Wrote {shortened(document['file'])}: its first lines say how to use it.", "bold")
    else:
        _show_plan(document)
    for problem in document["problems"]:
        line(f"NOT DEPLOYED: {problem}", "bold red")


def _show_plan(document: Document) -> None:
    line(f"Project {document['folder']} on {document['server']}, work pool {document['pool']}", "bold")
    steps = document["steps"]
    width = max(len(step["action"]) for step in steps)
    for step in steps:
        line(f"  {step['action']:<{width}}  {step['kind']:<10}  {step['name']}{_because(step)}")
        for change in step["changes"]:
            line(f"  {'':<{width}}    {change['what']}: {change['from']} -> {change['to']}")
    done = [step for step in steps if step["action"] != "leave"]
    if not done:
        line("There is nothing to do: the server has what the studies ask for.", "bold")
    elif document["dry_run"]:
        line(f"{counted(len(done), 'step')} to do, and none was done: this was a dry run.", "bold")
    else:
        line(f"{counted(len(done), 'step')} done.", "bold")


def _because(step: Mapping[str, Any]) -> str:
    return f": {step['why']}" if step["why"] else ""
