"""What a command does before it runs a flow: check the study, then start Prefect once."""

import getpass
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli.console import Console, View
from cli.environment import prepare
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from storage.home.home import Home
from storage.ledger.periods import Period
from tasks.progress import collected

ANALYSES = "flows.analyse"
OF_A_PASS = ("pyarrow.parquet", "great_expectations", "numba")
"""The slowest imports of the flows that read a table; they are imported while Prefect starts."""


def actor() -> str:
    """The actor recorded in the ledger: DPBAYES_ACTOR, else the login name."""
    return os.environ.get("DPBAYES_ACTOR") or getpass.getuser()


def ready(study: Path, periods: Sequence[str]) -> Study:
    """Load the study, and refuse before Prefect starts whatever can be refused by then."""
    declared = load_study(study)
    for period in periods:
        Period.parse(period, declared.period.grain)
    if not declared.releases:
        raise StudyInvalid(f"cannot run {study.name}: it declares no releases. Add one under `releases:`.")
    Home.find(study)
    return declared


def start(study: Study, flow: str) -> None:
    """Start Prefect and import the module of a flow, for the rest of the command."""
    prepare(Home.find(study.path), flow, *(() if flow == ANALYSES else OF_A_PASS))


@contextmanager
def partial_on_failure(console: Console, study: Study, period: str, view: View) -> Generator[None]:
    """If the block fails, show the releases and analyses that were done inside it first."""
    about = {"study": study.study, "account": study.population, "period": period}
    with collected() as found:
        console.keep_partial(lambda: about | found.to_record(), view)
        yield
