"""`dpbayes predict`: predictions of a published posterior for public rows; reads only the crate, charges nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import exit_unless_converged, guarded
from cli.format import Document, grid, line, number, origins, unconverged
from cli.options import AsJson, Debug
from dpbayes.analyses.predict import predictions, read_posterior, read_rows, stated_row
from dpbayes_core.errors import StudyInvalid

MOST_SHOWN = 40
Agency = Annotated[
    list[str] | None,
    typer.Option("--key", help="The fingerprint of the agency you trust: a crate that another key signed is refused."),
]


def predict(
    crate: Annotated[
        str, typer.Argument(help="A posterior's crate: a folder, a zip, or the URL of one.", show_default=False)
    ],
    rows: Annotated[
        Path | None, typer.Argument(help="CSV or Parquet of public rows, one column per covariate.", show_default=False)
    ] = None,
    *,
    at: Annotated[
        list[str] | None, typer.Option(help="One row instead of a file: age=40,female=yes.", show_default=False)
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    key: Agency = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Predict responses and their means for public rows from a published posterior, without study, ledger or data."""
    with guarded(json, debug) as console:
        document = run_predict(crate, rows, at or [], level, key or [])
        console.show(document, show)
        exit_unless_converged([document])


def run_predict(
    crate: str, rows: Path | None, at: Sequence[str], level: float, keys: Sequence[str] = ()
) -> dict[str, Any]:
    """Predictions for the rows of a file, or for the one row given with --at."""
    if (rows is None) == (not at):
        raise StudyInvalid("cannot predict: there are no rows, or two sources of them. Name a file, or use --at.")
    posterior = read_posterior(crate, keys)
    given = stated_row(at, posterior.schema) if rows is None else read_rows(rows)
    return {"crate": crate, **predictions(posterior, given, level)}


def show(document: Document) -> None:
    """Print predictions with their intervals, and the releases behind them."""
    about = f"{document['analysis']} of {document['study']} for {document['period']}"
    if document["status"] == "converged":
        line(
            f"{document['response']} by {about}: converged ({document['sampler']}). Account {document['account']}.",
            "bold",
        )
    else:
        unconverged(f"{document['response']} by {about}, account {document['account']}", document)
    share = f"{100 * document['level']:g}%"
    grid(
        f"  predictions and their {share} intervals: of a response, and of the expected response",
        ("row", "mean", "sd", "low", "high", "sd of mean", "low", "high"),
        [
            (str(row["row"]), *(number(row[key]) for key in ("mean", "sd", "low", "high")), *_expected(row["expected"]))
            for row in document["rows"][:MOST_SHOWN]
        ],
    )
    if (more := len(document["rows"]) - MOST_SHOWN) > 0:
        line(f"  and {more} more: --json has them all")
    for note in document["notes"]:
        line(f"  note: {note}")
    if document["caveat"]:
        line(f"  caveat: {document['caveat']}")
    origins(document)


def _expected(found: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(number(found[key]) for key in ("sd", "low", "high"))
