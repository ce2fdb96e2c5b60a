"""`dpbayes init`: make an example study folder that is ready to run."""

import json
import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import guarded
from cli.format import Document, line
from cli.ledger.create import open_account
from cli.options import AsJson, Debug, in_project
from dpbayes_core.errors import StudyInvalid
from examples.wages.generate import PERIODS, generate
from storage.home.home import Home

EXAMPLES = ("study.yaml", "networks.yaml", "questions.yaml")
"""The first is the main study; the others release other statistics of the same people."""


def init(
    name: Annotated[Path, typer.Argument(help="The folder to make.", show_default=False, callback=in_project)],
    *,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make a folder with complete studies, synthetic data, a home and a ledger."""
    with guarded(json, debug) as console:
        console.show(make_study_folder(name), show)


def make_study_folder(folder: Path) -> dict[str, Any]:
    """Make study files, a schedule, synthetic data, a home with keys, and a ledger with the study's account."""
    if folder.exists():
        raise StudyInvalid(f"cannot make {folder}: it exists already. Choose another name.")
    Home.refuse_second(folder)
    folder.mkdir(parents=True)
    for name in EXAMPLES:
        with as_file(files("examples.wages") / name) as template:
            shutil.copyfile(template, folder / name)
    _write_schedule(folder)
    study = folder / EXAMPLES[0]
    generate(folder)
    open_account([study, *(folder / name for name in EXAMPLES[1:])], Home.create(folder))
    return {"folder": str(folder), "study_file": str(study), "periods": list(PERIODS)}


def _write_schedule(folder: Path) -> None:
    """Write a Prefect deployment named like the folder, so that two study folders are two deployments."""
    schedule = (files("examples.wages") / "prefect.yaml").read_text()
    name = re.sub(r"[^\w.-]+", "-", folder.resolve().name)  # Prefect takes no slash, percent sign or angle
    (folder / "prefect.yaml").write_text(schedule.replace("- name: wages", f"- name: {json.dumps(name)}"))


def show(document: Document) -> None:
    """Print what `init` made and what to do next."""
    line(
        f"Made {document['folder']}: a study, synthetic data for {', '.join(document['periods'])}, "
        "and a home with keys and a ledger."
    )
    line(f"Next: dpbayes run {document['study_file']} --period {document['periods'][0]}")
    line(f"On a schedule, with a Prefect server: dpbayes deploy {document['folder']}")
