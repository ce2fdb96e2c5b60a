"""`dpbayes evaluate`: the papers' experiments on synthetic data and public tables, without study or ledger."""

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import guarded
from cli.format import Document, grid, line
from cli.options import AsJson, Debug
from dpbayes_core.errors import StudyInvalid


def evaluate(
    name: Annotated[
        str, typer.Argument(help="subsample, networks, coverage, pools, cirrhosis or distributed.", show_default=False)
    ],
    *,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="A folder for JSON, CSV, plots and a page.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A folder of public tables; by default DPBAYES_EVALUATION_DATA.", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few repetitions, for a first impression only.")] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run the papers' experiments and the calibration studies on public and synthetic tables; uses no ledger."""
    with guarded(json, debug) as console:
        with console.progress():
            document = run_evaluation(name, seed, quick=quick, out=out, data=data)
        console.show(document, show)


def run_evaluation(name: str, seed: int, *, quick: bool, out: Path | None, data: Path | None = None) -> dict[str, Any]:
    """Run every cell on Dask (DPBAYES_DASK, else this machine); with `out` also write tables and plots there.

    Public tables that come in no package are files in `data`, else in the folder DPBAYES_EVALUATION_DATA.
    """
    from dpbayes_core.experiments.registry import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise StudyInvalid(f"cannot evaluate {name}: there is no such experiment. Choose one of {_known()}.")
    if seed < 0:
        raise StudyInvalid(f"cannot evaluate with seed {seed}: it is negative. Give zero or more.")
    from tasks.evaluate import evaluate_cells, left_out

    experiment, start = EXPERIMENTS[name], time.monotonic()
    cells = experiment.cells(quick)
    named = data or os.environ.get("DPBAYES_EVALUATION_DATA")
    folder = str(Path(named).absolute()) if named else None
    found = evaluate_cells(name, cells, seed, os.environ.get("DPBAYES_DASK") or None, data=folder)
    rows = [dict(row) for cell in found for row in cell]
    document: dict[str, Any] = {
        "experiment": name,
        "title": experiment.title,
        "seed": seed,
        "quick": quick,
        "columns": list(experiment.columns),
        "rows": rows,
        "notes": [*experiment.notes, *left_out(cells, folder)],
    }
    if out is not None:
        from dpbayes.pages.evaluation import write_evaluation

        document["files"] = write_evaluation(out, document, experiment.figures(rows))
    return {**document, "seconds": round(time.monotonic() - start, 1)}


def show(document: Document) -> None:
    """Print the table of results and its notes."""
    from dpbayes.pages.evaluation import shown

    columns = ["method", *(column for column in document["columns"] if column != "method")]
    grid(document["title"], columns, [[shown(row.get(column)) for column in columns] for row in document["rows"]])
    line("")
    for note in document["notes"]:
        line(note)
    if "files" in document:
        line(f"Written: {len(document['files'])} files; open index.html.")


def _known() -> str:
    from dpbayes_core.experiments.registry import EXPERIMENTS

    return ", ".join(EXPERIMENTS)
