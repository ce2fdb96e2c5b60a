"""A release of a network as noisy sums over records, with noise density proportional to exp(-|residual| / scale).

Integer noise and Laplace noise have the same law at whole numbers, up to a constant.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.networks.release import NetworkRelease, NoisySign, NoisyTable
from dpbayes_core.networks.schema import Nodes


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A network's structure and the noisy sums; a family is a node's parents, as declared, followed by the node."""

    levels: tuple[int, ...]
    parents: tuple[Nodes, ...]
    rows: int | None  # None where n is not public
    tables: tuple[NoisyTable, ...] = ()
    signs: tuple[NoisySign, ...] = ()

    @classmethod
    def of(cls, release: NetworkRelease) -> "Evidence":
        """The evidence of this release."""
        schema = release.schema
        return cls(
            levels=schema.levels,
            parents=schema.parent_places,
            rows=release.rows,
            tables=release.tables,
            signs=release.signs,
        )

    @property
    def families(self) -> tuple[Nodes, ...]:
        """Each node's family, in the order of the nodes."""
        return tuple((*parents, node) for node, parents in enumerate(self.parents))

    def shape(self, nodes: Nodes) -> tuple[int, ...]:
        """Each node's number of levels."""
        return tuple(self.levels[node] for node in nodes)

    def cells(self, nodes: Nodes) -> int:
        """How many configurations the nodes have."""
        return int(np.prod(self.shape(nodes), dtype=np.int64))


def configurations(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Every configuration, one a row, last node fastest; one empty row for no nodes."""
    count = int(np.prod(shape, dtype=np.int64))
    if not shape:
        return np.zeros((1, 0), dtype=np.int64)
    return np.stack(np.unravel_index(np.arange(count), shape), axis=1).astype(np.int64)


def places_in(evidence: Evidence, outer: Nodes, inner: Nodes) -> NDArray[np.int64]:
    """For each configuration of `outer`, the index of its configuration of `inner`, a subset in any order."""
    rows = configurations(evidence.shape(outer))
    place = np.zeros(len(rows), dtype=np.int64)
    for node in inner:
        place = place * evidence.levels[node] + rows[:, outer.index(node)]
    return place


def signs_in(evidence: Evidence, outer: Nodes, inner: Nodes) -> Floats:
    """For each configuration of `outer` the sign it adds to the sum of `inner`."""
    rows = configurations(evidence.shape(outer))
    odd = rows[:, [outer.index(node) for node in inner]].sum(axis=1) % 2
    return np.where(odd == 1, -1.0, 1.0)


def estimated_table(evidence: Evidence, nodes: Nodes) -> Floats:
    """Unbiased, unclipped counts of a family: released, the mean of tables that contain it, or from signed sums."""
    holding = [table for table in evidence.tables if set(nodes) <= set(table.nodes)]
    if holding:
        chosen = [table for table in holding if len(table.nodes) == len(nodes)] or holding
        sums = [np.bincount(places_in(evidence, t.nodes, nodes), t.counts.ravel()) for t in chosen]
        return np.array(sums).sum(axis=0) / len(sums)
    found = np.zeros(evidence.cells(nodes))
    for sign in evidence.signs:
        if set(sign.nodes) <= set(nodes):
            found += sign.value * signs_in(evidence, nodes, sign.nodes)
    if evidence.rows is not None:
        found += evidence.rows
    return found / len(found)
