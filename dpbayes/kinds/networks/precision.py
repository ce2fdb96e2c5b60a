"""Predicts from public facts and by simulation how useful a network's release will be, before it is charged."""

from typing import Any

import numpy as np

from dpbayes.markup.numbers import short
from dpbayes_core.networks.design import NetworkDesign
from dpbayes_core.networks.schema import NetworkSchema

Pairs = tuple[tuple[str, str], ...]

MOST_ROWS = 20_000  # simulated at most; accuracy changes little beyond
REPEATS, TEST_ROWS = 10, 1_000
SEED = 1
_MOST_TABLES = 12  # listed one by one


def network_foresight(design: NetworkDesign, rows: int) -> Pairs:
    """The noise of cells, the error of tables, and the accuracy on synthetic records."""
    from dpbayes_core.draws.utility import largest_cell_error, table_noise

    tables = sorted(table_noise(design), key=lambda one: -one.expected_table_error)
    pairs = [
        (
            f"Table of {one.node}",
            f"± {short(one.deviation, 3)} people a cell; its {one.cells} cells together off by "
            f"{short(one.expected_table_error, 3)} people, {short(100 * one.expected_table_error / rows, 2)}% of all",
        )
        for one in tables[:_MOST_TABLES]
    ]
    if len(tables) > _MOST_TABLES:
        pairs.append(("Other tables", f"{len(tables) - _MOST_TABLES} with smaller errors"))
    worst = largest_cell_error(design, repeats=400)
    pairs.append(
        ("Worst cell", f"with probability 0.9 no cell of any table is off by more than {short(worst, 3)} people")
    )
    return (*pairs, accuracy(design, design.schema, rows))


def accuracy(design: Any, schema: NetworkSchema, rows: int) -> tuple[str, str]:
    """How well a node is predicted from the others when learnt from the release, and when learnt without privacy."""
    from dpbayes_core.draws.utility import simulated_accuracy

    target = _target(schema)
    found = simulated_accuracy(
        design,
        schema,
        _synthetic_probabilities(schema),
        target,
        rows=min(rows, MOST_ROWS),
        test_rows=TEST_ROWS,
        repeats=REPEATS,
        seed=SEED,
    )
    private, plain = 100 * found.private, 100 * found.without_privacy
    return (
        "Simulated accuracy",
        f"predicting {target} from the rest: {private:.1f}% (± {100 * found.private_error:.1f}) as released, "
        f"{plain:.1f}% without privacy, on {min(rows, MOST_ROWS):,} synthetic records with probabilities drawn from "
        "the prior",
    )


def _target(schema: NetworkSchema) -> str:
    """The node that most others depend on: the class, where there is one."""
    children = {name: sum(name in above for above in schema.parents.values()) for name in schema.names}
    return max(schema.names, key=lambda name: children[name])


def _synthetic_probabilities(schema: NetworkSchema) -> Any:
    """Probabilities from a uniform Dirichlet law, with a fixed seed."""
    generator = np.random.default_rng(SEED)
    parts = [
        generator.dirichlet(np.ones(schema.levels[family[-1]]), size=schema.cells(family[:-1])).ravel()
        for family in schema.families
    ]
    return np.concatenate(parts)
