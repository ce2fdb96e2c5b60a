"""What an evaluation leaves in a folder: one JSON document, a CSV of its table, an SVG of each figure, one page."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpbayes.pages.evaluation.plots import STYLE, box_plot
from dpbayes_core.experiments.interface import Figure

PAGE = Markup(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>'
    "<body><h1>{title}</h1><ul>{notes}</ul><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    "{figures}</body></html>\n"
)


def write_evaluation(folder: Path, document: Mapping[str, Any], figures: Sequence[Figure]) -> list[str]:
    """Write everything into the folder, made where it is missing; the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "results.json": json.dumps(document, ensure_ascii=False, indent=1) + "\n",
        "results.csv": table_text(document),
        **{f"{figure.name}.svg": box_plot(figure) for figure in figures},
        "index.html": _page(document, figures),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return list(texts)


def table_text(document: Mapping[str, Any]) -> str:
    """The table as CSV; a missing number is an empty field."""
    out = io.StringIO()
    writer = csv.DictWriter(out, document["columns"], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(document["rows"])
    return out.getvalue()


def shown(value: Any) -> str:
    """A cell for people; nothing where there is none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _page(document: Mapping[str, Any], figures: Sequence[Figure]) -> str:
    cell = Markup("<td>{}</td>")
    line = Markup("<tr>{}</tr>")
    rows = [
        line.format(Markup("").join(cell.format(shown(row.get(column))) for column in document["columns"]))
        for row in document["rows"]
    ]
    return PAGE.format(
        title=document["title"],
        style=Markup(STYLE),
        notes=Markup("").join(Markup("<li>{}</li>").format(note) for note in document["notes"]),
        head=Markup("").join(Markup("<th>{}</th>").format(column) for column in document["columns"]),
        body=Markup("").join(rows),
        figures=Markup("").join(Markup(box_plot(figure)) for figure in figures),
    )
