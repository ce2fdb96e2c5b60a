"""Networks drawn from their prior, their records counted, and the noisy sums that a release would publish."""

from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.networks.posterior.evidence import Evidence
from dpbayes_core.networks.release import NoisySign, NoisyTable
from dpbayes_core.networks.schema import Nodes


@dataclass(frozen=True)
class Shape:
    """A network: levels and parents of each node, parents before their children."""

    levels: tuple[int, ...]
    parents: tuple[Nodes, ...]

    @property
    def families(self) -> tuple[Nodes, ...]:
        return tuple((*parents, node) for node, parents in enumerate(self.parents))

    def shape(self, nodes: Nodes) -> tuple[int, ...]:
        return tuple(self.levels[node] for node in nodes)


CLASS_AND_CHILD = Shape((2, 3), ((), (0,)))
CHAIN = Shape((2, 3, 2), ((), (0,), (1,)))
COLLIDER = Shape((2, 3, 2), ((), (), (0, 1)))
DIAMOND = Shape((2, 2, 2, 2), ((), (0,), (0,), (1, 2)))
FIVE = Shape((2, 4, 3, 2, 2), ((), (0,), (0,), (2,), (1,)))
BINARY_TREE = Shape((2,) * 5, ((), (0,), (0,), (1,), (1,)))


def naive_bayes(features: int, levels: int = 2) -> Shape:
    return Shape((2,) + (levels,) * features, ((),) + ((0,),) * features)


def truths(shape: Shape, generator: np.random.Generator, concentration: float = 1.0) -> list[Floats]:
    """Every node's conditional probabilities from the prior, of shape (parents' levels..., levels)."""
    return [
        generator.dirichlet(np.full(shape.levels[node], concentration), size=shape.shape(shape.parents[node]))
        for node in range(len(shape.levels))
    ]


def records(shape: Shape, tables: list[Floats], rows: int, generator: np.random.Generator) -> Integers:
    """Records drawn from the network, (rows, nodes)."""
    found = np.zeros((rows, len(shape.levels)), dtype=np.int64)
    for node, parents in enumerate(shape.parents):
        running = np.cumsum(tables[node][tuple(found[:, parent] for parent in parents)], axis=-1)
        aims = generator.random(rows)
        found[:, node] = (aims[:, None] > np.broadcast_to(running, (rows, shape.levels[node]))[:, :-1]).sum(axis=1)
    return found


def counts(shape: Shape, found: Integers, nodes: Nodes) -> Floats:
    """How many records have each configuration of the nodes, the last fastest."""
    place = np.zeros(len(found), dtype=np.int64)
    for node in nodes:
        place = place * shape.levels[node] + found[:, node]
    return np.bincount(place, minlength=int(np.prod(shape.shape(nodes)))).astype(np.float64)


def sign_sets(shape: Shape) -> list[Nodes]:
    """Every subset of a family but the empty one, once."""
    inside = chain.from_iterable(
        combinations(sorted(family), size) for family in shape.families for size in range(1, len(family) + 1)
    )
    return sorted(set(inside))


def geometric(scale: float, size: int, generator: np.random.Generator) -> Floats:
    """Integer noise of probability proportional to exp(-|k| / scale)."""
    stop = -np.expm1(-1.0 / scale)
    return (generator.geometric(stop, size) - generator.geometric(stop, size)).astype(np.float64)


@dataclass(frozen=True)
class Noise:
    """Geometric, laplace or fourier noise at this epsilon, drawn at `wrong` times the stated scale."""

    law: str
    epsilon: float
    wrong: float = 1.0
    public_rows: bool = True

    def scale(self, entries: int) -> float:
        """The stated scale for sums that a replaced record moves by 2, or an added one by 1."""
        return (2.0 if self.public_rows else 1.0) * entries / self.epsilon

    def draw(self, scale: float, size: int, generator: np.random.Generator) -> Floats:
        if self.law == "laplace":
            return generator.laplace(0.0, scale * self.wrong, size)
        return geometric(scale * self.wrong, size, generator)


def released(shape: Shape, found: Integers, noise: Noise, generator: np.random.Generator) -> Evidence:
    """The evidence of a release of these records."""
    rows = len(found) if noise.public_rows else None
    if noise.law == "fourier":
        sets = sign_sets(shape) if noise.public_rows else [(), *sign_sets(shape)]
        scale = noise.scale(len(sets))
        sums = [float((1 - 2 * (found[:, list(nodes)].sum(axis=1) % 2)).sum()) for nodes in sets]
        noisy = np.array(sums) + noise.draw(scale, len(sets), generator)
        signs = tuple(NoisySign(nodes, float(value), scale) for nodes, value in zip(sets, noisy, strict=True))
        return Evidence(levels=shape.levels, parents=shape.parents, rows=rows, signs=signs)
    scale = noise.scale(len(shape.families))
    exact = [counts(shape, found, family) for family in shape.families]
    tables = tuple(
        NoisyTable(family, (table + noise.draw(scale, len(table), generator)).reshape(shape.shape(family)), scale)
        for family, table in zip(shape.families, exact, strict=True)
    )
    return Evidence(levels=shape.levels, parents=shape.parents, rows=rows, tables=tables)
