"""Run the cells of an experiment on Dask; nothing in them is confidential, and a lost worker's cell is repeated."""

from collections.abc import Sequence

from dpbayes_core.experiments.interface import Cell, Row, cell_seeds
from dpbayes_core.experiments.registry import EXPERIMENTS
from tasks.dask import dask_workers
from tasks.progress import report


def evaluate_cells(
    name: str, cells: Sequence[Cell], seed: int, address: str | None, *, data: str | None = None
) -> list[list[Row]]:
    """The rows of each cell that can run, in order; on the cluster at `address`, else on this machine.

    A cell whose public table is neither installed nor in the folder `data` is left out; the seeds of the others do
    not change.
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
    """Run one cell on a worker: a pure function of plain data, which reads a public table on the worker."""
    if "table" not in cell:
        return EXPERIMENTS[name].run(cell, seed)
    from dpbayes.evaluation.public_tables import read_public_table

    return EXPERIMENTS[name].run({**cell, "columns": read_public_table(cell["table"], data)}, seed)


def left_out(cells: Sequence[Cell], data: str | None = None) -> list[str]:
    """Why cells were left out: a sentence for each public table that is not available."""
    return list(dict.fromkeys(reason for cell in cells if (reason := _unavailable(cell, data))))


def _unavailable(cell: Cell, data: str | None) -> str | None:
    if "table" not in cell:
        return None
    from dpbayes.evaluation.public_tables import unavailable

    return unavailable(cell["table"], data)
