"""What `dpbayes init` and `dpbayes ledger create` make: the only two commands that found a home."""

import json
import re
import shutil
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from cli.documents import ledger_document
from cli.launch import actor
from dpbayes.study.load import load_study
from dpbayes_core.errors import StudyInvalid
from examples.wages.generate import PERIODS, generate
from storage.home.home import Home
from storage.ledger.anchored import Books
from tasks.software import stamp_of

EXAMPLES = ("study.yaml", "networks.yaml", "questions.yaml")
"""The first is the study; the others ask other things of the same people."""


def make_study_folder(folder: Path) -> dict[str, Any]:
    """Study files, a schedule, synthetic data, a home with keys, and a ledger with the study's account."""
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
    _open_account([study, *(folder / name for name in EXAMPLES[1:])], Home.create(folder))
    return {"folder": str(folder), "study_file": str(study), "periods": list(PERIODS)}


def _write_schedule(folder: Path) -> None:
    """A deployment for Prefect, named like the folder, so that two studies are two deployments."""
    schedule = (files("examples.wages") / "prefect.yaml").read_text()
    name = re.sub(r"[^\w.-]+", "-", folder.resolve().name)  # Prefect takes no slash, percent sign or angle
    (folder / "prefect.yaml").write_text(schedule.replace("- name: wages", f"- name: {json.dumps(name)}"))


def create_ledger(study: Path) -> dict[str, Any]:
    """The study's account, in the ledger of the nearest home upward; without any, one is made beside the study file."""
    load_study(study)  # nothing is made for a study that cannot be used
    place = Home.place_for(study)
    Home.refuse_second(place)
    return _open_account([study], Home.create(place))


def _open_account(studies: Sequence[Path], home: Home) -> dict[str, Any]:
    """Open the account that these studies share, in a ledger that is made where there is none."""
    declared = [load_study(study) for study in studies]
    stamp = stamp_of(actor())
    with Books.create(home, stamp) as books:
        before = books.ledger.head.seq
        entry = books.ledger.open_account(declared[0].account(), stamp, [one.study for one in declared])
        books.settle()
        about = {"study": declared[0].study, "account": declared[0].population, "home": str(home.folder)}
        return {"status": "opened" if entry.seq > before else "already-open", **about, **ledger_document(books)}
