"""Small networks for tests."""

from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.regression.schema import Factor

NAMES = "abcdefghijklmnopqrstuvwxyz"


def network(levels: tuple[int, ...], **parents: str) -> NetworkSchema:
    """Nodes a, b, c, ... of so many levels; `b="a"` makes a a parent of b."""
    nodes = tuple(
        Factor(NAMES[place], tuple(f"l{code}" for code in range(count))) for place, count in enumerate(levels)
    )
    return NetworkSchema(nodes, {child: tuple(above) for child, above in parents.items()})


def naive_bayes(features: int, levels: int = 2) -> NetworkSchema:
    """A class of two levels and features that depend on nothing else."""
    nodes = [Factor("class", ("no", "yes"))]
    nodes += [Factor(f"x{i}", tuple(f"l{code}" for code in range(levels))) for i in range(features)]
    return NetworkSchema(tuple(nodes), {f"x{i}": ("class",) for i in range(features)})
