"""How far a study is, by what the home near it has on record: nothing is written."""

from collections.abc import Sequence
from datetime import datetime

from dpbayes.calendar.facts import facts_of
from dpbayes.calendar.reanalyses import DueAnalysis, due_analyses, made_again
from dpbayes.calendar.states import PeriodState, period_states
from dpbayes.study.study import Study
from storage.home.attempts import Attempts
from storage.home.home import Home
from storage.ledger.reading import look


def states_near(study: Study, now: datetime, keys: Sequence[str] = ()) -> tuple[PeriodState, ...]:
    """The state of every period that is due, oldest first; `keys` are trusted fingerprints, for other users."""
    with look(study.path, keys) as reading:
        facts = facts_of(study, reading.ledger, reading.archive)
        return period_states(study, facts, Attempts(reading.home.runs, study.study).read(), now)


def due_analyses_near(study: Study, now: datetime) -> tuple[DueAnalysis, ...]:
    """The analyses of a study that are due by schedules of their own."""
    if not study.reanalysed:
        return ()
    return due_analyses(study, now, made_again(Attempts(Home.look(study.path).runs, study.study).read()))
