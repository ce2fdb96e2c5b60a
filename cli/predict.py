"""Predict: what a published posterior says of public rows; nothing is charged, and nothing but the crate is read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from cli.console import NOT_CONVERGED, Console
from cli.tables import grid, line, number, origins, unconverged
from dpbayes.analyses.predict import predictions, read_posterior, read_rows, stated_row
from dpbayes_core.errors import StudyInvalid

MOST_SHOWN = 40


def run_predict(
    crate: str, rows: Path | None, at: Sequence[str], level: float, keys: Sequence[str] = ()
) -> dict[str, Any]:
    """Predictions for the rows of a file, or for the one row that is stated."""
    if (rows is None) == (not at):
        raise StudyInvalid("cannot predict: there are no rows, or two sources of them. Name a file, or use --at.")
    posterior = read_posterior(crate, keys)
    given = stated_row(at, posterior.schema) if rows is None else read_rows(rows)
    return {"crate": crate, **predictions(posterior, given, level)}


def show_predictions(console: Console, document: Mapping[str, Any]) -> None:
    """Print it; a posterior that did not converge is another exit code, as where it was drawn."""
    console.show(document, _table)
    if document["status"] != "converged":
        raise typer.Exit(NOT_CONVERGED)


def _table(document: Mapping[str, Any]) -> None:
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
