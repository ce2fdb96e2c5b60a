"""Periods of the calendar, parsed from their canonical names, which are safe as parts of paths."""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache, total_ordering

from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import shown
from storage.ledger.request import Grain

MOST_PERIODS = 1000
_FIRST_YEAR = 1000  # years of four digits sort as text

EXAMPLES: dict[Grain, str] = {"month": "2026-01", "quarter": "2026-Q1", "year": "2026", "day": "2026-01-31"}
_PATTERNS: dict[Grain, re.Pattern[str]] = {
    "month": re.compile(r"([0-9]{4})-([0-9]{2})"),
    "quarter": re.compile(r"([0-9]{4})-Q([1-4])"),
    "year": re.compile(r"([0-9]{4})"),
    "day": re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})"),
}


def ends_of_names(text: str, start: int) -> set[int]:
    """The positions where a period's name of any grain that begins at `start` may end."""
    return {found.end() for pattern in _PATTERNS.values() if (found := pattern.match(text, start))}


@total_ordering
@dataclass(frozen=True)
class Period:
    """A calendar month, quarter, year or day."""

    grain: Grain
    first_day: date

    @classmethod
    def parse(cls, text: str, grain: Grain) -> "Period":
        """The period of that canonical name; any other text is StudyInvalid."""
        match = _PATTERNS[grain].fullmatch(text)
        numbers = [int(group) for group in match.groups()] if match else []
        try:
            return cls(grain, _first_day(grain, numbers))
        except ValueError:
            remedy = (
                "Ranges belong to `dpbayes run`; write one"
                if re.fullmatch(r"[\w-]+\.\.[\w-]+", text)
                else "Write a real"
            )
            raise StudyInvalid(
                f"cannot use period {shown(text) or '(empty)'}: it is not the canonical name of a {grain}. "
                f"{remedy} {grain} like {EXAMPLES[grain]}."
            ) from None

    @classmethod
    def named(cls, text: str) -> "Period":
        """The period of that canonical name, of whichever grain: no name belongs to two grains."""
        for grain, pattern in _PATTERNS.items():
            if pattern.fullmatch(text):
                return cls.parse(text, grain)
        raise StudyInvalid(
            f"cannot use period {shown(text) or '(empty)'}: it is the canonical name of no {', '.join(_PATTERNS)}. "
            f"Write a real one like {', '.join(EXAMPLES.values())}."
        )

    @classmethod
    def range(cls, text: str, grain: Grain) -> tuple["Period", ...]:
        """The periods from A to B inclusive, for text `A..B`; else the one period named."""
        ends = [cls.parse(end, grain) for end in text.split("..", 1)]
        first, last = ends[0], ends[-1]
        if last < first:
            raise StudyInvalid(
                f"cannot use periods {first.name}..{last.name}: the last comes before the first. Swap them."
            )
        periods = [first]
        while periods[-1] < last:
            if len(periods) == MOST_PERIODS:
                raise StudyInvalid(
                    f"cannot use periods {first.name}..{last.name}: they are more than {MOST_PERIODS}. "
                    "Ask for a shorter range."
                )
            periods.append(periods[-1].next())
        return tuple(periods)

    @classmethod
    def containing(cls, moment: date, grain: Grain) -> "Period":
        """The period that contains a day, or a moment in its own timezone."""
        month = {"month": moment.month, "quarter": (moment.month - 1) // 3 * 3 + 1, "year": 1, "day": moment.month}
        return cls(grain, date(moment.year, month[grain], moment.day if grain == "day" else 1))

    @classmethod
    def previous(cls, moment: datetime, grain: Grain) -> "Period":
        """The last period completed at a moment, in the moment's own timezone."""
        return cls.containing(cls.containing(moment, grain).first_day - timedelta(days=1), grain)

    @property
    def name(self) -> str:
        """The canonical name."""
        year, month = f"{self.first_day.year:04d}", self.first_day.month
        names = {
            "month": f"{year}-{month:02d}",
            "quarter": f"{year}-Q{(month + 2) // 3}",
            "year": year,
            "day": self.first_day.isoformat(),
        }
        return names[self.grain]

    @property
    def last_day(self) -> date:
        """The last day of the period."""
        if self.grain == "day":
            return self.first_day
        month = self.first_day.month + {"month": 0, "quarter": 2, "year": 11}[self.grain]
        return date(self.first_day.year, month, monthrange(self.first_day.year, month)[1])

    def overlapping(self, grain: Grain) -> "tuple[Period, ...]":
        """The periods of a grain that share a day with this one: the one that contains it, or all within it."""
        days = (self.last_day - self.first_day).days + 1
        found = (Period.containing(self.first_day + timedelta(days=day), grain) for day in range(days))
        return tuple(dict.fromkeys(found))

    def next(self) -> "Period":
        """The period right after this one."""
        days = {"month": 31, "quarter": 92, "year": 366, "day": 1}
        return Period.containing(self.first_day + timedelta(days=days[self.grain]), self.grain)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Period) or other.grain != self.grain:
            return NotImplemented
        return self.first_day < other.first_day

    def __str__(self) -> str:
        return self.name


def is_name(text: str, grain: Grain) -> bool:
    """Whether a text is the canonical name of a period of that grain."""
    try:
        return Period.parse(text, grain).name == text
    except StudyInvalid:
        return False


@lru_cache(maxsize=4096)  # every charge needs it, for few periods
def overlapped(name: str, grain: Grain) -> tuple[str, ...]:
    """The names of the periods of a grain that overlap the named period, in order."""
    return tuple(period.name for period in Period.named(name).overlapping(grain))


def _first_day(grain: Grain, numbers: list[int]) -> date:
    if not numbers or numbers[0] < _FIRST_YEAR:
        raise ValueError(grain)
    year, *rest = numbers
    if grain == "quarter":
        return date(year, 3 * rest[0] - 2, 1)
    return date(year, *[*rest, 1, 1][:2])
