"""A Bayesian network: noisy counts of its tables, or noisy signed sums of binary columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.section import PureSection, refused, undeclared
from dpbayes.strict_yaml.fields import Covariates, Shares, Text, refusal
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.regression.schema import Factor
from dpbayes_core.text import shown

if TYPE_CHECKING:
    from dpbayes_core.networks.design import Budget, NetworkDesign
    from dpbayes_core.networks.schema import NetworkSchema

Edges = Mapping[str, tuple[str, ...]]


def network_formula(nodes: Sequence[str], edges: Edges) -> str:
    """Every node, followed by its parents."""
    return ", ".join(f"{node} | {', '.join(edges[node])}" if node in edges else node for node in nodes)


def network_of(context: ReleaseContext, nodes: Sequence[str], edges: Edges) -> "NetworkSchema":
    """The network as dpbayes_core represents it."""
    from dpbayes_core.networks.schema import NetworkSchema

    return NetworkSchema(tuple(_node(context, name) for name in nodes), edges)


def network_problems(context: ReleaseContext, place: Place, nodes: Sequence[str], edges: Edges) -> Iterator[Problem]:
    """Nodes without levels, edges to unknown nodes, cycles, and tables that are too large."""
    found = [*undeclared(context, (*place, "nodes"), nodes), *_without_levels(context, (*place, "nodes"), nodes)]
    found += _unknown_nodes((*place, "edges"), nodes, edges)
    if context.max_rows_per_unit > 1:
        what = "a network counts one row of each person"
        found.append(Problem(("source", "max_rows_per_unit"), what, "Write 1, or leave it out"))
    yield from found
    if not found:
        yield from refused(lambda: network_of(context, nodes, edges), place, {"parents": "edges"})


def _without_levels(context: ReleaseContext, place: Place, nodes: Sequence[str]) -> Iterator[Problem]:
    for index, name in enumerate(nodes):
        if name in context.columns and context.columns[name].levels is None:
            what = f"{shown(name)} has no levels, and a node needs them"
            yield Problem((*place, index), what, "Declare its levels, or leave it out")


def _unknown_nodes(place: Place, nodes: Sequence[str], edges: Edges) -> Iterator[Problem]:
    for child, parents in edges.items():
        for name in (child, *parents):
            if name not in nodes:
                yield Problem((*place, child), f"{shown(name)} is no node", "Add it to nodes, or drop the edge")


class NetworkSpec(PureSection):
    """Noisy tables of a Bayesian network, released once per period and charged to every cap."""

    all_samplers: ClassVar[tuple[str, ...]] = ("collapsed-tables", "family-tables", "naive-tables")

    kind: Literal["bayes-net"] = Field(description="What is released.", examples=["bayes-net"])
    nodes: Covariates = Field(description="Columns with levels, in the order of the results.", examples=["[sex, pay]"])
    edges: dict[Text, Covariates] = Field(
        default_factory=dict[str, tuple[str, ...]],
        description="Parents of each node that has any; no node may be its own ancestor.",
        examples=["{pay: [sex]}"],
    )
    mechanism: Literal["laplace-counts", "fourier"] = Field(
        default="laplace-counts",
        description="laplace-counts: noisy counts of tables; fourier: noisy signed sums of columns with two levels.",
        examples=["laplace-counts"],
    )
    noise: Literal["geometric", "laplace"] = Field(
        default="geometric", description="Law of the noise: whole numbers, or as published.", examples=["geometric"]
    )
    families: Literal["maximal", "all"] = Field(
        default="maximal",
        description="Tables that are released: those that no other contains, which has less noise, or every node's.",
        examples=["maximal"],
    )
    split: Shares = Field(
        default="by-cells",
        description="Shares of epsilon: by the cube root of a table's cells, equal, or one for each node whose table "
        "is released.",
        examples=["equal"],
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.mechanism == "fourier" and (self.families != "maximal" or self.split != "by-cells"):
            raise refusal("fourier releases signed sums, not tables", "Leave families and split out", "mechanism")
        return self

    @property
    def uses(self) -> tuple[str, ...]:
        return self.nodes

    @property
    def formula(self) -> str:
        return network_formula(self.nodes, self.edges)

    def problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        """Problems of the network, and noise that cannot be calibrated."""
        found = list(network_problems(context, place, self.nodes, self.edges))
        yield from found
        if not found:
            yield from refused(lambda: self.design(context), place, {"budget": "split"})

    def definition(self, context: ReleaseContext) -> dict[str, Any]:
        mechanism: dict[str, Any] = {"name": self.mechanism, "noise": self.noise, **self.losses()}
        if self.mechanism == "laplace-counts":
            mechanism |= {"families": self.families, "split": self._budget}
        edges = {node: list(parents) for node, parents in self.edges.items()}
        return {"edges": edges, "kind": self.kind, "mechanism": mechanism, "nodes": list(self.nodes)}

    def design(self, context: ReleaseContext) -> "NetworkDesign":
        from dpbayes_core.networks.design import counts_design, fourier_design

        network, epsilon, neighbours = (
            network_of(context, self.nodes, self.edges),
            float(self.epsilon),
            context.neighbours,
        )
        if self.mechanism == "fourier":
            return fourier_design(network, epsilon=epsilon, neighbours=neighbours, noise=self.noise)
        return counts_design(
            network,
            epsilon=epsilon,
            neighbours=neighbours,
            families=self.families,
            noise=self.noise,
            budget="equal" if self.noise == "laplace" and self.split == "by-cells" else self._budget,
        )

    @property
    def _budget(self) -> "Budget":
        return self.split if isinstance(self.split, str) else dict(self.split)


def _node(context: ReleaseContext, name: str) -> Factor:
    levels = context.columns[name].levels
    assert levels is not None
    return Factor(name, levels)
