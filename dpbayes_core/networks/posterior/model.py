"""The log density of latent tables as flat arrays: a sum of terms, each a function of one count or signed count.

The counts x of the clusters' cells have, with h the cells of families and q of parents' configurations,

    log p(x | release) = sum_cells -log x! + sum_separators log n_s!
                         + sum_families [log Gamma(a + h) - log Gamma(K a + q)]
                         - sum_sums |value - sum(x)| / scale + constant

because n! / prod x! records can be put in the cells of the root, n_s! / prod x! in those below a separator.
"""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.networks.posterior.clusters import Clusters
from dpbayes_core.networks.posterior.evidence import Evidence, places_in, signs_in
from dpbayes_core.networks.schema import Nodes

GAMMA, NOISE = 0, 1  # kinds of term: second * log Gamma(first + v); -second * |v - first|


class Terms(NamedTuple):
    """The density's terms, and for each cell of each cluster the terms it adds to, with signs."""

    kind: Integers
    first: Floats
    second: Floats
    start: Integers  # (cells + 1): first of the terms that a cell adds to
    touched: Integers
    sign: Floats


class Layout(NamedTuple):
    """The order of the cells; where clusters are not tied, each has its own copies of its nodes."""

    levels: Integers
    offset: Integers  # (clusters + 1): first cell of each
    stride: Integers  # (clusters, nodes): 0 where the cluster does not have the node
    member: Integers  # (clusters, nodes): nodes of the cluster, then -1
    size: Integers  # (clusters): how many it has
    group: Integers  # (clusters + 1): clusters of one group share one n; then the number of groups
    by_cells: Floats  # cumulative probabilities of clusters
    by_node: Floats  # and of nodes


class Output(NamedTuple):
    """The maps from cells to the families' tables, to draws and to monitored sums."""

    owner: Integers  # (families): the cluster that its table is computed from
    place: Integers  # cell of the owner -> cell of the family, families one after the other
    start: Integers  # (families + 1): where a family's part of `place` begins
    first: Integers  # (families + 1): first column of each family
    levels: Integers  # (families): of its child
    concentration: Floats  # (families)
    monitor: Integers  # family cell -> monitored sum


class Flips(NamedTuple):
    """Moves of many records at once, from one level of a node that has children to another."""

    share: float  # of all moves; renewals have the same share
    most: float  # records
    nodes: Integers  # with children
    parents: Integers  # (nodes, most parents): of each, then -1
    below: Integers  # (nodes, most): the node and its descendants, parents before children, then -1
    order: Integers  # all nodes, parents before children
    clusters: Integers  # (nodes, clusters): tied to the node, each after a neighbour of it, its own first; then -1


class Model(NamedTuple):
    """The arrays and settings that all chains share."""

    terms: Terms
    layout: Layout
    output: Output
    most_rows: int  # 0 where n is public
    steps: int  # moves in an iteration
    flips: Flips


class _Builder:
    """Collects the terms of the density, cluster by cluster."""

    def __init__(self, evidence: Evidence, clusters: Clusters) -> None:
        self.evidence, self.clusters = evidence, clusters
        self.gammas: list[dict[tuple[Nodes, float], float]] = [{} for _ in clusters.nodes]
        self.kind: list[Floats] = []
        self.first: list[Floats] = []
        self.second: list[Floats] = []
        self.count = 0
        self.touches: list[list[tuple[Integers, Floats]]] = [[] for _ in clusters.nodes]

    def gamma(self, cluster: int, nodes: Nodes, shift: float, weight: float) -> None:
        """Add weight * log Gamma(shift + count) for every configuration of the nodes; equal ones cancel."""
        if nodes or self.evidence.rows is None:
            key = (tuple(sorted(nodes)), shift)
            found = self.gammas[cluster]
            found[key] = found.get(key, 0.0) + weight

    def add(self, cluster: int, places: Integers, signs: Floats, kind: int, numbers: tuple[Floats, Floats]) -> None:
        """One term for each place."""
        self.touches[cluster].append((places + self.count, signs))
        self.kind.append(np.full(len(numbers[0]), kind, dtype=np.float64))
        self.first.append(numbers[0])
        self.second.append(numbers[1])
        self.count += len(numbers[0])

    def observe(self, cluster: int) -> None:
        """Add the noise terms of the sums whose nodes this cluster contains."""
        own, evidence = self.clusters.nodes[cluster], self.evidence
        for table in evidence.tables:
            if self._takes(cluster, table.nodes):
                rates = np.full(table.counts.size, 1.0 / table.scale)
                places = places_in(evidence, own, table.nodes)
                self.add(cluster, places, np.ones(len(places)), NOISE, (table.counts.ravel(), rates))
        for sign in evidence.signs:
            if self._takes(cluster, sign.nodes) and (sign.nodes or evidence.rows is None):
                signs = signs_in(evidence, own, sign.nodes)
                numbers = (np.array([sign.value]), np.array([1.0 / sign.scale]))
                self.add(cluster, np.zeros(len(signs), dtype=np.int64), signs, NOISE, numbers)

    def _takes(self, cluster: int, nodes: Nodes) -> bool:
        if self.tied:
            return self.clusters.first_with(nodes) == cluster
        return set(nodes) <= set(self.clusters.nodes[cluster])

    tied = True

    def terms(self) -> Terms:
        """All terms as arrays."""
        for cluster, found in enumerate(self.gammas):
            for (nodes, shift), weight in found.items():
                places = places_in(self.evidence, self.clusters.nodes[cluster], nodes)
                size = self.evidence.cells(nodes)
                if weight:
                    numbers = (np.full(size, shift), np.full(size, weight))
                    self.add(cluster, places, np.ones(len(places)), GAMMA, numbers)
        touched = [np.stack([places for places, _ in own], axis=1) for own in self.touches]
        signs = [np.stack([sign for _, sign in own], axis=1) for own in self.touches]
        each = np.concatenate([np.full(part.shape[0], part.shape[1]) for part in touched])
        return Terms(
            np.concatenate(self.kind).astype(np.int64),
            np.concatenate(self.first),
            np.concatenate(self.second),
            np.concatenate([[0], np.cumsum(each)]).astype(np.int64),
            np.concatenate([part.ravel() for part in touched]).astype(np.int64),
            np.concatenate([part.ravel() for part in signs]),
        )


def tied_terms(evidence: Evidence, clusters: Clusters, concentrations: tuple[float, ...]) -> Terms:
    """The whole likelihood, in the tables of a junction forest."""
    builder = _Builder(evidence, clusters)
    for cluster, own in enumerate(clusters.nodes):
        builder.gamma(cluster, own, 1.0, -1.0)
        builder.gamma(cluster, clusters.separator(cluster), 1.0, 1.0)
        builder.observe(cluster)
    for node, family in enumerate(evidence.families):
        _rows_of(builder, clusters.first_with(family), family, concentrations[node])
    return builder.terms()


def separate_terms(evidence: Evidence, clusters: Clusters, concentrations: tuple[float, ...]) -> Terms:
    """The likelihood of each cluster's own noisy sums; nodes without parents in it have one flat Dirichlet together."""
    builder = _Builder(evidence, clusters)
    builder.tied = False
    for cluster, own in enumerate(clusters.nodes):
        builder.gamma(cluster, own, 1.0, -1.0)
        builder.gamma(cluster, (), 1.0, 1.0)
        builder.observe(cluster)
        inside = [node for node in own if set(evidence.families[node]) <= set(own)]
        for node in inside:
            _rows_of(builder, cluster, evidence.families[node], concentrations[node])
        rest = tuple(node for node in own if node not in inside)
        builder.gamma(cluster, rest, 1.0, 1.0)
        builder.gamma(cluster, (), float(evidence.cells(rest)), -1.0)
    return builder.terms()


def _rows_of(builder: _Builder, cluster: int, family: Nodes, concentration: float) -> None:
    builder.gamma(cluster, family, concentration, 1.0)
    builder.gamma(cluster, family[:-1], concentration * builder.evidence.levels[family[-1]], -1.0)
