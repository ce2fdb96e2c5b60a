"""Exact contingency tables of a network's families: every release of the network is computed from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Integers, Words
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import EncodedTable
from dpbayes_core.networks.schema import NetworkSchema, Nodes
from dpbayes_core.networks.sensitivity import hadamard


@dataclass(frozen=True, repr=False, eq=False)
class ExactTables(Confidential):
    """Confidential counts, one table after the other; equal for every order and split of the rows."""

    rows: int
    counts: Integers

    def __add__(self, other: "ExactTables") -> "ExactTables":
        if len(self.counts) != len(other.counts):
            raise ValueError("cannot add tables: they are of different networks. Count with one schema.")
        return ExactTables(self.rows + other.rows, self.counts + other.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactTables):
            return False
        return self.rows == other.rows and np.array_equal(self.counts, other.counts)

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # never a key

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        return {"rows": np.array([self.rows]), "counts": self.counts}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "ExactTables":
        """The inverse of `to_arrays`."""
        return cls(int(arrays["rows"][0]), arrays["counts"].astype(np.int64))


@dataclass(frozen=True)
class FamilyTables:
    """Counts of the maximal families; every other table and signed sum is a sum of these counts."""

    schema: NetworkSchema

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the nodes' columns."""
        return self.schema.names

    @property
    def needs_people(self) -> bool:
        """False: the counts do not depend on which person a record belongs to."""
        return False

    def encode(self, columns: Columns) -> EncodedTable:
        """Level codes; a code outside the public levels becomes the first level."""
        from dpbayes_core.networks.counting import copy_codes

        parts = [np.asarray(columns[name]) for name in self.schema.names]
        if len({len(part) for part in parts}) > 1:
            raise ValueError("cannot encode records: the columns differ in length. Give one value of each per record.")
        table = np.empty((len(parts[0]), len(parts)), dtype=np.int32, order="F")
        for place, (part, levels) in enumerate(zip(parts, self.schema.levels, strict=True)):
            copy_codes(np.ascontiguousarray(part), np.int32(levels), table[:, place])
        return EncodedTable(table)

    def sum(self, encoded: EncodedTable, people: Words | None) -> ExactTables:
        """The tables of these records."""
        from dpbayes_core.networks.counting import Layout, count_families

        codes = np.ascontiguousarray(encoded.integers.T)
        counts = np.zeros(int(self._first[-1]), dtype=np.int64)
        count_families(codes, Layout(self._members, self._strides, self._start, self._first), counts)
        return ExactTables(len(encoded.integers), counts)

    def empty(self) -> ExactTables:
        """The tables of no records."""
        return ExactTables(0, np.zeros(int(self._first[-1]), dtype=np.int64))

    def table(self, exact: ExactTables, nodes: Nodes) -> Integers:
        """The counts of some nodes of one family, one axis a node."""
        families = self.schema.maximal_families
        place = next(place for place, family in enumerate(families) if set(nodes) <= set(family))
        part = exact.counts[self._first[place] : self._first[place + 1]].reshape(self.schema.shape(families[place]))
        return margin(part, families[place], nodes)

    def tables(self, exact: ExactTables, released: tuple[Nodes, ...]) -> Integers:
        """The counts of these sets of nodes, one table after the other."""
        return np.concatenate([self.table(exact, nodes).reshape(-1) for nodes in released])

    def signs(self, exact: ExactTables, released: tuple[Nodes, ...]) -> Integers:
        """The sums over records of (-1)^(sum of the codes of these nodes); binary nodes."""
        found: dict[frozenset[int], int] = {}
        for family in self.schema.maximal_families:
            places = hadamard(self.table(exact, family).reshape(-1))
            for bits, value in enumerate(places.tolist()):
                reversed_bits = range(len(family) - 1, -1, -1)  # the last node runs fastest
                nodes = frozenset(node for node, bit in zip(family, reversed_bits, strict=True) if bits >> bit & 1)
                found[nodes] = value
        return np.array([found[frozenset(nodes)] for nodes in released], dtype=np.int64)

    @cached_property
    def _members(self) -> Integers:
        return np.array([node for family in self.schema.maximal_families for node in family], dtype=np.int64)

    @cached_property
    def _start(self) -> Integers:
        return np.cumsum([0, *(len(family) for family in self.schema.maximal_families)]).astype(np.int64)

    @cached_property
    def _first(self) -> Integers:
        return np.cumsum([0, *(self.schema.cells(family) for family in self.schema.maximal_families)]).astype(np.int64)

    @cached_property
    def _strides(self) -> Integers:
        strides = list[int]()
        for family in self.schema.maximal_families:
            shape = self.schema.shape(family)
            strides += [int(np.prod(shape[place + 1 :], dtype=np.int64)) for place in range(len(shape))]
        return np.array(strides, dtype=np.int64)


def margin(table: NDArray[Any], nodes: Nodes, kept: Nodes) -> NDArray[Any]:
    """The marginal table of the nodes `kept`, with its axes in their order."""
    summed = table.sum(axis=tuple(axis for axis, node in enumerate(nodes) if node not in kept))
    remaining = [node for node in nodes if node in kept]
    return np.transpose(summed, [remaining.index(node) for node in kept])
