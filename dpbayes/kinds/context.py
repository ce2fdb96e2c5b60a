"""The public facts of a study that a kind of release needs, collected once from the study file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from dpbayes.strict_yaml.problem import Place
from dpbayes_core.bounds import Bounds
from storage.ledger.request import Neighbours


class Column(Protocol):
    """What is declared of a column: bounds, levels, or neither."""

    @property
    def bounds(self) -> Bounds | None:
        """The bounds of a column of numbers."""
        ...

    @property
    def levels(self) -> tuple[str, ...] | None:
        """The levels of a column of names."""
        ...


class Analysis(Protocol):
    """The parts of an analysis that a release must agree with."""

    @property
    def release(self) -> str:
        """The name of the release that is analysed."""
        ...

    @property
    def sampler(self) -> str:
        """The name of the sampler, or auto."""
        ...

    @property
    def periods(self) -> str:
        """One period at a time, or all of them together."""
        ...


@dataclass(frozen=True, kw_only=True)
class ReleaseContext:
    """The public facts of a study that its releases need."""

    columns: Mapping[str, Column]  # as declared, by name
    neighbours: Neighbours  # the neighbour relation of every release
    delta: Decimal | None
    measures: frozenset[str]  # in which the study's caps count
    rows: int  # as declared: a public guess
    max_rows_per_unit: int
    holders: tuple[str, ...]  # empty if the table has no holders
    analyses: Mapping[str, Analysis]  # by name

    def analyses_of(self, place: Place) -> Iterator[tuple[str, Analysis]]:
        """The analyses, by name, of the release whose key path is `place`."""
        return ((name, one) for name, one in self.analyses.items() if place[-1:] == (one.release,))
