"""Family tables computed from a release: released, summed or transformed back; clipping; the bump of signed sums.

The noise remains in these tables. The noise-aware posterior accounts for it.
"""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.networks.release import NetworkRelease, released_nodes
from dpbayes_core.networks.schema import NetworkSchema, Nodes
from dpbayes_core.networks.sensitivity import hadamard, unread_noise
from dpbayes_core.networks.tables import margin
from dpbayes_core.privacy.mechanisms import GeometricMechanism, Mechanism


def family_tables(release: NetworkRelease, *, bump: float = 0.0) -> tuple[Floats, ...]:
    """The noisy, unclipped table of each node's family, in the order of the nodes.

    `bump` is added to the signed sum of no node. The table of a family that was not released itself is the mean over
    all released tables that contain it.
    """
    if release.what == "signed-sums":
        sums = {frozenset(sign.nodes): sign.value for sign in release.signs}
        if release.rows is not None:
            sums[frozenset()] = float(release.rows)
        sums[frozenset()] += bump
        return tuple(from_signs(sums, family) for family in release.schema.families)
    tables, found = release.tables, list[Floats]()
    for family in release.schema.families:
        chosen = [tables[place] for place in sources(release.nodes, family)]
        found.append(np.mean([margin(table.counts, table.nodes, family) for table in chosen], axis=0))
    return tuple(found)


def sources(released: tuple[Nodes, ...], family: Nodes) -> list[int]:
    """Indices of the released tables that give a family's table: its own, else all that contain it."""
    own = [place for place, nodes in enumerate(released) if set(nodes) == set(family)]
    return own or [place for place, nodes in enumerate(released) if set(family) < set(nodes)]


def from_signs(sums: dict[frozenset[int], float], nodes: Nodes) -> Floats:
    """C_d = 2^-|nodes| sum over g of s_g (-1)^<g, d>: the table of binary nodes whose signed sums these are."""
    signed = np.array([sums[subset] for subset in _subsets(nodes)])
    return (hadamard(signed) / len(signed)).reshape((2,) * len(nodes))


def _subsets(nodes: Nodes) -> list[frozenset[int]]:
    """Every subset of the nodes, in the order of their table's cells: the last node is the lowest bit."""
    size = len(nodes)
    return [
        frozenset(node for place, node in enumerate(nodes) if bits >> (size - 1 - place) & 1) for bits in range(2**size)
    ]


def clipped(tables: tuple[Floats, ...], rows: int | None) -> tuple[Floats, ...]:
    """The tables with every cell clipped to between 0 and the public number of rows."""
    return tuple(np.clip(table, 0.0, np.inf if rows is None else rows) for table in tables)


def noise_bump(
    schema: NetworkSchema,
    mechanism: Mechanism,
    neighbours: str,
    *,
    quantile: float = 0.9,
    repeats: int = 4000,
    seed: int = 1,
) -> float:
    """The addition to the signed sum of no node after which noise makes no cell negative, with some probability.

    That probability is `quantile`, simulated from the mechanism's public law: no data are read.
    """
    if not 0 < quantile < 1 or repeats < 1:
        raise ValueError("cannot find a bump: quantile or repeats is out of range. Use a quantile inside (0, 1).")
    released = released_nodes(schema, "signed-sums", neighbours)
    noise = _simulated(mechanism, repeats, np.random.default_rng(seed))
    by_set = {frozenset(nodes): noise[:, place] for place, nodes in enumerate(released)}
    by_set.setdefault(frozenset(), np.zeros(repeats))
    worst = np.zeros(repeats)
    for family in schema.maximal_families:
        for signed in hadamard(np.stack([by_set[subset] for subset in _subsets(family)])):
            np.maximum(worst, -signed, out=worst)  # 2^|family| times a cell's noise
    return float(np.quantile(worst, quantile))


def _simulated(mechanism: Mechanism, repeats: int, generator: np.random.Generator) -> Floats:
    """Simulated noise, for planning only; never added to data."""
    shape = (repeats, len(mechanism.scales))
    if isinstance(mechanism, GeometricMechanism):
        up, down = (np.floor(mechanism.scales * generator.standard_exponential(shape)) for _ in range(2))
        return up - down
    if refused := unread_noise(mechanism):
        raise ValueError(f"cannot simulate {mechanism.name} noise: {refused}. Release with one of them.")
    return mechanism.scales * generator.laplace(size=shape)


def rows_of(release: NetworkRelease) -> float:
    """The number of rows: public, or the release's noisy estimate."""
    if release.rows is not None:
        return float(release.rows)
    if release.what == "signed-sums":
        return next(sign.value for sign in release.signs if not sign.nodes)
    totals = np.array([table.counts.sum() for table in release.tables])
    weights = 1 / np.array([table.counts.size * table.scale**2 for table in release.tables])
    return float(totals @ weights / weights.sum())
