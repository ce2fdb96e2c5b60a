"""From a command to a flow: settings first, then Prefect, once for the whole command."""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbayes_core.errors import StudyInvalid
from flows.console import Console
from flows.environment import prepare
from storage.home import Home
from storage.reanalysis import crate_bench
from storage.study.load import load_study
from storage.study.periods import Period
from storage.study.study import Study


@dataclass(frozen=True)
class Asked:
    """What is asked of a release beside its study and period."""

    revision: int = 1
    reason: str | None = None
    holder: str | None = None


def run_release(study: Path, period: str, asked: Asked, console: Console) -> dict[str, Any]:
    """The release flow, for one period."""
    _ready(study, [period]).only(asked.holder)
    from flows.release import release_study

    with console.progress():
        return release_study(str(study), period, asked.revision, asked.reason, holder=asked.holder, actor=actor())


def run_analyse(study: Path, period: str, console: Console) -> dict[str, Any]:
    """The analysis flow, for one period."""
    _ready(study, [period])
    from flows.analyse import analyse_study

    with console.progress():
        return analyse_study(str(study), period)


def run_reanalyse(order: Mapping[str, Any], console: Console) -> dict[str, Any]:
    """The analysis flow of crates, where there may be no home."""
    crate_bench(order)  # everything that can be refused before Prefect starts is refused now
    prepare(None)
    from flows.analyse import analyse_crates

    with console.progress():
        return analyse_crates(order)


def run_periods(study: Path, periods: str, console: Console) -> dict[str, Any]:
    """Release and analyse one period, or each of a range."""
    declared = load_study(study)
    names = [period.name for period in Period.range(periods, declared.period.grain)]
    _ready(study, names)
    from flows.run import run_study

    with console.progress():
        runs = [run_study(str(study), name, actor=actor()) for name in names]
    return runs[0] if len(runs) == 1 else {"study": declared.study, "runs": runs}


def actor() -> str:
    """Who acts, for the ledger: DPBAYES_ACTOR, else the login name."""
    return os.environ.get("DPBAYES_ACTOR") or getpass.getuser()


def _ready(study: Path, periods: list[str]) -> Study:
    """Everything that can be refused before Prefect starts is refused now."""
    declared = load_study(study)
    for period in periods:
        Period.parse(period, declared.period.grain)
    if not declared.releases:
        raise StudyInvalid(f"cannot run {study.name}: it declares no releases. Add one under `releases:`.")
    prepare(Home.find(study))
    return declared
