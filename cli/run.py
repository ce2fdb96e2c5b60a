"""`dpbayes run`: release and analyse period by period; after a failure, what was done before it is shown."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import analyse, release
from cli.console import Console, exit_unless_converged, failure_of, guarded
from cli.format import line, study_and_account
from cli.launch import actor, ready, start
from cli.options import AsJson, Debug, StudyFile
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.periods import Period
from tasks.answers import Which, stored_answer
from tasks.progress import Done, collected

Document = dict[str, Any]


def run(
    study: StudyFile,
    period: Annotated[str, typer.Option(help="2026-01, or a range such as 2026-01..2026-03.", show_default=False)],
    *,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Where a period fails, still try those after it.")
    ] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Release, then analyse; `--period 2026-01..2026-03` takes the periods in turn, up to the first that fails."""
    with guarded(json, debug) as console:
        document = run_periods(study, period, console, keep_going=keep_going)
        console.show(document, show)
        runs = document.get("runs", [document])
        exit_unless_converged([analysis for one in runs for analysis in one["analyses"]])


@dataclass
class Runs:
    """The periods of a command: finished or failed (`finished`), running now (`under_way`), and still to come."""

    study: Study
    names: list[str]
    finished: list[Document] = field(default_factory=list)
    under_way: Done | None = None
    cluster: ExitStack = field(default_factory=ExitStack)  # of this machine, for the chains of all periods
    ledger: ExitStack = field(default_factory=ExitStack)  # open while one stored period follows another
    opened: AnchoredLedger | None = None

    def document(self) -> Document:
        """Everything done so far; if the command has one period only, the document of that period itself."""
        tried = [*self.finished, *([] if self.under_way is None else [self._so_far(self.under_way)])]
        if len(self.names) == 1:
            return tried[0] if tried else self._about(self.names[0])
        about = {"study": self.study.study, "account": self.study.population}
        return {**about, "runs": tried, "not_tried": self.names[len(tried) :]}

    def open_ledger(self) -> AnchoredLedger | None:
        """The ledger, opened unless it is open; None if that fails, which the flow reports."""
        if self.opened is None:
            with suppress(Exception):
                self.opened = self.ledger.enter_context(AnchoredLedger.open(self.study.path))
        return self.opened

    def close_ledger(self) -> None:
        """Close the ledger, because a flow opens it itself."""
        self.ledger.close()
        self.opened = None

    def failed(self, error: Exception) -> None:
        """Move the period under way to the finished ones, with the error that stopped it."""
        assert self.under_way is not None
        self.finished.append(self._so_far(self.under_way) | {"error": failure_of(error).to_record()})
        self.under_way = None

    def _so_far(self, done: Done) -> Document:
        return self._about(self.names[len(self.finished)]) | done.to_record()

    def _about(self, period: str) -> Document:
        return {"study": self.study.study, "account": self.study.population, "period": period}


def run_periods(study: Path, periods: str, console: Console, *, keep_going: bool = False) -> Document:
    """Release and analyse each period of a range; raise the first failure, with `keep_going` after trying the rest."""
    declared = load_study(study)
    runs = Runs(declared, [period.name for period in Period.range(periods, declared.period.grain)])
    ready(study, runs.names)
    console.keep_partial(runs.document, show)
    first: Exception | None = None
    with console.progress(), runs.cluster, runs.ledger:
        for name in runs.names:
            try:
                _run_period(runs, study, name)
            except Exception as error:
                runs.failed(error)
                first = first or error
                if not keep_going:
                    break
    if first is not None:
        raise first
    return runs.document()


def _run_period(runs: Runs, study: Path, name: str) -> None:
    with collected() as runs.under_way:
        declared = load_study(study, runs.study.sha256)
        opened = runs.open_ledger()
        stored = stored_answer(declared, name, Which(), analyses=True, opened=opened)
        document = stored or _run_flow(runs, str(study), name)
    runs.finished.append(document)
    runs.under_way = None


def _run_flow(runs: Runs, study: str, name: str) -> Document:
    runs.close_ledger()
    start(runs.study, "flows.run")
    from flows.run import run_study
    from flows.states import answer
    from tasks.dask import shared_cluster

    home = Home.find(runs.study.path)
    runs.cluster.enter_context(shared_cluster(home.dask, home.work))  # once: nested ones add nothing
    return answer(run_study, study, name, actor=actor())


def show(document: Mapping[str, Any]) -> None:
    """Print every period that was tried: its release, then its analyses, or what was done before it failed."""
    for one in document.get("runs", [document]):
        release.show(one)
        analyse.show(one)
        if "error" in one and "runs" in document:
            line(f"{one['period']} {study_and_account(document)}: FAILED ({one['error']['kind']}).", "bold red")
