"""Work off what is due of a study: every period that the calendar owes, in order, then analyses made again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpbayes.analyses.again import missing_versions
from dpbayes.calendar.caught_up import error_of, study_record
from dpbayes.calendar.look import due_analyses_near, states_near
from dpbayes.calendar.reanalyses import attempt_name
from dpbayes.calendar.states import PeriodState
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError
from storage.home.home import Home
from tasks.attempt import Trial, attempts_of, foreseen, now, tried
from tasks.dask import shared_cluster
from tasks.notice_board import announce_failure, mark_announced
from tasks.progress import collected
from tasks.release_statistics import missing_table
from tasks.run_names import DUE

Document = dict[str, Any]
Run = Callable[[str], Document]
"""Releases and analyses the period of that name."""

Again = Callable[[str, str], Document]
"""Makes the analysis of that name again, of what is stored until a period."""


class TableLate(DpbayesError):
    """A table was waited for as long as its study says, and is not there."""

    kind = "table-late"
    exit_code = 4

    def __init__(self, period: str, missing: str) -> None:
        super().__init__(period, missing)

    def __str__(self) -> str:
        return f"the table of {self.args[0]} is late: {self.args[1]}"


@dataclass
class WorkedOff:
    """What was done of a study's due periods, and the failure that stopped it."""

    study: Study
    runs: list[Document] = field(default_factory=list)
    failure: DpbayesError | None = None

    def document(self) -> Document:
        """The periods that were run, and every due period that is not done now, with its state."""
        states: tuple[PeriodState, ...] = ()
        try:
            states = states_near(self.study, now()) if self.study.schedule else ()
        except Exception as error:
            self.failure = self.failure or foreseen(error)
        return study_record(self.study, states, self.runs, self.failure)


def work_off(study: Study, run: Run, again: Again, *, eager: bool = True) -> WorkedOff:
    """Run what is due of a study, to the first period that fails, waits for its table or is being run elsewhere.

    Then every analysis that is due by a schedule of its own is made again of what is stored, whatever became of the
    periods. Unless `eager`, a period or analysis that failed or waits is left alone until its next try is due. Of two
    processes at work on one study, the second does nothing.
    """
    done, home = WorkedOff(study), Home.find(study.path)
    with tried(study, DUE) as trial, shared_cluster(home.dask, home.work):
        for state in states_near(study, now()) if trial.begun and (study.schedule or not study.reanalysed) else ():
            if not state.over and not (_may_be_tried(state, eager=eager) and _tried(done, state.period, run)):
                break
        for due in due_analyses_near(study, now()) if trial.begun else ():
            _made_again(done, due.analysis, again, eager=eager)
        if done.failure is not None:
            trial.failed(done.failure)
    return done


def _made_again(done: WorkedOff, analysis: str, again: Again, *, eager: bool) -> None:
    """Make the versions of an analysis that are missing, unless somebody else is at it; a failure stops no other."""
    study, name = done.study, attempt_name(analysis)
    known = attempts_of(study).read().get(name)
    if not (eager or known is None or known.next_try is None or known.next_try <= now()):
        return
    period = None
    try:
        with tried(study, name) as trial:
            for period in missing_versions(study, analysis) if trial.begun else ():
                done.runs.append(again(analysis, period))
    except Exception as error:
        failure = foreseen(error)
        done.failure = done.failure or failure
        about = {"study": study.study, "account": study.population, "period": period, "reanalysis": analysis}
        done.runs.append(about | {"releases": [], "analyses": [], "error": error_of(failure)})


def _may_be_tried(state: PeriodState, *, eager: bool) -> bool:
    later = None if state.attempt is None else state.attempt.next_try
    return state.state != "running" and (eager or later is None or later <= now())


def _tried(done: WorkedOff, period: str, run: Run) -> bool:
    """Run a period, unless somebody else is at it or has just been; whether the next one may follow."""
    with collected() as so_far:
        try:
            with tried(done.study, period) as trial:
                return trial.begun and _run(done, period, trial, run)
        except Exception as error:
            announce_failure(done.study, period, error)
            done.failure = foreseen(error)
            mark_announced(done.failure)
            about = {"study": done.study.study, "account": done.study.population, "period": period}
            done.runs.append(about | so_far.to_record() | {"error": error_of(done.failure)})
            return False


def _run(done: WorkedOff, period: str, trial: Trial, run: Run) -> bool:
    state = next((one for one in states_near(done.study, now()) if one.period == period), None)
    if state is None or state.over:
        return state is not None  # None: it is owed no more, since a newer one became due
    ready = done.study.source.ready
    missing = None if ready is None or state.stored else missing_table(done.study, period)
    if ready is None or missing is None:
        done.runs.append(run(period))
        return True
    late = TableLate(period, str(missing)) if now() >= state.due + ready.after.length else None
    trial.awaits_table(missing if late is None else late, ready.retry.length)
    if late is not None:
        done.failure = late
        announce_failure(done.study, period, late)
    return False
