"""Predictions from a network's conditional probabilities: one node of a record given the others; simulated records.

Conditional probabilities are flat, in the order of the schema's coefficients: families in order, each table's last node
fastest. Records are level codes, one row each, one column a node.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from dpbayes_core.arrays import AnyIntegers, Floats
from dpbayes_core.networks.schema import NetworkSchema, Nodes

MOST_DRAWS = 200  # that `accuracy` uses


def tables_of(schema: NetworkSchema, probabilities: Floats) -> tuple[Floats, ...]:
    """Flat probabilities (..., coefficients) as one table a node, (..., *shape of its family)."""
    sizes = np.cumsum([schema.cells(family) for family in schema.families])[:-1]
    parts = np.split(np.asarray(probabilities, dtype=np.float64), sizes, axis=-1)
    lead = np.shape(probabilities)[:-1]
    return tuple(
        part.reshape(*lead, *schema.shape(family)) for part, family in zip(parts, schema.families, strict=True)
    )


def posterior_means(schema: NetworkSchema, tables: Sequence[Floats], concentrations: Sequence[float]) -> Floats:
    """Flat Dirichlet posterior means given tables of nonnegative counts, as if these were exact."""
    means = list[Floats]()
    for table, prior in zip(tables, concentrations, strict=True):
        weights = np.asarray(table, dtype=np.float64) + prior
        means.append((weights / weights.sum(axis=-1, keepdims=True)).reshape(-1))
    return np.concatenate(means)


def class_probabilities(schema: NetworkSchema, probabilities: Floats, node: str, records: AnyIntegers) -> Floats:
    """P(node = level | every other node), (..., rows, levels); a record's own code of the node is ignored."""
    target = schema.names.index(node)
    levels = schema.levels[target]
    tables = tables_of(schema, probabilities)
    total = np.zeros((*np.shape(probabilities)[:-1], len(records), levels))
    with np.errstate(divide="ignore"):
        for table, family in zip(tables, schema.families, strict=True):
            if target in family:
                total += np.log(_by_level(schema, table, family, target, records))
    top = total.max(axis=-1, keepdims=True)
    weights = np.exp(total - np.where(np.isfinite(top), top, 0.0))
    mass = weights.sum(axis=-1, keepdims=True)
    return np.where(mass > 0, weights / np.where(mass > 0, mass, 1.0), 1 / levels)  # impossible record: uniform


def _by_level(schema: NetworkSchema, table: Floats, family: Nodes, target: int, records: AnyIntegers) -> Floats:
    """The family's conditional probability in each record, for each level of the target."""
    flat = table.reshape(*table.shape[: table.ndim - len(family)], -1)
    place = np.zeros((len(records), schema.levels[target]), dtype=np.int64)
    for node in family:
        own = np.arange(schema.levels[target])[None, :] if node == target else records[:, node][:, None]
        place = place * schema.levels[node] + own
    return flat[..., place]


def simulated(schema: NetworkSchema, probabilities: Floats, rows: int, generator: np.random.Generator) -> AnyIntegers:
    """Records drawn from the network of these probabilities."""
    tables, records = tables_of(schema, probabilities), np.zeros((rows, len(schema.nodes)), dtype=np.int64)
    done, waiting = set[int](), list(range(len(schema.nodes)))
    while waiting:
        node = next(node for node in waiting if done.issuperset(schema.parent_places[node]))
        parents = schema.parent_places[node]
        place = reduce(lambda at, parent: at * schema.levels[parent] + records[:, parent], parents, np.zeros(rows, int))
        cumulative = np.cumsum(tables[node].reshape(-1, schema.levels[node]), axis=1)[place]
        aim = generator.random(rows) * cumulative[:, -1]
        records[:, node] = np.minimum((aim[:, None] >= cumulative).sum(axis=1), schema.levels[node] - 1)
        done.add(node)
        waiting.remove(node)
    return records


def accuracy(schema: NetworkSchema, draws: Mapping[str, Floats], node: str, records: AnyIntegers) -> dict[str, float]:
    """How often the likeliest level is right: by mean probabilities, and a 95% interval over single draws."""
    flat = np.stack([draws[name].ravel() for name in schema.coefficients], axis=1)
    few = flat[:: max(1, len(flat) // MOST_DRAWS)]
    target = schema.names.index(node)
    total, hits = np.zeros((len(records), schema.levels[target])), list[float]()
    for draw in few:
        shares = class_probabilities(schema, draw, node, records)
        hits.append(float(np.mean(shares.argmax(axis=-1) == records[:, target])))
        total += shares
    low, high = np.quantile(hits, (0.025, 0.975))
    return {
        "mean": float(np.mean(total.argmax(axis=-1) == records[:, target])),
        "q025": float(low),
        "q975": float(high),
    }
