"""Cron expressions of a study: when they fire, and which periods they release (the one that was completed last)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from storage.ledger.periods import Period

FEWEST = 12
"""The least number of periods after the first one, however long they are."""

_DAY = timedelta(days=1)
_YEAR = timedelta(days=366)
_LONGEST_PAUSE = 8 * 366 + 1  # days from one 29 February to the next, where a leap year falls out
_LAST_YEAR = 9990  # the calendar ends a few years later
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _WEEKDAYS),
)
_LONGEST_MONTH = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
_STEP = re.compile(r"(?P<range>[^/]+)(/(?P<step>[0-9]{1,3}))?")


def cron_problem(expression: str) -> str | None:
    """Why this is not a cron expression that ever fires, or None."""
    parts = expression.split()
    if len(parts) != len(_FIELDS):
        return f"cron has 5 fields (minute, hour, day of month, month, day of week), this has {len(parts)}"
    for part, (name, low, high, names) in zip(parts, _FIELDS, strict=True):
        if _chosen(part, low, high, names) is None:
            return f"the {name} of this cron expression is not within {low} to {high}"
    fires = _Days.of(expression)
    if parts[4] == "*" and all(min(fires.days) > _LONGEST_MONTH[month] for month in fires.months):
        return "no month chosen by this cron expression has that day"
    return None


def coming(first: Period, cron: str | None) -> tuple[Period, ...]:
    """A period and those of the year after it, at least twelve; with a schedule, only those that it releases."""
    found = [first]
    for period in _later(first, cron):
        if len(found) > FEWEST and period.first_day - first.first_day >= _YEAR:
            break
        found.append(period)
    return tuple(found)


def releases(period: Period, cron: str) -> bool:
    """Whether a schedule releases a period: it fires while that period is the last one completed."""
    following = period.next()
    return _Days.of(cron).meet(following.first_day, following.next().first_day)


def first_firing(period: Period, cron: str, timezone: str) -> datetime:
    """The moment, in UTC, at which a valid cron expression fires for the first time after a period is over.

    Its fields are local time. Where clocks are put forward, a time that does not exist is counted from the clock before
    the change; where they are put back, the first of two equal times counts.
    """
    days, day = _Days.of(cron), period.next().first_day
    while not days.include(day):
        day += _DAY
    local = datetime.combine(day, _times(cron)[0], ZoneInfo(timezone))
    return local.astimezone(UTC)


def last_firing(cron: str, timezone: str, now: datetime) -> datetime | None:
    """The latest moment, in UTC, at which a valid cron expression fired; None if it was more than eight years ago.

    Clocks that are changed count as in `first_firing`.
    """
    days, zone = _Days.of(cron), ZoneInfo(timezone)
    day = now.astimezone(zone).date()
    for _ in range(_LONGEST_PAUSE):
        if days.include(day):
            fired = (datetime.combine(day, at, zone).astimezone(UTC) for at in _times(cron))
            if found := [at for at in fired if at <= now]:
                return max(found)
        day -= _DAY
    return None


def _times(cron: str) -> list[time]:
    """Every time of day at which it fires."""
    minutes, hours = (
        sorted(_chosen(part, low, high, names) or (0,))
        for part, (_, low, high, names) in zip(cron.split()[:2], _FIELDS[:2], strict=True)
    )
    return [time(hour, minute) for hour in hours for minute in minutes]


def _later(first: Period, cron: str | None) -> Iterator[Period]:
    days = None if cron is None else _Days.of(cron)
    period = first
    while period.first_day.year < _LAST_YEAR:
        period = period.next()
        following = period.next()
        if days is None or days.meet(following.first_day, following.next().first_day):
            yield period


@dataclass(frozen=True)
class _Days:
    """The days on which a valid cron expression fires; the time of day never changes which period is over."""

    months: frozenset[int]
    days: frozenset[int]
    weekdays: frozenset[int]  # Sunday is 0
    either: bool  # whether a day of the month or a weekday suffices

    @classmethod
    def of(cls, cron: str) -> "_Days":
        """The days of an expression."""
        parts = cron.split()
        chosen, months, weekdays = (
            _chosen(part, low, high, names) or frozenset[int]()
            for part, (_, low, high, names) in zip(parts[2:], _FIELDS[2:], strict=True)
        )
        chosen_weekdays = frozenset(day % 7 for day in weekdays)
        # as the scheduler reads it: a field that is *, or has every value while the other contains *, sets no condition
        free = parts[2] == "*" or (len(chosen) == 31 and "*" in parts[4])
        free_weekday = parts[4] == "*" or (len(chosen_weekdays) == 7 and "*" in parts[2])
        return cls(months, chosen, chosen_weekdays, not (free or free_weekday))

    def meet(self, start: date, end: date) -> bool:
        """Whether one of the days from `start` to before `end` is among them."""
        return any(self.include(start + _DAY * number) for number in range((end - start).days))

    def include(self, day: date) -> bool:
        """Whether a day is among them."""
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (by_day or by_weekday if self.either else by_day and by_weekday)


def _chosen(field: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int] | None:
    """The numbers of one field, or None where it is not valid."""
    found: set[int] = set()
    for item in field.lower().split(","):
        values = _values(item, low, high, names)
        if values is None:
            return None
        found.update(values)
    return frozenset(found)


def _values(item: str, low: int, high: int, names: tuple[str, ...]) -> range | None:
    match = _STEP.fullmatch(item)
    if match is None or (match["step"] is not None and int(match["step"]) == 0):
        return None
    step = int(match["step"] or 1)
    if match["range"] == "*":
        return range(low, high + 1, step)
    ends = [_number(end, low, names) for end in match["range"].split("-")]
    if len(ends) > 2 or (match["step"] and len(ends) == 1):
        return None
    first, last = ends[0], ends[-1]
    return None if first is None or last is None or not low <= first <= last <= high else range(first, last + 1, step)


def _number(text: str, low: int, names: tuple[str, ...]) -> int | None:
    if text in names:
        return names.index(text) + low
    return int(text) if re.fullmatch(r"[0-9]{1,2}", text) else None
