"""The schema of a Bayesian network: columns with levels, their parents, and the tables of their families."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from dpbayes_core.errors import Refusal
from dpbayes_core.regression.schema import Factor

Nodes = tuple[int, ...]  # indices of nodes in the schema

MOST_CELLS = 2**20  # of one family's table


@dataclass(frozen=True)
class NetworkSchema:
    """Nodes in their declared order, and the parents of each; a node left out of `parents` has none.

    A family is a node's parents, as declared, followed by the node; a table's last node runs fastest.
    """

    nodes: tuple[Factor, ...]
    parents: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))
        names = [node.name for node in self.nodes]
        if not names:
            raise Refusal("nodes", "cannot build network: it has no nodes", "Name at least one column with its levels")
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise Refusal("nodes", f"cannot build network: node {repeated} occurs twice", "Rename or drop one")
        for child, parents in self.parents.items():
            _check_edges(child, parents, names)
        object.__setattr__(self, "parents", {name: tuple(self.parents.get(name, ())) for name in names})
        _refuse_cycle(self.parents)
        for node, family in zip(names, self.families, strict=True):
            if self.cells(family) > MOST_CELLS:
                raise Refusal(
                    "parents",
                    f"cannot build network: the table of {node} has more than {MOST_CELLS} cells",
                    "Give it fewer parents, or fewer levels",
                )

    def __hash__(self) -> int:
        return hash((self.nodes, tuple(self.parents.items())))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(node.name for node in self.nodes)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Each node's number of levels."""
        return tuple(len(node.levels) for node in self.nodes)

    @cached_property
    def parent_places(self) -> tuple[Nodes, ...]:
        """The indices of each node's parents."""
        place = {name: index for index, name in enumerate(self.names)}
        return tuple(tuple(place[parent] for parent in self.parents[name]) for name in self.names)

    @cached_property
    def families(self) -> tuple[Nodes, ...]:
        """Each node's parents and itself, in the order of the nodes."""
        return tuple((*parents, node) for node, parents in enumerate(self.parent_places))

    @cached_property
    def maximal_families(self) -> tuple[Nodes, ...]:
        """The families that no other family contains; in a graph without cycles no two are equal."""
        sets = [frozenset(family) for family in self.families]
        return tuple(family for family, own in zip(self.families, sets, strict=True) if not any(own < s for s in sets))

    @property
    def binary(self) -> bool:
        """Whether every node has two levels."""
        return all(count == 2 for count in self.levels)

    def shape(self, nodes: Nodes) -> tuple[int, ...]:
        """The number of levels of each of these nodes."""
        return tuple(self.levels[node] for node in nodes)

    def cells(self, nodes: Nodes) -> int:
        """How many configurations these nodes have."""
        return prod(self.shape(nodes))

    @cached_property
    def coefficients(self) -> tuple[str, ...]:
        """Names of all conditional probabilities: families in order, a table's last node fastest."""
        return tuple(name for family in self.families for name in self.probabilities(family[-1]))

    def probabilities(self, node: int) -> tuple[str, ...]:
        """Names of one node's conditional probabilities, P(child=level | parent=level, ...)."""
        *parents, child = (self.nodes[place] for place in self.families[node])
        return tuple(
            _name(child, level, parents, condition)
            for *condition, level in product(*(factor.levels for factor in (*parents, child)))
        )

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "nodes": [node.to_record() for node in self.nodes],
            "parents": {name: list(parents) for name, parents in self.parents.items()},
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "NetworkSchema":
        """The inverse of `to_record`."""
        return cls(
            tuple(Factor(node["name"], tuple(node["levels"])) for node in record["nodes"]),
            {name: tuple(parents) for name, parents in record["parents"].items()},
        )


def _name(child: Factor, level: str, parents: Sequence[Factor], condition: Sequence[str]) -> str:
    given = ", ".join(f"{parent.name}={value}" for parent, value in zip(parents, condition, strict=True))
    return f"P({child.name}={level} | {given})" if given else f"P({child.name}={level})"


def _check_edges(child: str, parents: Sequence[str], names: Sequence[str]) -> None:
    if unknown := next((name for name in (child, *parents) if name not in names), None):
        what = f"cannot build network: an edge names {unknown}, which is no node"
        raise Refusal("parents", what, "Declare it with levels")
    if len(set(parents)) < len(parents):
        raise Refusal("parents", f"cannot build network: a parent of {child} is named twice", "Name each once")


def _refuse_cycle(parents: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a cycle: remove nodes whose parents are all removed until no node is left."""
    waiting = dict(parents)
    while waiting:
        free = [name for name, above in waiting.items() if not any(parent in waiting for parent in above)]
        if not free:
            what = f"cannot build network: {', '.join(waiting)} stand on a cycle or below one"
            raise Refusal("parents", what, "Turn or drop an edge")
        for name in free:
            del waiting[name]
