"""One node's probabilities given any others, for every posterior draw: what is not given is summed out."""

from collections.abc import Mapping

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.networks.schema import NetworkSchema, Nodes

Factor = tuple[Nodes, Floats]  # an axis for draws, then one for each node


def conditional_probabilities(
    schema: NetworkSchema, draws: Mapping[str, Floats], node: str, given: Mapping[str, str]
) -> Floats:
    """P(node = level | given) for every draw by name, of shape (chains, draws, levels)."""
    query, known = _places(schema, node, given)
    shape = next(iter(draws.values())).shape
    needed = _ancestors(schema, {query, *known})
    factors = [_reduced(schema, draws, child, known) for child in sorted(needed)]
    hidden = needed - {query} - set(known)
    while hidden:
        best = min(sorted(hidden), key=lambda h: schema.cells(_around(h, factors)))
        joined = _product([factor for factor in factors if best in factor[0]])
        summed = joined[1].sum(axis=1 + joined[0].index(best))
        factors = [factor for factor in factors if best not in factor[0]]
        factors.append((tuple(other for other in joined[0] if other != best), summed))
        hidden.remove(best)
    weights = _product(factors)[1]
    return (weights / weights.sum(axis=1, keepdims=True)).reshape(*shape, -1)


def _places(schema: NetworkSchema, node: str, given: Mapping[str, str]) -> tuple[int, dict[int, int]]:
    if unknown := sorted({node, *given} - set(schema.names)):
        raise StudyInvalid(f"cannot predict: {unknown[0]} is no node. Name nodes of the network.")
    if node in given:
        raise StudyInvalid(f"cannot predict {node}: it is given. Predict another node, or leave it out.")
    known: dict[int, int] = {}
    for name, level in given.items():
        place = schema.names.index(name)
        if level not in schema.nodes[place].levels:
            levels = ", ".join(schema.nodes[place].levels)
            raise StudyInvalid(f"cannot predict {node}: {name} has no level {level}. Choose one of {levels}.")
        known[place] = schema.nodes[place].levels.index(level)
    return schema.names.index(node), known


def _ancestors(schema: NetworkSchema, nodes: set[int]) -> set[int]:
    """The nodes and everything above them: what stands below none of them sums to one."""
    found, waiting = set[int](), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += schema.parent_places[node]
    return found


def _reduced(schema: NetworkSchema, draws: Mapping[str, Floats], child: int, known: Mapping[int, int]) -> Factor:
    """One node's table for every draw, at the levels that are known."""
    family = schema.families[child]
    table = np.stack([draws[name].ravel() for name in schema.probabilities(child)], axis=1)
    table = table.reshape(-1, *schema.shape(family))
    places = tuple(known.get(node, slice(None)) for node in family)
    return tuple(node for node in family if node not in known), table[(slice(None), *places)]


def _around(hidden: int, factors: list[Factor]) -> Nodes:
    return tuple({node for nodes, _ in factors if hidden in nodes for node in nodes})


def _product(factors: list[Factor]) -> Factor:
    """All factors as one, an axis for every node that any of them has."""
    nodes = tuple(sorted({node for own, _ in factors for node in own}))
    total = np.ones((len(factors[0][1]), *[1] * len(nodes)))
    for own, table in factors:
        order = [own.index(node) for node in nodes if node in own]
        spread = table.transpose(0, *[1 + place for place in order])
        sizes = iter(spread.shape[1:])
        total = total * spread.reshape(len(table), *[next(sizes) if node in own else 1 for node in nodes])
    return nodes, total
