"""The tables of docs/coverage.md from the measured cells: `python -m tools.coverage_tables` prints them."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from dpbayes.kinds.regression.measured_coverage import cells
from dpbayes_core.experiments import coverage_cells
from dpbayes_core.experiments.coverage import DEFAULT, LAW_OF, OTHER
from dpbayes_core.experiments.coverage_cells import GUESSED
from dpbayes_core.regression.expected_prior import is_expected

Cell = dict[str, Any]

LEAST = 0.93
"""The share of tables in which 95% intervals have to cover a truth, up to two Monte Carlo errors."""


def measured(method: str) -> list[Cell]:
    """The cells of one law; those of the default include priors in units of expected sds."""
    law = LAW_OF[method].to_record()
    return [
        dict(cell) for cell in cells() if cell["prior"] == law or (method == DEFAULT and is_expected(cell["prior"]))
    ]


def fails(cell: Cell, parameter: str) -> bool:
    """Whether the least covered parameter was covered too seldom to be chance."""
    share = cell[parameter]["worst"]
    error = max(math.sqrt(share * (1 - share) / cell["tables"]), 0.5 / cell["tables"])
    return share < LEAST - 2 * error


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables() -> str:
    """The table of all cells of the default law."""
    head = (
        *("covariates", "explained", "rows", "epsilon", "tables", "slopes", "worst", "sigma"),
        *("conjugate: slopes", "sigma", "width", "score", "missed"),
    )
    return table(head, (row(cell) for cell in measured(DEFAULT)))


def row(cell: Cell) -> list[str]:
    """A cell's row: shares covered under the default law and under the other law."""
    name = cell["name"] if cell["mechanism"] == "gaussian" else f"{cell['name']}, {cell['mechanism']} noise"
    slopes, sigma, other = cell["slopes"], cell["sigma"], cell[OTHER]
    return [
        *(name, f"{cell['explained']:g}", f"{cell['rows']:,}", f"{cell['epsilon']:g}", str(cell["tables"])),
        *(share(slopes), f"{slopes['worst']:.2f}{'*' * fails(cell, 'slopes')}"),
        share(sigma) + "*" * fails(cell, "sigma"),
        *(f"{other[parameter]['coverage']:.2f}" for parameter in ("slopes", "sigma")),
        *(f"{slopes[what]:.2f}" for what in ("width", "score")),
        f"{cell['not_converged']:.3f}",
    ]


def share(found: Cell) -> str:
    """A share with its Monte Carlo error."""
    return f"{found['coverage']:.3f} ± {found['error']:.3f}"


def summary() -> str:
    """In how many cells intervals covered every slope and sigma, by how much too wide the bounds were."""
    groups: dict[str, list[Cell]] = {}
    for cell in measured(DEFAULT):
        if not cell["clipped"]:
            groups.setdefault(_group_name(cell), []).append(cell)
    head = ("cells", "of them", "every slope covered", "sigma covered", "slopes", "conjugate", "width", "score")
    return table(head, (_summary_row(name, group) for name, group in groups.items()))


def missing() -> str:
    """How many cells of the command are not measured."""
    count = len(coverage_cells.cells(False))
    return f"{len(measured(DEFAULT))} of the command's {count} cells are measured."


def failing() -> set[str]:
    """The groups of cells in which some slope was covered too seldom."""
    return {_group_name(cell) for cell in measured(DEFAULT) if not cell["clipped"] and fails(cell, "slopes")}


def _group_name(cell: Cell) -> str:
    if "guess" in cell:
        return f"{_bounds(cell)}, expected{GUESSED[cell['guess']]}"
    if cell["covariates"] != "related" or cell["mechanism"] != "gaussian":
        return "other covariates, Laplace noise"
    return _bounds(cell)


def _bounds(cell: Cell) -> str:
    return "bounds fit" if cell["wide"] == 1 else f"{cell['too_wide']} {cell['wide']:g} times too wide"


def _summary_row(name: str, group: Sequence[Cell]) -> list[str]:
    count = len(group)
    covered = [sum(not fails(cell, parameter) for cell in group) for parameter in ("slopes", "sigma")]
    means = [
        sum(cell["slopes"]["coverage"] for cell in group),
        sum(cell[OTHER]["slopes"]["coverage"] for cell in group),
    ]
    widths = [math.exp(sum(math.log(cell["slopes"][what]) for cell in group) / count) for what in ("width", "score")]
    numbers = [*(f"{mean / count:.3f}" for mean in means), *(f"{width:.2f}" for width in widths)]
    return [name, str(count), *map(str, covered), *numbers]


if __name__ == "__main__":
    print(f"{missing()}\n\n{summary()}\n\n{tables()}")
