"""What `dpbayes init` and `dpbayes ledger create` make: the only two commands that found a home."""

import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from dpbayes_core.errors import StudyInvalid
from flows.documents import ledger_document
from flows.launch import actor
from storage.books import Books
from storage.home import Home
from storage.study.load import load_study
from studies.wages.generate import PERIODS, generate
from tasks.software import stamp_of

EXAMPLES = ("study.yaml", "networks.yaml", "questions.yaml")
"""The first is the study; the others ask other things of the same people."""


def make_study_folder(folder: Path) -> dict[str, Any]:
    """Study files, synthetic data, a home with keys, and a ledger with the study's account."""
    if folder.exists():
        raise StudyInvalid(f"cannot make {folder}: it exists already. Choose another name.")
    folder.mkdir(parents=True)
    for name in EXAMPLES:
        with as_file(files("studies.wages") / name) as template:
            shutil.copyfile(template, folder / name)
    study = folder / EXAMPLES[0]
    generate(folder)
    create_ledger(study)
    return {"folder": str(folder), "study_file": str(study), "periods": list(PERIODS)}


def create_ledger(study: Path) -> dict[str, Any]:
    """Keys and an empty ledger beside the study file, where there are none, and the study's account in it."""
    declared = load_study(study)
    home = Home.create(study.parent)
    stamp = stamp_of(actor())
    with Books.create(home, stamp) as books:
        books.ledger.open_account(declared.account(), stamp)
        books.settle()
        return ledger_document(books)
