"""What a charge debits and what a cap admits: exact integers in units of 2^-64, folded over the ledger's charges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from typing import Any

from dpbayes_core.accounting import Cost, cap_rho_units, limit_units
from storage.ledger.request import AccountSpec, CapSpec, Window

CONVERSION = (
    "pure epsilon and zCDP rho are both totalled; a cap of (epsilon, delta) admits what keeps the pure total within "
    "epsilon or the rho total within the largest rho whose conversion by Canonne, Kamath and Steinke 2020 gives epsilon"
)


@dataclass(frozen=True)
class Total:
    """Everything charged in one scope, in units of 2^-64; `epsilon` is None once a charge had no pure epsilon."""

    epsilon: int | None
    rho: int

    def plus(self, cost: Cost) -> "Total":
        """The total after one more charge."""
        pure = None if self.epsilon is None or cost.epsilon is None else self.epsilon + cost.epsilon
        return Total(pure, self.rho + cost.rho)

    def to_record(self) -> dict[str, str | None]:
        """Plain data for canonical JSON; integers as text, for they pass 2^53."""
        return {"epsilon": None if self.epsilon is None else str(self.epsilon), "rho": str(self.rho)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Total":
        """The inverse of `to_record`."""
        epsilon = record["epsilon"]
        return cls(None if epsilon is None else int(epsilon), int(record["rho"]))


NOTHING = Total(0, 0)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The charges that are counted together."""

    window: Window
    account: str | None = None
    period: str | None = None
    programme: str | None = None

    def to_record(self) -> dict[str, str | None]:
        """Plain data for canonical JSON."""
        return {
            "account": self.account,
            "period": self.period,
            "programme": self.programme,
            "window": self.window,
        }


def scopes(spec: AccountSpec, period: str) -> tuple[Scope, ...]:
    """Every scope that a charge of this period counts in, capped or not.

    The lifetime total is the sum over periods and holders also where people are declared disjoint: a bound for
    every person that needs no trust in the declaration.
    """
    lifetime = Scope(window="lifetime", account=spec.population)
    per_period = Scope(window="per-period", account=spec.population, period=period)
    if spec.programme is None:
        return lifetime, per_period
    return lifetime, per_period, Scope(window="programme", programme=spec.programme)


@dataclass(frozen=True)
class Room:
    """How much one cap holds, or has left, by either route; None where a route is not open."""

    epsilon: int | None
    rho: int | None


@cache
def capacity(cap: CapSpec) -> Room:
    """The cap's limit in units of 2^-64, rounded down."""
    if cap.measure == "rho":
        return Room(None, limit_units(cap.limit))
    pure = limit_units(cap.limit)
    return Room(pure, None if cap.delta is None else cap_rho_units(cap.limit, cap.delta))


def remaining(cap: CapSpec, spent: Total) -> Room:
    """What can still be charged by each route; never below nothing, since the other route may have been used."""
    full = capacity(cap)
    pure = None if full.epsilon is None or spent.epsilon is None else max(0, full.epsilon - spent.epsilon)
    return Room(pure, None if full.rho is None else max(0, full.rho - spent.rho))


def admits(cap: CapSpec, total: Total) -> bool:
    """Whether the cap still holds at this total: either route suffices."""
    full = capacity(cap)
    by_epsilon = full.epsilon is not None and total.epsilon is not None and total.epsilon <= full.epsilon
    by_rho = full.rho is not None and total.rho <= full.rho
    return by_epsilon or by_rho


@dataclass(frozen=True)
class Debit:
    """What one charge does to one scope, and the cap that guards it, if any."""

    scope: Scope
    cap: CapSpec | None
    before: Total
    after: Total

    @property
    def fits(self) -> bool:
        """Whether the cap admits the charge."""
        return self.cap is None or admits(self.cap, self.after)

    def to_record(self) -> dict[str, Any]:
        """What the charge's entry keeps: the scope, the cap as it stood, and the total after the charge."""
        cap = None if self.cap is None else self.cap.to_record()
        return {"cap": cap, "scope": self.scope.to_record(), "total": self.after.to_record()}


def debits(spec: AccountSpec, period: str, cost: Cost, total_of: Callable[[Scope], Total]) -> tuple[Debit, ...]:
    """What a charge would do to every scope it counts in; `spec` carries the caps as they stand now."""
    caps = {cap.window: cap for cap in spec.caps}
    found: list[Debit] = []
    for scope in scopes(spec, period):
        before = total_of(scope)
        found.append(Debit(scope, caps.get(scope.window), before, before.plus(cost)))
    return tuple(found)


def total_in(payload: Mapping[str, Any], scope: Scope) -> Total:
    """The total that a charge's payload states for one of its scopes."""
    wanted = scope.to_record()
    stated = next(debit["total"] for debit in payload["debits"] if debit["scope"] == wanted)
    return Total.from_record(stated)


def with_limits(spec: AccountSpec, limits: Mapping[str, Decimal]) -> AccountSpec:
    """The account with the limits of the named caps replaced."""
    return replace(spec, caps=tuple(replace(cap, limit=limits.get(cap.name, cap.limit)) for cap in spec.caps))
