"""Which analyses are due by schedules of their own, and since when; the clock is handed in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from dpbayes.study.schedule import last_firing
from dpbayes.study.study import Study
from storage.home.attempts import DONE, Attempt

Times = Mapping[str, datetime]
NEVER: Times = MappingProxyType({})
_ATTEMPT = "analysis-"


@dataclass(frozen=True)
class DueAnalysis:
    """An analysis that is to be made again of what is stored, and the moment from which that is due, in UTC."""

    analysis: str
    at: datetime


def due_analyses(study: Study, now: datetime, made: Times = NEVER) -> tuple[DueAnalysis, ...]:
    """Every analysis whose own schedule fired since it was made again last, in the order of these firings.

    `made` has the moment of the last time by the analysis's name. Several missed firings are one, the last: each time
    the analysis is made of all that is stored.
    """
    found: list[DueAnalysis] = []
    for name, spec in study.analyses.items():
        if spec.schedule is not None:
            at = last_firing(spec.schedule.cron, spec.schedule.timezone, now)
            if at is not None and (name not in made or made[name] < at):
                found.append(DueAnalysis(name, at))
    return tuple(sorted(found, key=lambda due: due.at))


def attempt_name(analysis: str) -> str:
    """The name, in place of a period's, under which attempts to make an analysis again are on record."""
    return f"{_ATTEMPT}{analysis}"


def made_again(attempts: Mapping[str, Attempt]) -> dict[str, datetime]:
    """When each analysis was made again last, by its name; attempts that failed do not count."""
    return {
        name.removeprefix(_ATTEMPT): attempt.begun
        for name, attempt in attempts.items()
        if name.startswith(_ATTEMPT) and attempt.outcome == DONE
    }
