"""The arrays that a chain reads: the order of latent cells, the moves' frequencies, and the map from cells to draws."""

from math import log

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.networks.posterior.clusters import Clusters
from dpbayes_core.networks.posterior.evidence import Evidence, estimated_table, places_in
from dpbayes_core.networks.posterior.model import Flips, Layout, Output
from dpbayes_core.networks.schema import NetworkSchema

MOST_MONITORS = 400  # monitored families' cells; with more, the counts of each node's levels are monitored instead


def layout_of(evidence: Evidence, clusters: Clusters, *, tied: bool) -> Layout:
    """The order of each cluster's cells, last node fastest; clusters that are not tied have separate nodes."""
    owned = [(cluster, node) for cluster, own in enumerate(clusters.nodes) for node in own]
    number = {pair: (pair[1] if tied else place) for place, pair in enumerate(owned)}
    levels = np.array(evidence.levels if tied else [evidence.levels[node] for _, node in owned], dtype=np.int64)
    count, widest = len(clusters.nodes), max(len(own) for own in clusters.nodes)
    stride, member = np.zeros((count, len(levels)), dtype=np.int64), np.full((count, widest), -1, dtype=np.int64)
    for cluster, own in enumerate(clusters.nodes):
        step = evidence.cells(own)
        for place, node in enumerate(own):
            step //= evidence.levels[node]
            member[cluster, place] = number[cluster, node]
            stride[cluster, number[cluster, node]] = step
    cells = np.array([evidence.cells(own) for own in clusters.nodes])
    group = np.zeros(count, dtype=np.int64) if tied else np.arange(count)
    return Layout(
        levels,
        np.concatenate([[0], np.cumsum(cells)]).astype(np.int64),
        stride,
        member,
        np.array([len(own) for own in clusters.nodes], dtype=np.int64),
        np.append(group, group[-1] + 1).astype(np.int64),
        _cumulative(cells),
        _cumulative(_node_weights(evidence, owned, tied=tied)),
    )


def _node_weights(evidence: Evidence, owned: list[tuple[int, int]], *, tied: bool) -> Floats:
    """How often each node is moved: half in proportion to its own table's size, half uniformly."""
    sizes = np.array([evidence.cells(family) for family in evidence.families], dtype=np.float64)
    weights = sizes if tied else sizes[[node for _, node in owned]]
    return weights / weights.sum() + 1.0 / len(weights)


def _cumulative(weights: NDArray[np.number]) -> Floats:
    running = np.cumsum(weights, dtype=np.float64)
    return running / running[-1]


def output_of(evidence: Evidence, clusters: Clusters, concentrations: tuple[float, ...]) -> Output:
    """The map from cells to families' tables, each from the first cluster that contains the family."""
    families = evidence.families
    owner = [clusters.first_with(family) for family in families]
    places = [places_in(evidence, clusters.nodes[o], f) for o, f in zip(owner, families, strict=True)]
    sizes = [evidence.cells(family) for family in families]
    return Output(
        np.array(owner, dtype=np.int64),
        np.concatenate(places),
        np.concatenate([[0], np.cumsum([len(part) for part in places])]).astype(np.int64),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.array(evidence.levels, dtype=np.int64),
        np.array(concentrations),
        monitors_of(evidence),
    )


def monitors_of(evidence: Evidence) -> Integers:
    """For each cell of each family, the index of its monitored sum."""
    total = sum(evidence.cells(family) for family in evidence.families)
    if total <= MOST_MONITORS:
        return np.arange(total)
    first = np.concatenate([[0], np.cumsum(evidence.levels)])
    families = enumerate(evidence.families)
    return np.concatenate([first[node] + np.arange(evidence.cells(f)) % evidence.levels[node] for node, f in families])


def monitor_names(schema: NetworkSchema) -> list[str]:
    """A name for each monitored count, in the order of `monitors_of`."""
    if len(schema.coefficients) <= MOST_MONITORS:
        return [f"count {name[2:-1].replace(' |', ',')}" for name in schema.coefficients]
    return [f"count {node.name}={level}" for node in schema.nodes for level in node.levels]


MOST = 1000.0  # records in one flip
OFTEN, RECORDS = 0.2, 24.0  # largest share of flips among moves; scale of that share, in records x clusters


def flips_of(evidence: Evidence, clusters: Clusters, *, tied: bool) -> Flips:
    """About as much time for flips as for moves along lines; none where the noise is below sqrt(rows)."""
    nodes = [node for node in range(len(evidence.levels)) if any(node in parents for parents in evidence.parents)]
    scale = max([part.scale for part in (*evidence.tables, *evidence.signs)], default=0.0)
    rows = float(estimated_table(evidence, evidence.families[0]).sum()) if evidence.rows is None else evidence.rows
    limit = MOST if evidence.rows is None else float(evidence.rows)
    most = max(1.0, min(MOST, limit, float(np.ceil(3.0 * scale))))
    share = min(OFTEN, RECORDS * log(most + 2.0) / (most * len(clusters.nodes)))
    wanted = tied and nodes and evidence.rows != 0 and rows <= scale**2
    order, near = parents_first(evidence), _neighbours(clusters)
    below = [[node, *_descendants(evidence, node, order)] for node in range(len(evidence.levels))]
    return Flips(
        share if wanted else 0.0,
        most,
        np.array(nodes, dtype=np.int64),
        _padded([list(parents) for parents in evidence.parents]),
        _padded(below),
        np.array(order, dtype=np.int64),
        _padded([_outward(near, clusters.first_with(family)) for family in evidence.families]),
    )


def parents_first(evidence: Evidence) -> list[int]:
    """The nodes, each after its parents."""
    order: list[int] = []
    while len(order) < len(evidence.parents):
        known = set(order)
        order += [n for n, parents in enumerate(evidence.parents) if n not in known and known.issuperset(parents)]
    return order


def _descendants(evidence: Evidence, node: int, order: list[int]) -> list[int]:
    found = {node}
    for other in order:
        if not found.isdisjoint(evidence.parents[other]):
            found.add(other)
    return [other for other in order if other in found and other != node]


def _neighbours(clusters: Clusters) -> list[list[int]]:
    """The children of each cluster, and its parent."""
    near: list[list[int]] = [[] for _ in clusters.nodes]
    for cluster, before in enumerate(clusters.before):
        if before >= 0:
            near[cluster].append(before)
            near[before].append(cluster)
    return near


def _outward(near: list[list[int]], first: int) -> list[int]:
    """The clusters connected to `first` in the forest, each after one of its neighbours."""
    order, known = [first], {first}
    for cluster in order:
        following = [other for other in near[cluster] if other not in known]
        order += following
        known.update(following)
    return order


def _padded(lists: list[list[int]]) -> Integers:
    found = np.full((len(lists), max(1, *(len(entries) for entries in lists))), -1, dtype=np.int64)
    for place, entries in enumerate(lists):
        found[place, : len(entries)] = entries
    return found
