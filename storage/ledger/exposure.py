"""How charges add up to one person's privacy loss, also where people are split over holders."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpbayes_core.privacy.accounting import Cost
from storage.ledger.request import Grain, Membership

COUNTING: Mapping[Membership, str] = {
    "undeclared": "a person may be with several holders: the charges of all holders add up",
    "fixed": (
        "a person is with one holder for good: every cap holds for the people of each holder by itself, and an "
        "account's total is the maximum over its holders"
    ),
    "movable": (
        "a replaced person leaves one holder and enters another, or the same one again: each period counts twice the "
        "maximum over holders in epsilon, four times in rho (two steps, group privacy), and periods add up; a charge "
        "for a period of another grain counts so by itself, in every period it overlaps"
    ),
}
"""The rule by which charges add up, recorded in every charge of an account with holders."""


@dataclass(frozen=True)
class Total:
    """A sum of charges in units of 2^-64; `epsilon` is None if a charge had no pure epsilon."""

    epsilon: int | None
    rho: int

    @property
    def exposures(self) -> "tuple[Total, ...]":
        """The total loss of each group of people; here one group, everybody."""
        return (self,)

    def plus(self, more: "Cost | Total") -> "Total":
        """The sum with another charge or total."""
        pure = None if self.epsilon is None or more.epsilon is None else self.epsilon + more.epsilon
        return Total(pure, self.rho + more.rho)

    def since(self, before: "Total") -> "Total":
        """The difference from an earlier state of the same sum."""
        pure = None if self.epsilon is None or before.epsilon is None else self.epsilon - before.epsilon
        return Total(pure, self.rho - before.rho)

    def to_record(self) -> dict[str, str | None]:
        """Plain data for canonical JSON; integers as text, since they exceed 2^53."""
        return {"epsilon": None if self.epsilon is None else str(self.epsilon), "rho": str(self.rho)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Total":
        """The inverse of `to_record`."""
        epsilon = record["epsilon"]
        return cls(None if epsilon is None else int(epsilon), int(record["rho"]))


@dataclass(frozen=True)
class Tally:
    """The total of one scope, by holder where that bounds a person's loss more tightly."""

    everyone: Total = Total(0, 0)
    membership: Membership = "undeclared"
    holders: Mapping[str, Total] = field(default_factory=dict[str, Total])  # in addition to `everyone`
    grains: tuple[Grain, ...] = ()  # of charges in another grain than the account's; in lifetime totals only

    def with_grain(self, grain: Grain) -> "Tally":
        """The tally, noting that it counts a charge for a period of this other grain."""
        return replace(self, grains=tuple(sorted({*self.grains, grain})))

    def plus(self, more: Cost | Total, *, holder: str | None = None, membership: Membership = "undeclared") -> "Tally":
        """The tally with another charge or total, to one holder's people or to everybody."""
        if holder is None or membership == "undeclared":
            return Tally(self.everyone.plus(more), self.membership, self.holders, self.grains)
        own = self.holders.get(holder, Total(0, 0)).plus(more)
        return Tally(self.everyone, membership, {**self.holders, holder: own}, self.grains)

    @property
    def exposures(self) -> tuple[Total, ...]:
        """The total loss of each group of people; a cap must admit every one."""
        if self.membership == "movable":
            own = _maximum(tuple(self.holders.values()))
            pure = None if own.epsilon is None else 2 * own.epsilon
            return (self.everyone.plus(Total(pure, 4 * own.rho)),)
        return (self.everyone, *(self.everyone.plus(self.holders[name]) for name in sorted(self.holders)))

    def seen_by(self, holder: str | None, *also: str) -> "Total | Tally":
        """The total of the people whom a charge concerns: under fixed membership, those of its holders only."""
        if holder is None or self.membership != "fixed":
            return self
        if also:
            return replace(self, holders={name: self.holders.get(name, Total(0, 0)) for name in (holder, *also)})
        return self.everyone.plus(self.holders.get(holder, Total(0, 0)))

    @property
    def most(self) -> Total:
        """The maximum over the exposures, separately in each measure."""
        return _maximum(self.exposures)

    @property
    def epsilon(self) -> int | None:
        """The largest pure epsilon of any group."""
        return self.most.epsilon

    @property
    def rho(self) -> int:
        """The largest zCDP rho of any group."""
        return self.most.rho

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON: the maximum, and the total of each holder where they count separately."""
        grains = {"grains": list(self.grains)} if self.grains else {}
        if not self.holders:
            return {"total": self.everyone.to_record()} | grains
        by_holder = {name: total.to_record() for name, total in self.holders.items()}
        tally = {"everyone": self.everyone.to_record(), "holders": by_holder, "membership": self.membership}
        return {"tally": tally, "total": self.most.to_record()} | grains

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Tally":
        """The inverse of `to_record`."""
        grains = tuple(record.get("grains", ()))
        if "tally" not in record:
            return cls(Total.from_record(record["total"]), grains=grains)
        tally = record["tally"]
        by_holder = {name: Total.from_record(total) for name, total in tally["holders"].items()}
        return cls(Total.from_record(tally["everyone"]), tally["membership"], by_holder, grains)


NOTHING = Tally()


def _maximum(totals: tuple[Total, ...]) -> Total:
    pure = [total.epsilon for total in totals]
    known = [epsilon for epsilon in pure if epsilon is not None]
    return Total(max(known, default=0) if len(known) == len(pure) else None, max((t.rho for t in totals), default=0))
