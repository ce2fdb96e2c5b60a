"""Arguments and options that several commands share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from dpbayes.project.place import project_above
from dpbayes_core.errors import DpbayesError


def in_project(place: Path | None) -> Path | None:
    """Let home and servers be those of the project that a study is in, unless the environment names others."""
    folder = None if place is None else project_above(place)
    if folder is None:
        return place
    from dpbayes.project.settings import load_settings

    try:
        stated = load_settings(folder).environment(folder)
    except DpbayesError as error:
        raise typer.BadParameter(str(error)) from None
    os.environ.update({name: value for name, value in stated.items() if not os.environ.get(name)})
    return place


StudyFile = Annotated[Path, typer.Argument(help="The study file (YAML).", show_default=False, callback=in_project)]
AnyStudyFile = Annotated[
    Path | None, typer.Argument(help="The study file (YAML); not with --from.", callback=in_project)
]
PeriodName = Annotated[str, typer.Option("--period", help="A period such as 2026-01.", show_default=False)]
Near = Annotated[
    Path, typer.Argument(help="A study file or folder near the home.", show_default="here", callback=in_project)
]
Holder = Annotated[str | None, typer.Option(help="Only this holder, where the others' tables are elsewhere.")]
Trusted = Annotated[
    list[str] | None,
    typer.Option("--key", help="The agency's fingerprint, for those who may not read the home's keys; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an unforeseen failure.")]
