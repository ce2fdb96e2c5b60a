"""How far the budget of all studies of a population lasts: their coming periods, charged in the order they are due."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from dpbayes.calendar.due import Due
from dpbayes.plans.plan import ComingPeriod, FutureTotals, PeriodDue
from dpbayes.study.study import Study
from dpbayes_core.privacy.accounting import Cost
from storage.ledger.cap_document import CapState, cap_document
from storage.ledger.caps import Scope
from storage.ledger.exposure import Tally
from storage.ledger.periods import Period
from storage.ledger.reading import AccountSnapshot
from storage.ledger.request import CapSpec


@dataclass(frozen=True)
class Payer:
    """A study, its account, and its periods that are still to be released: those that are due, then a year of them."""

    study: Study
    snapshot: AccountSnapshot
    coming: tuple[Due, ...]


@dataclass
class CapRunway:
    """How many coming periods one cap lets pass, and the first that it refuses."""

    population: str
    state: CapState
    opened: bool
    studies: set[str] = field(default_factory=set[str])
    coming: int = 0
    """How many periods were looked at."""
    until: datetime | None = None
    """When the last of them is due."""
    fit: int = 0
    """How many fit before the first that does not."""
    refused: tuple[str, Due] | None = None
    """The study and the period that this cap would refuse first."""

    @property
    def key(self) -> tuple[str | None, str]:
        """What distinguishes it; a programme's cap is one for all its populations."""
        return _key(self.population, self.state.cap)

    def to_record(self) -> dict[str, Any]:
        """Plain data for JSON documents, in the cap's own measure."""
        cap = cap_document(self.state)
        named = ("cap", "window", "measure", "period", "delta", "limit", "spent", "remaining")
        refused = self.refused
        return {
            "population": self.population,
            "studies": sorted(self.studies),
            "account": "open" if self.opened else "as stated",
            **{name: cap[name] for name in named},
            "coming": self.coming,
            "until": None if self.until is None else self.until.isoformat(timespec="seconds"),
            "fit": self.fit,
            "first_refused": None
            if refused is None
            else {
                "study": refused[0],
                "period": refused[1].period.name,
                "due": refused[1].at.isoformat(timespec="seconds"),
            },
        }


def runways(payers: Sequence[Payer], now: datetime) -> tuple[CapRunway, ...]:
    """The runway of every cap of every population, by the arithmetic of `plan`.

    All studies are looked at up to the day up to which each of them is known, so that none is left out of a total. A
    refused period costs nothing, and the next one is tried nevertheless.
    """
    groups: dict[str, list[Payer]] = defaultdict(list)
    for payer in payers:
        account = payer.snapshot.account
        groups[f"programme {account.programme}" if account.programme else account.population].append(payer)
    return tuple(runway for _, group in sorted(groups.items()) for runway in _of_group(group, now))


def _of_group(payers: Sequence[Payer], now: datetime) -> Iterator[CapRunway]:
    """The caps of accounts whose charges meet in one total."""
    charged: dict[Scope, Tally] = {}
    ahead = {
        payer.study.study: FutureTotals(payer.snapshot.account, cache(payer.snapshot.total), charged)
        for payer in payers
    }
    found: dict[tuple[str | None, str], CapRunway] = {}
    for payer in payers:
        period = payer.coming[0].period if payer.coming else Period.containing(now, payer.study.period.grain)
        for state in ahead[payer.study.study].caps(period):
            runway = CapRunway(payer.study.population, state, payer.snapshot.opened)
            found.setdefault(runway.key, runway).studies.add(payer.study.study)
    costs = {payer.study.study: _costs(payer.study) for payer in payers}
    for payer, due in _in_order(payers):
        name = payer.study.study
        period = PeriodDue.of(payer.study, payer.snapshot, due.period)
        if period.due and not period.closed:
            _count(found, payer, due, period.charge_due(ahead[name], costs[name]))
    yield from found.values()


def _in_order(payers: Sequence[Payer]) -> list[tuple[Payer, Due]]:
    """The coming periods of all, as they are due; of one moment, by the names of the studies."""
    ends = [payer.coming[-1].at for payer in payers if payer.coming]
    pairs = ((payer, due) for payer in payers for due in payer.coming if due.at <= min(ends))
    return sorted(pairs, key=lambda pair: (pair[1].at, pair[0].study.study))


def _costs(study: Study) -> dict[str, Cost]:
    return {name: study.design(name).mechanism.cost() for name in study.releases}


def _count(found: dict[tuple[str | None, str], CapRunway], payer: Payer, due: Due, verdict: ComingPeriod) -> None:
    for cap in payer.snapshot.account.caps:
        runway = found[_key(payer.study.population, cap)]
        runway.coming += 1
        runway.until = due.at
        if cap in verdict.refused_by:
            runway.refused = runway.refused or (payer.study.study, due)
        elif verdict.status == "fits" and runway.refused is None:
            runway.fit += 1


def _key(population: str, cap: CapSpec) -> tuple[str | None, str]:
    return (None if cap.programme else population), cap.name
