"""Which periods a schedule releases: each of its runs takes the period that was completed last."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from storage.ledger.periods import Period

FEWEST = 12
"""How many periods are looked at after the first one, however long they are."""

_DAY = timedelta(days=1)
_YEAR = timedelta(days=366)
_LAST_YEAR = 9990  # the calendar ends a few years later
_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
_WEEKDAYS = "sunmontuewedthufrisat"


def coming(first: Period, cron: str | None) -> tuple[Period, ...]:
    """A period and the year after it, no fewer than twelve: those a schedule releases, or every one without it."""
    found = [first]
    for period in _later(first, cron):
        if len(found) > FEWEST and period.first_day - first.first_day >= _YEAR:
            break
        found.append(period)
    return tuple(found)


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
        _, _, days, months, weekdays = cron.lower().split()
        chosen, on = _chosen(days, 1, 31), frozenset(day % 7 for day in _chosen(weekdays, 0, 6, _WEEKDAYS))
        # the scheduler's reading: one that is * leaves the choice to the other; so does one that holds all, beside a *
        free = days == "*" or (len(chosen) == 31 and "*" in weekdays)
        free_weekday = weekdays == "*" or (len(on) == 7 and "*" in days)
        return cls(_chosen(months, 1, 12, _MONTHS), chosen, on, not (free or free_weekday))

    def meet(self, start: date, end: date) -> bool:
        """Whether one of the days from `start` to before `end` is among them."""
        return any(self._include(start + _DAY * number) for number in range((end - start).days))

    def _include(self, day: date) -> bool:
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (by_day or by_weekday if self.either else by_day and by_weekday)


def _chosen(field: str, low: int, high: int, words: str = "") -> frozenset[int]:
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found.update(range(_number(first, low, words), _number(last or first, low, words) + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str, low: int, words: str) -> int:
    return int(text) if text.isdecimal() else words.index(text) // 3 + low
