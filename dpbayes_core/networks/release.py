"""The release of a network: noisy tables, or noisy signed sums of binary nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.networks.schema import NetworkSchema, Nodes
from dpbayes_core.networks.sensitivity import ADD_REMOVE, protected
from dpbayes_core.privacy.mechanisms import Mechanism, mechanism_from_record
from dpbayes_core.privacy.release import PublicNumbers

What = Literal["all-families", "maximal-families", "signed-sums"]


def released_nodes(schema: NetworkSchema, what: What, neighbours: str) -> tuple[Nodes, ...]:
    """The sets of nodes of each released table, or of each signed sum, in the order of the values.

    Every subset of a family has a signed sum; that of no node is the number of rows, and is left out under
    replace-one, where it is public.
    """
    if what == "all-families":
        return schema.families
    if what == "maximal-families":
        return schema.maximal_families
    subsets = {
        tuple(sorted(nodes))
        for family in schema.families
        for size in range(len(family) + 1)
        for nodes in combinations(family, size)
    }
    return tuple(sorted((s for s in subsets if s or neighbours == ADD_REMOVE), key=lambda s: (len(s), s)))


@dataclass(frozen=True)
class NoisyTable:
    """Noisy counts of the configurations of some nodes, one axis a node, and the scale of each cell's noise."""

    nodes: Nodes
    counts: Floats
    scale: float


@dataclass(frozen=True)
class NoisySign:
    """The noisy sum over records of (-1)^(sum of the codes of `nodes`), and the scale of its noise."""

    nodes: Nodes
    value: float
    scale: float


@dataclass(frozen=True, kw_only=True)
class NetworkRelease(PublicNumbers):
    """Noisy tables or signed sums of a network's records, from which alone an analysis starts."""

    kind: ClassVar[str] = "bayes-net"

    schema: NetworkSchema
    what: What
    neighbours: str
    rows: int | None  # public under replace-one, else None
    mechanism: Mechanism  # geometric, or Laplace
    values: tuple[float, ...]  # table after table, or sum after sum; integers where the noise is

    @cached_property
    def nodes(self) -> tuple[Nodes, ...]:
        """The nodes of each released table or sum."""
        return released_nodes(self.schema, self.what, self.neighbours)

    @property
    def tables(self) -> tuple[NoisyTable, ...]:
        """The noisy tables, none where signed sums were released."""
        if self.what == "signed-sums":
            return ()
        sizes = np.cumsum([self.schema.cells(nodes) for nodes in self.nodes])[:-1]
        parts = np.split(np.array(self.values, dtype=np.float64), sizes)
        scales = np.split(self.mechanism.scales, sizes)
        return tuple(
            NoisyTable(nodes, part.reshape(self.schema.shape(nodes)), float(scale[0]))
            for nodes, part, scale in zip(self.nodes, parts, scales, strict=True)
        )

    @property
    def signs(self) -> tuple[NoisySign, ...]:
        """The noisy signed sums, none where tables were released."""
        if self.what != "signed-sums":
            return ()
        scales = self.mechanism.scales.tolist()
        return tuple(
            NoisySign(nodes, float(value), scale)
            for nodes, value, scale in zip(self.nodes, self.values, scales, strict=True)
        )

    @property
    def max_rows_per_unit(self) -> int:
        """One: each person is one record."""
        return 1

    @property
    def protected(self) -> bool:
        """Whether the mechanism's sensitivities are at least those of these sums."""
        public = (self.rows is None) == (self.neighbours == ADD_REMOVE)
        whole = len(self.values) == len(self.mechanism.scales)
        return public and whole and protected(self.schema, self.nodes, self.what, self.neighbours, self.mechanism)

    def payload(self) -> dict[str, Any]:
        """The noisy numbers and the nodes of each."""
        names = [[self.schema.names[node] for node in nodes] for nodes in self.nodes]
        return {"nodes": names, "rows": self.rows, "values": list(self.values), "what": self.what}

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return self._record(neighbours=self.neighbours, schema=self.schema.to_record())

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "NetworkRelease":
        """The inverse of `to_record`; a record that names other nodes than its schema implies is refused."""
        noisy = record["noisy"]
        release = cls(
            schema=NetworkSchema.from_record(record["schema"]),
            what=noisy["what"],
            neighbours=record["neighbours"],
            rows=noisy["rows"],
            mechanism=mechanism_from_record(record["mechanism"]),
            values=tuple(noisy["values"]),
        )
        if release.to_record() != dict(record):
            raise ValueError("cannot read a network's release: its parts contradict each other. Fetch it again.")
        return release
