"""What is asked of the ledger: a name for a release, its public definition and the account that pays."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from dpbayes_core.canonical import canonical_json, digest

Window = Literal["lifetime", "per-period", "programme"]
Measure = Literal["epsilon-delta", "rho", "pure-epsilon"]


@dataclass(frozen=True, kw_only=True)
class CapSpec:
    """A limit that an account may never pass."""

    window: Window
    measure: Measure
    limit: Decimal  # epsilon, or rho
    delta: Decimal | None = None  # epsilon-delta caps only
    programme: str | None = None  # programme windows only

    @property
    def name(self) -> str:
        """How people call this cap."""
        return f"programme {self.programme}" if self.programme else self.window

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON; decimals as text."""
        return {
            "delta": None if self.delta is None else str(self.delta),
            "limit": str(self.limit),
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
            limit=Decimal(record["limit"]),
            delta=None if delta is None else Decimal(delta),
            programme=record["programme"],
        )


@dataclass(frozen=True, kw_only=True)
class AccountSpec:
    """The people whose privacy is spent: population, unit of privacy and neighbour relation, with their caps."""

    population: str
    unit: str  # the unit column's name, or "row"
    max_rows_per_unit: int
    neighbours: Literal["replace-one", "add-remove"]
    grain: str
    people: Literal["same", "disjoint"]
    caps: tuple[CapSpec, ...]

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
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "AccountSpec":
        """The inverse of `to_record`."""
        caps = tuple(CapSpec.from_record(cap) for cap in record["caps"])
        return cls(**{**record, "caps": caps})


@dataclass(frozen=True, kw_only=True)
class Request:
    """One release, asked for by name; `definition` holds every public fact that decides what is released."""

    study: str
    release: str
    period: str
    holder: str | None
    revision: int
    account: AccountSpec
    definition: Mapping[str, Any]
    reason: str | None = None  # why a revision supersedes the one before

    @property
    def key(self) -> str:
        """The unique name of this release; asking again under it answers the same bytes."""
        return canonical_json([self.study, self.release, self.period, self.holder, self.revision]).decode()

    @property
    def hash(self) -> str:
        """sha256 over the definition: the same key with another hash is refused."""
        return digest(self.definition)
