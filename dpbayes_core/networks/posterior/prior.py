"""The prior of a network's conditional probabilities, and of the number of rows where it is not public."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpbayes_core.errors import StudyInvalid


@dataclass(frozen=True, kw_only=True)
class NetworkPrior:
    """Every row of every table is Dirichlet; n, where it is not public, is uniform on 0..most_rows."""

    concentration: float = 1.0  # pseudo-count of each level, in each configuration of the parents
    by_node: Mapping[str, float] = field(default_factory=dict[str, float])  # instead, for the nodes named
    most_rows: int = 1_000_000_000

    def __post_init__(self) -> None:
        for value in (self.concentration, *self.by_node.values()):
            if not (math.isfinite(value) and value > 0):
                raise StudyInvalid("cannot use the prior: a concentration must be a positive number. Give one.")
        if self.most_rows < 1:
            raise StudyInvalid("cannot use the prior: most_rows must be at least 1. Raise it.")

    def concentrations(self, nodes: Sequence[str]) -> tuple[float, ...]:
        """The pseudo-count of each node's levels; a name in `by_node` that is not a node's is refused."""
        if unknown := set(self.by_node) - set(nodes):
            raise StudyInvalid(f"cannot use the prior: {sorted(unknown)[0]} is no node. Name a node of the network.")
        return tuple(float(self.by_node.get(node, self.concentration)) for node in nodes)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {"concentration": self.concentration, "by_node": dict(self.by_node), "most_rows": self.most_rows}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "NetworkPrior":
        """The inverse of `to_record`."""
        return cls(**record)
