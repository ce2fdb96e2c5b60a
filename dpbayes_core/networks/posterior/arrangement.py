"""Where the latent cells of each cluster stand, which move is tried how often, and how cells become draws."""

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.networks.posterior.clusters import Clusters
from dpbayes_core.networks.posterior.evidence import Evidence, places_in
from dpbayes_core.networks.posterior.model import Layout, Output
from dpbayes_core.networks.schema import NetworkSchema

MOST_MONITORS = 400  # above: the counts of each node's levels instead of the families' cells


def layout_of(evidence: Evidence, clusters: Clusters, *, tied: bool) -> Layout:
    """The cells of each cluster, last node fastest; untied clusters have nodes of their own."""
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
    """Half by the size of a node's own table, half alike: an inner node's move is dear, and needed less often."""
    sizes = np.array([evidence.cells(family) for family in evidence.families], dtype=np.float64)
    weights = sizes if tied else sizes[[node for _, node in owned]]
    return weights / weights.sum() + 1.0 / len(weights)


def _cumulative(weights: NDArray[np.number]) -> Floats:
    running = np.cumsum(weights, dtype=np.float64)
    return running / running[-1]


def output_of(evidence: Evidence, clusters: Clusters, concentrations: tuple[float, ...]) -> Output:
    """Each family's table read from the first cluster that has it."""
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
    """For each cell of each family the monitored sum it is part of."""
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
