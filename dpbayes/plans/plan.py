"""What a study's releases would cost and how long the budget lasts: the ledger's own arithmetic on future charges.

Everything here follows from the study file and the ledger; no table is opened and nothing is written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Literal
from zoneinfo import ZoneInfo

from dpbayes.study.schedule import coming
from dpbayes.study.study import Study
from dpbayes_core.privacy.accounting import Cost
from dpbayes_core.privacy.mechanisms import Mechanism
from storage.ledger.cap_document import CapState
from storage.ledger.caps import Debit, Scope, debits
from storage.ledger.exposure import Tally
from storage.ledger.periods import Period
from storage.ledger.reading import AccountSnapshot
from storage.ledger.refusal import Quote, delta_of, largest_charge, quotes
from storage.ledger.request import AccountSpec, CapSpec

Status = Literal["charged", "fits", "refused", "closed"]
FREE = Cost(0, 0)


@dataclass(frozen=True)
class PlannedRelease:
    """One release of the period, and what every cap would allow it after the releases before it."""

    name: str
    mechanism: Mechanism
    stored: bool  # released before, of every holder: running it again answers the same and costs nothing
    holders: tuple[str | None, ...]  # whose releases are still to be charged, one after the other
    quotes: tuple[Quote, ...]
    largest_epsilon_for_year: Decimal  # with which no coming period is refused, the other releases as they are


@dataclass(frozen=True)
class ComingPeriod:
    """The verdict on one period, and the caps after it."""

    period: Period
    status: Status
    after: tuple[CapState, ...]
    asked: tuple[CapState, ...]  # as `after`, had the refused release been charged
    release: str | None = None  # the one that is refused
    refused_by: tuple[CapSpec, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A period's releases, and the year that follows if every release of every period is charged in turn."""

    period: Period
    releases: tuple[PlannedRelease, ...]
    year: tuple[ComingPeriod, ...]  # the first is the period planned


def plan(study: Study, snapshot: AccountSnapshot, period: Period) -> Plan:
    """What the releases of a period would cost and leave, and which coming period the budget refuses."""
    mechanisms = {name: study.design(name).mechanism for name in study.releases}
    costs = {name: mechanism.cost() for name, mechanism in mechanisms.items()}
    outlook = _Outlook.of(study, snapshot, period)
    ahead, planned = outlook.ahead(), list[PlannedRelease]()
    for name, mechanism in mechanisms.items():
        due = tuple(one for one in study.holders if not snapshot.known(study.request(name, period, holder=one)))
        found = ahead.debits(period, costs[name], due or study.holders)
        largest = _largest_for_year(outlook, name, mechanism, costs)
        planned.append(PlannedRelease(name, mechanism, not due, due, quotes(found, mechanism), largest))
        if due and all(debit.fits for debit in found):
            ahead.charge(found)
    return Plan(period, tuple(planned), tuple(outlook.year(costs)))


def period_to_plan(study: Study, snapshot: AccountSnapshot, now: datetime) -> Period:
    """The period after the last one that was charged; without any, the present one in the study's timezone."""
    for name in reversed(snapshot.charged_periods()):
        if any(not_stored(study, snapshot, release, name) != study.holders for release in study.releases):
            return study.parse_period(name).next()
    timezone = ZoneInfo(study.schedule.timezone if study.schedule else "UTC")
    return Period.containing(now.astimezone(timezone), study.period.grain)


def not_stored(study: Study, snapshot: AccountSnapshot, release: str, period: Period | str) -> tuple[str | None, ...]:
    """The holders for whom nothing is stored yet."""
    return tuple(one for one in study.holders if not snapshot.stored(study.request(release, period, holder=one)))


class FutureTotals:
    """The ledger's totals after hypothetical charges, in the ledger's own integers."""

    def __init__(
        self, account: AccountSpec, present: Callable[[Scope], Tally], charged: dict[Scope, Tally] | None = None
    ) -> None:
        self._account = account
        self._present = present
        self._charged = {} if charged is None else charged  # shared by the accounts of a programme

    def debits(self, period: Period, cost: Cost, holders: Sequence[str | None] = (None,)) -> tuple[Debit, ...]:
        """The debits of a charge for each of these holders in every scope."""
        first, *also = holders
        return debits(
            self._account,
            period.name,
            cost,
            lambda scope: self._charged.get(scope) or self._present(scope),
            holder=first,
            also=tuple(one for one in also if one is not None),
        )

    def charge(self, found: Sequence[Debit]) -> None:
        """Count the debits as charged."""
        self._charged |= {debit.scope: debit.after for debit in found}

    def caps(self, period: Period, cost: Cost = FREE, holders: Sequence[str | None] = (None,)) -> tuple[CapState, ...]:
        """Every cap in a period at present, or after one more charge for each holder."""
        found = self.debits(period, cost, holders)
        return tuple(CapState(debit.cap, debit.scope.period, debit.after) for debit in found if debit.cap is not None)


@dataclass(frozen=True)
class PeriodDue:
    """A coming period, with its releases that are not stored yet in the study's order."""

    period: Period
    due: tuple[tuple[str, tuple[str | None, ...]], ...]  # with the holders they are still to be charged for
    closed: bool

    @classmethod
    def of(cls, study: Study, snapshot: AccountSnapshot, period: Period) -> "PeriodDue":
        """What is left to release of a period."""
        due = [(name, not_stored(study, snapshot, name, period)) for name in study.releases]
        return cls(period, tuple(one for one in due if one[1]), snapshot.closed(period.name))

    def charge_due(self, ahead: FutureTotals, costs: Mapping[str, Cost]) -> ComingPeriod:
        """The verdict after charging what is due, up to the first release that is refused, where a run ends."""
        if self.due and self.closed:
            now = ahead.caps(self.period)
            return ComingPeriod(self.period, "closed", now, now, self.due[0][0])
        for name, holders in self.due:
            found = ahead.debits(self.period, costs[name], holders)
            if refusing := tuple(debit.cap for debit in found if debit.cap is not None and not debit.fits):
                now, asked = ahead.caps(self.period), ahead.caps(self.period, costs[name], holders)
                return ComingPeriod(self.period, "refused", now, asked, name, refusing)
            ahead.charge(found)
        now = ahead.caps(self.period)
        return ComingPeriod(self.period, "fits" if self.due else "charged", now, now)


@dataclass(frozen=True)
class _Outlook:
    """What a plan reads, once: the present totals and the coming periods."""

    account: AccountSpec
    present: Callable[[Scope], Tally]
    periods: tuple[PeriodDue, ...]

    @classmethod
    def of(cls, study: Study, snapshot: AccountSnapshot, first: Period) -> "_Outlook":
        cron = None if study.schedule is None else study.schedule.cron
        periods = tuple(PeriodDue.of(study, snapshot, period) for period in coming(first, cron))
        return cls(snapshot.account, cache(snapshot.total), periods)

    def ahead(self) -> FutureTotals:
        """The present totals, to be charged."""
        return FutureTotals(self.account, self.present)

    def year(self, costs: Mapping[str, Cost]) -> Iterator[ComingPeriod]:
        """Every coming period, charged one after the other."""
        ahead = self.ahead()
        return (each.charge_due(ahead, costs) for each in self.periods)


def _largest_for_year(outlook: _Outlook, name: str, mechanism: Mechanism, costs: Mapping[str, Cost]) -> Decimal:
    """The largest epsilon in three digits, rounded down; 0 if none lasts."""

    def lasts(cost: Cost) -> bool:
        return all(one.status != "refused" for one in outlook.year({**costs, name: cost}))

    return largest_charge(mechanism, delta_of(mechanism, outlook.account.caps), lasts)
