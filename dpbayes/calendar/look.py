"""How far a study is, by what the home near it has on record: nothing is written."""

from collections.abc import Sequence
from datetime import datetime

from dpbayes.calendar.facts import facts_of
from dpbayes.calendar.states import PeriodState, period_states
from dpbayes.study.study import Study
from storage.home.attempts import Attempts
from storage.ledger.reading import look


def states_near(study: Study, now: datetime, keys: Sequence[str] = ()) -> tuple[PeriodState, ...]:
    """The state of every period that is due, oldest first; `keys` are trusted fingerprints, for other users."""
    with look(study.path, keys) as reading:
        facts = facts_of(study, reading.ledger, reading.archive)
        return period_states(study, facts, Attempts(reading.home.runs, study.study).read(), now)
