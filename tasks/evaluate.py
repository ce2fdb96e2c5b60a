"""Run the cells of an experiment on Dask: nothing in them is confidential, so what a lost worker did is done again."""

import logging
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from distributed import Client, LocalCluster, as_completed

from dpbayes_core.experiments.interface import Cell, Row, cell_seeds
from dpbayes_core.experiments.registry import EXPERIMENTS
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
    with _cluster(address) as client:
        futures = [client.submit(run_cell, name, cell, own, data, pure=False) for cell, own in chosen]
        for done, _ in enumerate(as_completed(futures), start=1):
            report("evaluating", done / len(futures))
        return [future.result() for future in futures]


def run_cell(name: str, cell: Cell, seed: int, data: str | None = None) -> list[Row]:
    """What a worker does: pure, by the experiment's name, so that nothing but plain data travels.

    A public table is read where the cell runs.
    """
    if "table" not in cell:
        return EXPERIMENTS[name].run(cell, seed)
    from storage.public_tables import read_public_table

    return EXPERIMENTS[name].run({**cell, "columns": read_public_table(cell["table"], data)}, seed)


def left_out(cells: Sequence[Cell], data: str | None = None) -> list[str]:
    """Why some cells have no rows: a sentence for each public table that is not at hand."""
    return list(dict.fromkeys(reason for cell in cells if (reason := _unavailable(cell, data))))


def _unavailable(cell: Cell, data: str | None) -> str | None:
    if "table" not in cell:
        return None
    from storage.public_tables import unavailable

    return unavailable(cell["table"], data)


@contextmanager
def _cluster(address: str | None) -> Generator[Client]:
    if address is not None:
        with Client(address) as client:
            yield client
        return
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            processes=True,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            local_directory=folder,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
