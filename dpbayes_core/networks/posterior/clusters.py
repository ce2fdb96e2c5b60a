"""Clusters of nodes that share one latent table: the cliques of a junction forest, or one for each family."""

from dataclasses import dataclass
from math import prod

from dpbayes_core.networks.schema import Nodes

MOST_CELLS = 4096  # of all latent tables together


@dataclass(frozen=True)
class Clusters:
    """Clusters in an order in which each shares nodes with earlier ones only through its parent, `before`."""

    nodes: tuple[Nodes, ...]
    before: tuple[int, ...]  # the parent cluster, or -1

    def separator(self, cluster: int) -> Nodes:
        """The nodes that the cluster shares with its parent."""
        if self.before[cluster] < 0:
            return ()
        return tuple(node for node in self.nodes[cluster] if node in self.nodes[self.before[cluster]])

    def first_with(self, nodes: Nodes) -> int:
        """The first cluster that contains all of these nodes."""
        return next(place for place, own in enumerate(self.nodes) if set(nodes) <= set(own))


def junction_forest(levels: tuple[int, ...], families: tuple[Nodes, ...]) -> Clusters | None:
    """The cliques of the triangulated moral graph, whose tables determine the likelihood; None above MOST_CELLS."""
    near: list[set[int]] = [set() for _ in levels]
    for family in families:
        for node in family:
            near[node] |= set(family) - {node}
    left, cliques = set(range(len(levels))), list[set[int]]()
    while left:
        node = min(sorted(left), key=lambda v: prod(levels[w] for w in near[v]) * levels[v])
        clique = near[node] | {node}
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        if sum(prod(levels[v] for v in other) for other in cliques) > MOST_CELLS:
            return None
        for other in near[node]:
            near[other] |= near[node]
            near[other] -= {other, node}
        left.remove(node)
    return _spanning_forest([tuple(sorted(clique)) for clique in cliques])


def _spanning_forest(cliques: list[Nodes]) -> Clusters:
    """The spanning forest with the largest separators, grown from the first clique."""
    waiting, order, before = list(range(len(cliques))), list[int](), list[int]()
    best: dict[int, tuple[int, int]] = dict.fromkeys(waiting, (0, -1))
    while waiting:
        following = max(waiting, key=lambda place: (best[place][0], -place))
        waiting.remove(following)
        before.append(best[following][1])
        order.append(following)
        for place in waiting:
            shared = len(set(cliques[place]) & set(cliques[following]))
            if shared > best[place][0]:
                best[place] = (shared, len(order) - 1)
    return Clusters(tuple(cliques[place] for place in order), tuple(before))


def family_clusters(families: tuple[Nodes, ...]) -> Clusters:
    """One cluster for each maximal family, none tied to another."""
    sets = [frozenset(family) for family in families]
    maximal = [
        own for place, own in enumerate(sets) if not any(own < other for other in sets) and own not in sets[:place]
    ]
    return Clusters(tuple(tuple(sorted(own)) for own in maximal), (-1,) * len(maximal))
