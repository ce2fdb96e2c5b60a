"""From a command to a flow: settings first, then Prefect, once for the whole command."""

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
"""What the flows that read a table import late, and what takes longest to import."""


def actor() -> str:
    """Who acts, for the ledger: DPBAYES_ACTOR, else the login name."""
    return os.environ.get("DPBAYES_ACTOR") or getpass.getuser()


def ready(study: Path, periods: Sequence[str]) -> Study:
    """The study, once everything is refused that can be refused before Prefect starts."""
    declared = load_study(study)
    for period in periods:
        Period.parse(period, declared.period.grain)
    if not declared.releases:
        raise StudyInvalid(f"cannot run {study.name}: it declares no releases. Add one under `releases:`.")
    Home.find(study)
    return declared


def start(study: Study, flow: str) -> None:
    """Prefect and the module of a flow, for the rest of the command."""
    prepare(Home.find(study.path), flow, *(() if flow == ANALYSES else OF_A_PASS))


@contextmanager
def kept(console: Console, study: Study, period: str, view: View) -> Generator[None]:
    """What is done inside is shown, should it fail there."""
    about = {"study": study.study, "account": study.population, "period": period}
    with collected() as found:
        console.keep(lambda: about | found.to_record(), view)
        yield
