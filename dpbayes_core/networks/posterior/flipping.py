"""How often many records flip at once, how many, and what hangs on each node."""

from math import log

import numpy as np

from dpbayes_core.arrays import Integers
from dpbayes_core.networks.posterior.clusters import Clusters
from dpbayes_core.networks.posterior.evidence import Evidence, estimated_table
from dpbayes_core.networks.posterior.model import Flips

MOST = 1000.0  # records in one move
OFTEN, RECORDS = 0.2, 24.0  # share of moves at most; records, times clusters, for each move of a line


def flips_of(evidence: Evidence, clusters: Clusters, *, tied: bool) -> Flips:
    """As much time for flips as for lines, unless the noise is below the counts' own spread: lines do better there."""
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
    """The clusters that hang on each, and the one it hangs on."""
    near: list[list[int]] = [[] for _ in clusters.nodes]
    for cluster, before in enumerate(clusters.before):
        if before >= 0:
            near[cluster].append(before)
            near[before].append(cluster)
    return near


def _outward(near: list[list[int]], first: int) -> list[int]:
    """Clusters tied to the first, each after one that it hangs on or that hangs on it."""
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
