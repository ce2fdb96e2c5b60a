"""The sensitivity of a network's tables and signed sums; proved in docs/networks.md, tested in tests/laws."""

import math
from fractions import Fraction
from functools import cache

import numpy as np

from dpbayes_core.networks.schema import NetworkSchema, Nodes
from dpbayes_core.privacy.mechanisms import GeometricMechanism, LaplaceMechanism, Mechanism
from dpbayes_core.privacy.mechanisms.noise_law import LAPLACE
from dpbayes_core.privacy.sensitivity import REPLACE_ONE

ADD_REMOVE = "add-remove"
MOST_ENUMERATED = 20  # nodes: a million sets of nodes in which two records can differ


def table_move(neighbours: str) -> int:
    """L1 sensitivity of one table: 2 where a record is replaced (it leaves one cell and enters another), else 1."""
    return 2 if check_neighbours(neighbours) == REPLACE_ONE else 1


def signs_move(sums: tuple[Nodes, ...], neighbours: str) -> int:
    """L1 sensitivity of all signed sums together.

    A record adds 1 or -1 to each. Another record differs in some nodes z, and moves by 2 the sums whose nodes meet z in
    an odd number: the most over z is enumerated for up to 20 nodes, and bounded by all sums but that of no node above.
    """
    if check_neighbours(neighbours) == ADD_REMOVE:
        return len(sums)
    return 2 * most_odd(tuple(nodes for nodes in sums if nodes))


@cache
def most_odd(sums: tuple[Nodes, ...]) -> int:
    """The most of these sets that have an odd intersection with one set of nodes; with many nodes, a bound."""
    used = sorted({node for nodes in sums for node in nodes})
    if len(used) > MOST_ENUMERATED:
        return len(sums)
    place = {node: 1 << bit for bit, node in enumerate(used)}
    signed = np.zeros(1 << len(used), dtype=np.int64)
    for nodes in sums:
        signed[sum(place[node] for node in nodes)] += 1
    return (len(sums) - int(hadamard(signed).min())) // 2  # at z: even less odd


def hadamard(values: np.ndarray) -> np.ndarray:
    """The sums over d of (-1)^<g, d> values[d] for every g, exact on integers; d and g are indices as bits."""
    result, half = values, 1
    while half < len(values):
        pairs = result.reshape(-1, 2, half, *values.shape[1:])
        result = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(values.shape)
        half *= 2
    return result


def check_neighbours(neighbours: str) -> str:
    """The neighbour relation; an unknown one is refused."""
    if neighbours not in (REPLACE_ONE, ADD_REMOVE):
        raise ValueError(
            f"cannot bound a record's influence: neighbours is neither {REPLACE_ONE} nor {ADD_REMOVE}. Choose one."
        )
    return neighbours


def protected(
    schema: NetworkSchema, nodes: tuple[Nodes, ...], what: str, neighbours: str, mechanism: Mechanism
) -> bool:
    """Whether a mechanism's own sensitivities are at least those of these tables or sums."""
    if neighbours not in (REPLACE_ONE, ADD_REMOVE) or not nodes:
        return False
    if what == "signed-sums":
        sizes, moves = (len(nodes),), (signs_move(nodes, neighbours),)
        largest = table_move(neighbours)
    else:
        sizes = tuple(schema.cells(own) for own in nodes)
        moves, largest = (table_move(neighbours),) * len(nodes), 1
    if isinstance(mechanism, GeometricMechanism):
        enough = all(own >= due for own, due in zip(mechanism.sensitivities, moves, strict=False))
        return mechanism.sizes == sizes and enough and mechanism.largest_move >= largest
    if isinstance(mechanism, LaplaceMechanism):
        total = sum(moves)
        enough = mechanism.sensitivity >= total and Fraction(mechanism.sensitivity_l2) ** 2 >= total * largest
        return mechanism.entries == sum(sizes) and mechanism.grid == 0 and enough
    return False


def unread_noise(mechanism: Mechanism) -> str | None:
    """Why samplers of tables cannot take this mechanism's noise, or None for geometric and Laplace noise."""
    if isinstance(mechanism, GeometricMechanism) or mechanism.law is LAPLACE:
        return None
    return "it knows the noise of these mechanisms only: geometric, laplace"


def root_above(square: int) -> float:
    """The smallest double whose square is not below `square`."""
    root = math.sqrt(square)
    return root if Fraction(root) ** 2 >= square else math.nextafter(root, math.inf)
