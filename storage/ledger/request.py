"""A request to the ledger: a release's name, its public definition and the account to charge."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import MAX_PREC, Context, Decimal
from functools import cached_property
from typing import Any, Literal

from dpbayes_core.canonical import canonical_json, digest

MOST_DIGITS = 1000  # before or after the point of a stored decimal

Window = Literal["lifetime", "per-period", "programme"]
Measure = Literal["epsilon-delta", "rho", "pure-epsilon"]
Grain = Literal["month", "quarter", "year", "day"]
Neighbours = Literal["replace-one", "add-remove"]
Membership = Literal["fixed", "movable", "undeclared"]


def stored_decimal(text: str) -> Decimal:
    """A decimal from a record; refused if it is not finite or has more than `MOST_DIGITS` digits."""
    value = Decimal(text)
    if not value.is_finite() or abs(value.adjusted()) > MOST_DIGITS:
        raise ValueError("cannot read a limit: it has more digits than any. Fetch the record again.")
    return value


def decimal_text(value: Decimal) -> str:
    """The canonical spelling of a decimal in records: 8, 8.0 and 0.8e1 are the same."""
    return format(value.normalize(Context(prec=MAX_PREC)), "f")


@dataclass(frozen=True, kw_only=True)
class CapSpec:
    """A limit that an account's total may never exceed."""

    window: Window
    measure: Measure
    limit: Decimal  # epsilon, or rho
    delta: Decimal | None = None  # epsilon-delta caps only
    programme: str | None = None  # programme windows only

    @property
    def name(self) -> str:
        """The cap's name, unique within its account."""
        return f"programme {self.programme}" if self.programme else self.window

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON; decimals as text."""
        return {
            "delta": None if self.delta is None else decimal_text(self.delta),
            "limit": decimal_text(self.limit),
            "measure": self.measure,
            "programme": self.programme,
            "window": self.window,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "CapSpec":
        """The inverse of `to_record`."""
        delta = record["delta"]
        return cls(
            window=record["window"],
            measure=record["measure"],
            limit=stored_decimal(record["limit"]),
            delta=None if delta is None else stored_decimal(delta),
            programme=record["programme"],
        )


@dataclass(frozen=True, kw_only=True)
class HolderSpec:
    """How an account's people are split over data holders; public, and the same for every study."""

    by: str  # the column's name, or another word for what distinguishes the holders
    names: tuple[str, ...]
    membership: Membership

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {"by": self.by, "membership": self.membership, "names": list(self.names)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "HolderSpec":
        """The inverse of `to_record`."""
        return cls(by=record["by"], names=tuple(record["names"]), membership=record["membership"])


def priced_under(neighbours: Neighbours, membership: Membership, holder: str | None) -> Neighbours:
    """The neighbour relation for a release's price: add-remove for one holder if people may move between holders."""
    return "add-remove" if holder is not None and membership == "movable" else neighbours


@dataclass(frozen=True, kw_only=True)
class AccountSpec:
    """An account: a population, its unit of privacy and neighbour relation, with its caps."""

    population: str
    unit: str  # the unit column's name, or "row"
    max_rows_per_unit: int
    neighbours: Neighbours
    grain: Grain
    people: Literal["same", "disjoint"]
    caps: tuple[CapSpec, ...]
    holders: HolderSpec | None = None  # None: the charges of all holders add up

    @property
    def membership(self) -> Membership:
        """Whether people stay with one holder, move between holders, or this is undeclared."""
        return "undeclared" if self.holders is None else self.holders.membership

    @property
    def released_together(self) -> tuple[str, ...]:
        """The holders to be released in one pass, which bounds rows of people who move; empty if people do not move."""
        return self.holders.names if self.holders is not None and self.membership == "movable" else ()

    @property
    def programme(self) -> str | None:
        """The programme this account takes part in, if any."""
        return next((cap.programme for cap in self.caps if cap.programme), None)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "caps": [cap.to_record() for cap in self.caps],
            "grain": self.grain,
            "max_rows_per_unit": self.max_rows_per_unit,
            "neighbours": self.neighbours,
            "people": self.people,
            "population": self.population,
            "unit": self.unit,
        } | ({} if self.holders is None else {"holders": self.holders.to_record()})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "AccountSpec":
        """The inverse of `to_record`."""
        fields: dict[str, Any] = dict(record)
        fields["caps"] = tuple(CapSpec.from_record(cap) for cap in record["caps"])
        if "holders" in record:
            fields["holders"] = HolderSpec.from_record(record["holders"])
        return cls(**fields)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for one release; `definition` has every public fact that decides what is released."""

    study: str
    release: str
    period: str
    holder: str | None
    revision: int
    account: AccountSpec
    definition: Mapping[str, Any]
    reason: str | None = None  # why a revision supersedes the one before

    @property
    def name(self) -> str:
        """The release's name in messages."""
        return f"{self.release} of {self.period}" + ("" if self.holder is None else f" at {self.holder}")

    @cached_property
    def key(self) -> str:
        """The unique key of this release; a second request with it returns the same bytes."""
        return self._key(self.revision)

    @cached_property
    def supersedes(self) -> str | None:
        """The key of the revision before this one."""
        return self._key(self.revision - 1) if self.revision > 1 else None

    def superseded_at(self, holder: str) -> str:
        """The key of the revision before this one at another holder."""
        return replace(self, holder=holder)._key(self.revision - 1)

    @cached_property
    def hash(self) -> str:
        """sha256 over the definition: the same key with another hash is refused."""
        return digest(self.definition)

    def _key(self, revision: int) -> str:
        return release_key(self.study, self.release, self.period, self.holder, revision)


def release_key(study: str, release: str, period: str, holder: str | None, revision: int) -> str:
    """The unique key of a release in the ledger."""
    return canonical_json([study, release, period, holder, revision]).decode()


def released_under(key: str) -> dict[str, Any]:
    """The parts of a release's key, by name."""
    study, release, period, holder, revision = json.loads(key)
    return {"study": study, "release": release, "period": period, "holder": holder, "revision": revision}
