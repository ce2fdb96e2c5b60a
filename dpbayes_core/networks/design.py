"""Designs of a network's releases: noisy tables (`laplace-counts`), signed sums of binary nodes (`fourier`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpbayes_core.errors import Refusal
from dpbayes_core.networks.release import NetworkRelease, What, released_nodes
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.networks.sensitivity import (
    ADD_REMOVE,
    check_neighbours,
    protected,
    root_above,
    signs_move,
    table_move,
)
from dpbayes_core.networks.tables import ExactTables, FamilyTables
from dpbayes_core.privacy.mechanisms import GeometricMechanism, LaplaceMechanism
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.sensitivity import REPLACE_ONE

Noise = Literal["geometric", "laplace"]
Budget = Literal["by-cells", "equal"] | Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class NetworkDesign:
    """A release of a network's tables or signed sums with noise; use `counts_design` or `fourier_design`."""

    schema: NetworkSchema
    what: What
    mechanism: GeometricMechanism | LaplaceMechanism
    neighbours: str = REPLACE_ONE

    def __post_init__(self) -> None:
        nodes = released_nodes(self.schema, self.what, self.neighbours)
        if not protected(self.schema, nodes, self.what, self.neighbours, self.mechanism):
            raise ValueError("cannot design release: the noise does not cover one record's influence. Enlarge it.")

    def statistic(self) -> FamilyTables:
        """Exact tables of the largest families."""
        return FamilyTables(self.schema)

    def release(self, noise: NoiseSource, exact: ExactTables) -> NetworkRelease:
        """The tables or sums with the mechanism's noise."""
        nodes, statistic = released_nodes(self.schema, self.what, self.neighbours), self.statistic()
        sums = statistic.signs(exact, nodes) if self.what == "signed-sums" else statistic.tables(exact, nodes)
        if isinstance(self.mechanism, GeometricMechanism):
            noisy = self.mechanism.release(noise, sums)
        else:
            noisy = self.mechanism.release(noise, sums.astype(np.float64))  # counts of people are exact doubles
        return NetworkRelease(
            schema=self.schema,
            what=self.what,
            neighbours=self.neighbours,
            rows=None if self.neighbours == ADD_REMOVE else exact.rows,
            mechanism=self.mechanism,
            values=tuple(noisy.tolist()),
        )


def counts_design(
    schema: NetworkSchema,
    *,
    epsilon: float,
    neighbours: str = REPLACE_ONE,
    families: Literal["all", "maximal"] = "maximal",
    noise: Noise = "geometric",
    budget: Budget = "by-cells",
) -> NetworkDesign:
    """Noisy counts of every family, or of the maximal families only, which suffice and need less noise.

    `by-cells` shares epsilon in proportion to the cube root of each table's cells, which minimises the total expected
    squared noise; a mapping states a share for each released node; Laplace noise has equal shares.
    """
    what: What = "all-families" if families == "all" else "maximal-families"
    released, move = released_nodes(schema, what, neighbours), table_move(neighbours)
    sizes = tuple(schema.cells(nodes) for nodes in released)
    if noise == "laplace":
        if budget != "equal":
            raise Refusal("budget", "cannot share out epsilon: Laplace noise has one scale", "Write budget equal")
        mechanism = _laplace(epsilon, sum(sizes), move * len(sizes), 1)
    else:
        owners = [schema.names[nodes[-1]] for nodes in released]
        shares = tuple(_share(budget, owner, size) for owner, size in zip(owners, sizes, strict=True))
        if not isinstance(budget, str) and (unknown := set(budget) - set(owners)):
            problem = f"cannot share out epsilon: {sorted(unknown)[0]} has no released table"
            raise Refusal("budget", problem, "Name the others only")
        mechanism = GeometricMechanism(
            epsilon=epsilon, sizes=sizes, sensitivities=(move,) * len(sizes), largest_move=1, shares=shares
        )
    return NetworkDesign(schema=schema, what=what, mechanism=mechanism, neighbours=neighbours)


def fourier_design(
    schema: NetworkSchema, *, epsilon: float, neighbours: str = REPLACE_ONE, noise: Noise = "geometric"
) -> NetworkDesign:
    """Noisy signed sums of every subset of a family: the tables computed from them have the same common margins."""
    if not schema.binary:
        what = "cannot use fourier: a node does not have two levels"
        raise Refusal("mechanism", what, "Use laplace-counts, or merge levels to two")
    released = released_nodes(schema, "signed-sums", check_neighbours(neighbours))
    move, largest = signs_move(released, neighbours), table_move(neighbours)
    if noise == "laplace":
        mechanism = _laplace(epsilon, len(released), move, largest)
    else:
        mechanism = GeometricMechanism(
            epsilon=epsilon, sizes=(len(released),), sensitivities=(move,), largest_move=largest, shares=(1.0,)
        )
    return NetworkDesign(schema=schema, what="signed-sums", mechanism=mechanism, neighbours=neighbours)


def _laplace(epsilon: float, entries: int, move: int, largest: int) -> LaplaceMechanism:
    """Laplace noise on integers: these need no rounding, so the cost includes none."""
    return LaplaceMechanism(
        epsilon=epsilon, sensitivity=float(move), sensitivity_l2=root_above(move * largest), grid=0, entries=entries
    )


def _share(budget: Budget, owner: str, cells: int) -> float:
    if budget == "equal":
        return 1.0
    if budget == "by-cells":
        return cells ** (1 / 3)
    if isinstance(budget, str) or owner not in budget:
        raise Refusal("budget", f"cannot share out epsilon: {owner} has no share", "Give each released table one")
    return float(budget[owner])
