"""Run the cells of an experiment on Dask: nothing in them is confidential, so what a lost worker did is done again."""

from collections.abc import Sequence

from dpbayes_core.experiments.interface import Cell, Row, cell_seeds
from dpbayes_core.experiments.registry import EXPERIMENTS
from tasks.dask import dask_workers
from tasks.progress import report


def evaluate_cells(
    name: str, cells: Sequence[Cell], seed: int, address: str | None, *, data: str | None = None
) -> list[list[Row]]:
    """The rows of each cell, in the order of the cells; the cluster at `address`, else one on this machine.

    A cell whose public table is neither installed nor in the folder `data` has no rows; the others have the same with
    it and without.
    """
    seeds = cell_seeds(seed, len(cells))
    chosen = [(dict(cell), own) for cell, own in zip(cells, seeds, strict=True) if not _unavailable(cell, data)]
    report("evaluating", 0.0)
    with dask_workers(address, None, kept="it begins from the start") as workers:
        for number, (cell, own) in enumerate(chosen):
            workers.submit(number, run_cell, name, cell, own, data)
        ended: dict[int, list[Row]] = {}
        for number, rows in workers.finished():
            ended[number] = rows
            report("evaluating", len(ended) / len(chosen))
    return [ended[number] for number in range(len(chosen))]


def run_cell(name: str, cell: Cell, seed: int, data: str | None = None) -> list[Row]:
    """What a worker does: pure, by the experiment's name, so that nothing but plain data travels.

    A public table is read where the cell runs.
    """
    if "table" not in cell:
        return EXPERIMENTS[name].run(cell, seed)
    from dpbayes.evaluation.public_tables import read_public_table

    return EXPERIMENTS[name].run({**cell, "columns": read_public_table(cell["table"], data)}, seed)


def left_out(cells: Sequence[Cell], data: str | None = None) -> list[str]:
    """Why some cells have no rows: a sentence for each public table that is not at hand."""
    return list(dict.fromkeys(reason for cell in cells if (reason := _unavailable(cell, data))))


def _unavailable(cell: Cell, data: str | None) -> str | None:
    if "table" not in cell:
        return None
    from dpbayes.evaluation.public_tables import unavailable

    return unavailable(cell["table"], data)
