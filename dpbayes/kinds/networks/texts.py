"""Texts for a Bayesian network."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.networks.precision import network_foresight
from dpbayes.kinds.texts import Declared, Graph, Group, Record, Texts
from dpbayes.markup.numbers import listed, short
from dpbayes_core.networks.design import NetworkDesign
from dpbayes_core.networks.marginals import family_tables
from dpbayes_core.networks.release import NetworkRelease
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.privacy.mechanisms import MECHANISMS
from dpbayes_core.regression.schema import Factor

MOST_NAMED = 6  # nodes in a title


class NetworkTexts(Texts):
    """Texts for noisy tables or signed sums, and for the posterior of every conditional probability."""

    what = "noisy sums of the tables of a Bayesian network"
    parameter = "Probability"
    parameters = "Probabilities"
    units = "on the scale from 0 to 1"

    def lines(self, release: NetworkRelease) -> list[dict[str, Any]]:
        """One line for each cell or signed sum: its nodes, its value and the scale of its noise."""
        scales: list[float] = release.mechanism.scales.tolist()
        return [
            {"nodes": nodes, "cell": cell, "value": float(value), "scale": scale}
            for (nodes, cell), value, scale in zip(_cells(release), release.values, scales, strict=True)
        ]

    def product(self, release: NetworkRelease) -> str:
        what = "signed sums" if release.what == "signed-sums" else "tables"
        return f"Noisy {what} of a Bayesian network of {', '.join(release.schema.names)}"

    def declared(self, release: NetworkRelease) -> tuple[Declared, ...]:
        return declared_nodes(release.schema)

    def applied(self, record: Record) -> str:
        mechanism = record["mechanism"]
        noise = MECHANISMS[mechanism["name"]].words
        return f"{noise} on exact counts of people, of a total epsilon of {mechanism['epsilon']!r}."

    def foresight(self, design: NetworkDesign, rows: int) -> tuple[tuple[str, str], ...]:
        return network_foresight(design, rows)

    def title(self, release: NetworkRelease) -> str:
        return _network_title(release.schema)

    def lede(self, release: NetworkRelease) -> str:
        return "The conditional probabilities of a Bayesian network"

    def model(self, release: NetworkRelease) -> str:
        return network_model(release.schema)

    def prior(self, prior: Record) -> str:
        named = "".join(f", {node} {short(value)}" for node, value in prior["by_node"].items())
        return f"Dirichlet, each level with a pseudo-count of {short(prior['concentration'])}{named}"

    def meanings(self, release: NetworkRelease) -> Mapping[str, str]:
        """The noisy count behind each probability."""
        counts = [table.ravel().tolist() for table in family_tables(release)]
        cells = [count for table in counts for count in table]
        return {name: f"noisy count {round(n):,}" for name, n in zip(release.schema.coefficients, cells, strict=True)}

    def groups(self, release: NetworkRelease, names: Sequence[str]) -> tuple[Group, ...]:
        return node_groups(release.schema)

    def reading(self, release: NetworkRelease) -> str:
        return "Each line is the probability of a level of a node, given the levels of its parents. "

    def noise(self, release: NetworkRelease, counted: Counted) -> tuple[str, ...]:
        low, high = float(release.mechanism.scales.min()), float(release.mechanism.scales.max())
        scales = short(high) if low == high else f"between {short(low)} and {short(high)}"
        what = "signed sums of records" if release.what == "signed-sums" else "counts of people"
        said = (
            f"What was released are {len(release.values)} {what}. The noise of each has a scale of {scales}: a "
            "standard deviation of about 1.4 times that."
        )
        rare = (
            "A probability given a rare combination of parents rests on few people, so the same noise makes it much "
            "less certain than one given a common combination."
        )
        return (said, rare)

    def noise_size(self, release: NetworkRelease) -> tuple[str, str, str]:
        what = "a signed sum" if release.what == "signed-sums" else "a count"
        return f"Noise on {what}", f"± {short(float(release.mechanism.deviations.max()), 2)}", "people"

    def noise_pairs(self, release: NetworkRelease) -> tuple[tuple[str, str], ...]:
        mechanism = release.mechanism
        return (
            ("Mechanism", f"{mechanism.words}, drawn independently for each number"),
            ("Sensitivity", f"{short(mechanism.sensitivity)} in L1, the most that a neighbour can move all numbers"),
            ("Scale", ", ".join(short(scale) for scale in sorted(set(mechanism.scales.tolist())))),
        )

    def graphs(self, release: NetworkRelease) -> tuple[Graph, ...]:
        return (graph_of(release.schema),)

    def caveats(self, release: NetworkRelease) -> tuple[str, ...]:
        return (
            "Edges were declared, not learnt. Levels outside the declared ones count as the level declared for them.",
        )


def declared_nodes(schema: NetworkSchema) -> tuple[Declared, ...]:
    """Every node with its levels and its parents."""
    return tuple(_declared(node, schema) for node in schema.nodes)


def _network_title(schema: NetworkSchema) -> str:
    """A title that names the nodes."""
    names, more = schema.names, len(schema.names) - MOST_NAMED
    return f"A network of {listed(names if more < 2 else [*names[:MOST_NAMED], f'{more} more'])}"


def network_model(schema: NetworkSchema) -> str:
    """Every node with its parents, as a sentence."""
    families = (f"{name} given {listed(above)}" if above else name for name, above in schema.parents.items())
    return "; ".join(families)


def node_groups(schema: NetworkSchema) -> tuple[Group, ...]:
    """One group for each node: its probabilities on one axis."""
    return tuple(
        Group(
            name,
            f"given {listed(above)}" if above else "without parents",
            schema.probabilities(place),
            True,
            True,
            _labels(schema, place),
        )
        for place, (name, above) in enumerate(schema.parents.items())
    )


def _labels(schema: NetworkSchema, node: int) -> tuple[str, ...]:
    """A level, followed by the levels of the parents."""
    *parents, child = (schema.nodes[place].levels for place in schema.families[node])
    return tuple(f"{level} | {', '.join(given)}" if given else level for *given, level in product(*parents, child))


def graph_of(schema: NetworkSchema) -> Graph:
    """The picture of nodes and edges."""
    edges = tuple((parent, child) for child, above in schema.parents.items() for parent in above)
    return Graph("The network", "Arrows lead from parents to children, as declared.", schema.names, edges)


def _declared(node: Factor, schema: NetworkSchema) -> Declared:
    above = schema.parents[node.name]
    return Declared(node.name, "node", ", ".join(node.levels), f"given {listed(above)}" if above else "without parents")


def _cells(release: NetworkRelease) -> Iterator[tuple[str, str]]:
    """The nodes and the cell of every released value."""
    schema = release.schema
    for nodes in release.nodes:
        names = ", ".join(schema.names[node] for node in nodes)
        if release.what == "signed-sums":
            yield names, "signed sum"
            continue
        for levels in product(*(schema.nodes[node].levels for node in nodes)):
            yield names, ", ".join(f"{schema.names[n]}={level}" for n, level in zip(nodes, levels, strict=True))


NETWORK = NetworkTexts()
