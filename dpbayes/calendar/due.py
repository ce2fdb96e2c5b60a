"""Which periods of a study are due, and since when: from its schedule alone, with the clock handed in."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from dpbayes.study.analyses import ScheduleSpec
from dpbayes.study.schedule import first_firing, releases
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from storage.ledger.periods import Period

_EARLIEST = 1001  # years before it may have no name


@dataclass(frozen=True)
class Due:
    """A period that the schedule releases, and the moment from which it is due, in UTC."""

    period: Period
    at: datetime


def due_at(study: Study, period: Period | str) -> datetime:
    """When the study's schedule fires for the first time after a period is over, in UTC."""
    schedule = _schedule(study)
    return first_firing(study.parse_period(str(period)), schedule.cron, schedule.timezone)


def due_periods(study: Study, first_entry: str | None, now: datetime) -> tuple[Due, ...]:
    """Every period that is due at a moment, released or not, oldest first.

    The first one is `schedule.first`; without it `first_entry`, the first period of the study in the ledger; without
    either, only the newest one is due.
    """
    first = _schedule(study).first or first_entry
    if first is None:
        return tuple(_newest(study, now))
    found: list[Due] = []
    due = _from(study, study.parse_period(first))
    while due.at <= now:
        found.append(due)
        due = _from(study, due.period.next())
    return tuple(found)


def coming_due(study: Study, now: datetime) -> Due:
    """The period that is due next, after a moment; before `schedule.first` none is."""
    first, over = _schedule(study).first, _over(study, now)
    due = _from(study, over if first is None else max(over, study.parse_period(first)))
    while due.at <= now:
        due = _from(study, due.period.next())
    return due


def _schedule(study: Study) -> ScheduleSpec:
    if study.schedule is None:
        raise StudyInvalid(
            f"cannot say what is due of {study.study}: it has no schedule. Add one, such as "
            '`schedule: {cron: "0 2 1 * *"}`.'
        )
    return study.schedule


def _from(study: Study, period: Period) -> Due:
    """The first period from this one on that the schedule releases."""
    while not releases(period, _schedule(study).cron):
        period = period.next()
    return Due(period, due_at(study, period))


def _newest(study: Study, now: datetime) -> Iterator[Due]:
    """The period that was due last; a schedule that never fired before has none."""
    period = _over(study, now)
    while period.first_day.year >= _EARLIEST:
        if releases(period, _schedule(study).cron) and (at := due_at(study, period)) <= now:
            yield Due(period, at)
            return
        period = Period.containing(period.first_day - timedelta(days=1), period.grain)


def _over(study: Study, now: datetime) -> Period:
    """The last period that was over at a moment, in the schedule's timezone."""
    return Period.previous(now.astimezone(ZoneInfo(_schedule(study).timezone)), study.period.grain)
