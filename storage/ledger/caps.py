"""What a charge debits and what a cap admits, in exact integers of 2^-64 summed over the ledger's charges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, cached_property
from typing import Any

from dpbayes_core.privacy.accounting import Cost, cap_rho_units, limit_units
from storage.ledger.exposure import NOTHING, Tally, Total
from storage.ledger.periods import Period, overlapped
from storage.ledger.request import AccountSpec, CapSpec, Grain, Membership, Window

CONVERSION = (
    "pure epsilon and zCDP rho are both totalled; a cap of (epsilon, delta) admits what keeps the pure total within "
    "epsilon or the rho total within the largest rho whose conversion by Canonne, Kamath and Steinke 2020 gives epsilon"
)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """A set of charges that are totalled: of an account, one period of it, or a programme."""

    window: Window
    account: str | None = None
    period: str | None = None
    programme: str | None = None

    def counts(self, copies: Mapping[str, str | None]) -> bool:
        """Whether a charge counts in it, given the charge's account, period and programme."""
        return all(getattr(self, name) in (None, value) for name, value in copies.items())

    def to_record(self) -> dict[str, str | None]:
        """Plain data for canonical JSON."""
        return {
            "account": self.account,
            "period": self.period,
            "programme": self.programme,
            "window": self.window,
        }


def scopes(spec: AccountSpec, period: str) -> tuple[Scope, ...]:
    """Every scope that a charge for this period counts in, capped or not.

    A period of a longer grain than the account's counts in full in each window it overlaps, one of a shorter grain in
    the window around it, so that a window's total covers every release of its data.
    The lifetime total is the sum over periods even if people are declared disjoint, so that it holds for every person
    without trusting the declaration.
    """
    lifetime = Scope(window="lifetime", account=spec.population)
    windows = overlapped(period, spec.grain)
    per_period = [Scope(window="per-period", account=spec.population, period=name) for name in windows]
    if spec.programme is None:
        return lifetime, *per_period
    return lifetime, *per_period, Scope(window="programme", programme=spec.programme)


@dataclass(frozen=True)
class Room:
    """What a cap admits in total, or after charges, as pure epsilon and rho; None for a measure it does not limit."""

    epsilon: int | None
    rho: int | None


@cache
def capacity(cap: CapSpec) -> Room:
    """The cap's limit in units of 2^-64, rounded down."""
    if cap.measure == "rho":
        return Room(None, limit_units(cap.limit))
    pure = limit_units(cap.limit)
    return Room(pure, None if cap.delta is None else cap_rho_units(cap.limit, cap.delta))


def remaining(cap: CapSpec, spent: Total | Tally) -> Room:
    """What can still be charged in each measure; 0 where charges admitted by the other measure exceed this one."""
    full = capacity(cap)
    rooms: list[Room] = []
    for total in spent.exposures:
        pure = None if full.epsilon is None or total.epsilon is None else max(0, full.epsilon - total.epsilon)
        rooms.append(Room(pure, None if full.rho is None else max(0, full.rho - total.rho)))
    return Room(_minimum([room.epsilon for room in rooms]), _minimum([room.rho for room in rooms]))


def _minimum(rooms: list[int | None]) -> int | None:
    known = [room for room in rooms if room is not None]
    return min(known) if len(known) == len(rooms) else None


def admits(cap: CapSpec, spent: Total | Tally) -> bool:
    """Whether the totals are within the cap: for each group of people, its pure epsilon or its rho is."""
    full = capacity(cap)
    for total in spent.exposures:
        by_epsilon = full.epsilon is not None and total.epsilon is not None and total.epsilon <= full.epsilon
        if not (by_epsilon or (full.rho is not None and total.rho <= full.rho)):
            return False
    return True


@dataclass(frozen=True, kw_only=True)
class Debit:
    """What one charge adds to one scope, and the scope's cap, if any."""

    scope: Scope
    cap: CapSpec | None
    before: Tally
    cost: Cost
    holder: str | None = None
    also: tuple[str, ...] = ()  # further holders to be charged the same, when checking several charges ahead
    membership: Membership = "undeclared"
    source: "Debit | None" = None  # the scope by whose growth this one grows, where it does not count charges itself
    alone: bool = False  # moving people may be elsewhere in every window: the charge counts by itself
    grain: Grain | None = None  # of the charge, where it is not the account's

    @cached_property
    def after(self) -> Tally:
        """The scope's total after the charge."""
        return self.after_of(self.cost)

    def after_of(self, cost: Cost) -> Tally:
        """The scope's total if the charge had another cost."""
        if self.source is not None:
            return self.before.plus(self.source.after_of(cost).most.since(self.source.before.most))
        after = self.before
        for holder in (self.holder, *self.also):
            if self.alone:
                after = after.plus(NOTHING.plus(cost, holder=holder, membership="movable").most)
            else:
                after = after.plus(cost, holder=holder, membership=self.membership)
        return self._with_grain(after)

    @property
    def seen(self) -> Total | Tally:
        """What was spent before on the people whom the charge concerns."""
        return self.before.seen_by(self.holder, *self.also)

    def _with_grain(self, after: Tally) -> Tally:
        return after if self.grain is None else after.with_grain(self.grain)

    @cached_property
    def fits(self) -> bool:
        """Whether the scope's cap admits the charge."""
        return self.cap is None or admits(self.cap, self.after)

    def to_record(self) -> dict[str, Any]:
        """The debit as recorded in the charge's entry: scope, cap with its raises, and total after the charge."""
        cap, after = None if self.cap is None else self.cap.to_record(), self.after
        record = {"cap": cap, "scope": self.scope.to_record(), **after.to_record()}
        if self.holder is None or self.membership == "undeclared":
            return record
        return record | {"before": self.before.most.to_record()}  # not always the total minus the cost


def debits(
    spec: AccountSpec,
    period: str,
    cost: Cost,
    total_of: Callable[[Scope], Tally],
    *,
    holder: str | None = None,
    also: tuple[str, ...] = (),
) -> tuple[Debit, ...]:
    """What a charge adds to every scope it counts in; `spec` has the caps with their raises.

    With `also`, what it and the same charge to each of these holders add together.
    """
    caps, membership = {cap.window: cap for cap in spec.caps}, spec.membership
    found, own = scopes(spec, period), Period.named(period).grain
    other = None if own == spec.grain else own
    moving = membership == "movable"

    def debit(scope: Scope, source: Debit | None = None) -> Debit:
        return Debit(
            scope=scope,
            cap=caps.get(scope.window),
            before=total_of(scope),
            cost=cost,
            holder=holder,
            also=also,
            membership=membership,
            source=source,
            alone=moving and other is not None and source is None,
            grain=other if scope.window == "lifetime" else None,  # where later charges look it up
        )

    per_period = [debit(scope) for scope in found if scope.window == "per-period"]
    lifetime = debit(found[0], per_period[0] if moving and other is None else None)
    return lifetime, *per_period, *(debit(scope, lifetime) for scope in found if scope.window == "programme")


def total_in(payload: Mapping[str, Any], scope: Scope) -> Tally:
    """The total that a charge's payload states for one of its scopes."""
    wanted = scope.to_record()
    return Tally.from_record(next(debit for debit in payload["debits"] if debit["scope"] == wanted))


def with_limits(spec: AccountSpec, limits: Mapping[str, Decimal]) -> AccountSpec:
    """The account with the limits of the named caps replaced."""
    if not limits:
        return spec
    return replace(spec, caps=tuple(replace(cap, limit=limits.get(cap.name, cap.limit)) for cap in spec.caps))
