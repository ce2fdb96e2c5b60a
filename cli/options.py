"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

StudyFile = Annotated[Path, typer.Argument(help="The study file (YAML).", show_default=False)]
PeriodName = Annotated[str, typer.Option("--period", help="A period such as 2026-01.", show_default=False)]
Near = Annotated[Path, typer.Argument(help="A study file or folder near the home.", show_default="here")]
Holder = Annotated[str | None, typer.Option(help="Only this holder, where the others' tables are elsewhere.")]
Trusted = Annotated[
    list[str] | None,
    typer.Option("--key", help="The agency's fingerprint, for those who may not read the home's keys; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an unforeseen failure.")]
