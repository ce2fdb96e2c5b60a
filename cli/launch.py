"""From a command to a flow: settings first, then Prefect, once for the whole command."""

import getpass
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli import analysis_table, progress_table
from cli.console import Console, View
from cli.environment import prepare
from dpbayes.analyses.crates_workspace import crate_bench
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from storage.home.home import Home
from storage.ledger.periods import Period
from tasks.done import collected


@dataclass(frozen=True)
class Asked:
    """What is asked of a release beside its study and period."""

    revision: int = 1
    reason: str | None = None
    holder: str | None = None


def run_release(study: Path, period: str, asked: Asked, console: Console) -> dict[str, Any]:
    """The release flow, for one period."""
    declared = ready(study, [period])
    declared.only(asked.holder)
    from flows.release import release_study

    with _kept(console, declared, period, progress_table.release), console.progress():
        return release_study(str(study), period, asked.revision, asked.reason, holder=asked.holder, actor=actor())


def run_inspect(study: Path, period: str, holder: str | None, console: Console) -> dict[str, Any]:
    """The inspection flow, for one period."""
    ready(study, [period]).only(holder)
    from flows.inspect_source import inspect_study

    with console.progress():
        return inspect_study(str(study), period, holder=holder, actor=actor())


def run_analyse(study: Path, period: str, console: Console) -> dict[str, Any]:
    """The analysis flow, for one period."""
    declared = ready(study, [period])
    from flows.analyse import analyse_study
    from flows.states import answer

    with _kept(console, declared, period, analysis_table.analyse), console.progress():
        return answer(analyse_study, str(study), period, actor())


def run_reanalyse(order: Mapping[str, Any], console: Console) -> dict[str, Any]:
    """The analysis flow of crates, where there may be no home."""
    crate_bench(order)  # everything that can be refused before Prefect starts is refused now
    prepare(None)
    from flows.analyse import analyse_crates
    from flows.states import answer

    with console.progress():
        return answer(analyse_crates, order)


def run_period(study: Path, period: str) -> dict[str, Any]:
    """The run flow, for one period; whoever calls it has seen to it that everything is ready."""
    from flows.run import run_study
    from flows.states import answer

    return answer(run_study, str(study), period, actor=actor())


def actor() -> str:
    """Who acts, for the ledger: DPBAYES_ACTOR, else the login name."""
    return os.environ.get("DPBAYES_ACTOR") or getpass.getuser()


@contextmanager
def _kept(console: Console, study: Study, period: str, view: View) -> Generator[None]:
    """What is done inside is shown, should it fail there."""
    about = {"study": study.study, "account": study.population, "period": period}
    with collected() as found:
        console.keep(lambda: about | found.to_record(), view)
        yield


def ready(study: Path, periods: list[str]) -> Study:
    """Everything that can be refused before Prefect starts is refused now."""
    declared = load_study(study)
    for period in periods:
        Period.parse(period, declared.period.grain)
    if not declared.releases:
        raise StudyInvalid(f"cannot run {study.name}: it declares no releases. Add one under `releases:`.")
    prepare(Home.find(study))
    return declared
