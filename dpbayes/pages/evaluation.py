"""Writes an evaluation to a folder: a JSON document, a CSV of its table, an SVG of each figure, and one page."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpbayes.markup import svg
from dpbayes.markup.svg import line, tag, text
from dpbayes_core.experiments.interface import Box, Figure, Panel

PANEL, HEIGHT, LEFT, TOP, BOTTOM = 300, 220, 56, 58, 54  # px
_TICKS = 4

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "table{border-collapse:collapse;font-size:13px;margin:1rem 0;display:block;overflow-x:auto}"
    "td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #ddd}"
    "td:nth-child(5),th:nth-child(5){text-align:left}svg{max-width:100%;height:auto;margin:1rem 0}"
)
_LOOK = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#e4e4e4}.whisker{stroke:#2b5c8a}.box{fill:#cfe0f0;stroke:#2b5c8a}"
    ".middle{stroke:#2b5c8a;stroke-width:2}.truth{fill:#c2410c}"
)


PAGE = Markup(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>'
    "<body><h1>{title}</h1><ul>{notes}</ul><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    "{figures}</body></html>\n"
)


def write_evaluation(folder: Path, document: Mapping[str, Any], figures: Sequence[Figure]) -> list[str]:
    """Write every file into the folder, which is made if missing; returns the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "results.json": json.dumps(document, ensure_ascii=False, indent=1) + "\n",
        "results.csv": table_text(document),
        **{f"{figure.name}.svg": box_plot(figure) for figure in figures},
        "index.html": _page(document, figures),
    }
    for name, content in texts.items():
        (folder / name).write_text(content, encoding="utf-8")
    return list(texts)


def table_text(document: Mapping[str, Any]) -> str:
    """The table as CSV; a missing number is an empty field."""
    out = io.StringIO()
    writer = csv.DictWriter(out, document["columns"], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(document["rows"])
    return out.getvalue()


def shown(value: Any) -> str:
    """A cell as text; a dash if it is empty."""
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
        style=Markup(_STYLE),
        notes=Markup("").join(Markup("<li>{}</li>").format(note) for note in document["notes"]),
        head=Markup("").join(Markup("<th>{}</th>").format(column) for column in document["columns"]),
        body=Markup("").join(rows),
        figures=Markup("").join(Markup(box_plot(figure)) for figure in figures),
    )


def box_plot(figure: Figure) -> str:
    """The panels side by side on one vertical axis."""
    width = LEFT + max(PANEL * len(figure.panels), 9 * len(figure.title)) + 8  # a letter of the title is 9 wide at most
    look = tag("style", Markup(_LOOK)), tag("text", figure.title, class_="title", x=LEFT, y=20)
    panels = [_panel(panel, figure, LEFT + PANEL * place) for place, panel in enumerate(figure.panels)]
    height = TOP + HEIGHT + BOTTOM
    size: Mapping[str, int | str] = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    body = [*look, _axis(figure, width), *panels]
    return f"{svg.figure(figure.name, figure.title, figure.words, body, kind=None, **size)}\n"


def _axis(figure: Figure, width: int) -> Markup:
    low, high = figure.limits
    lines: list[Markup] = []
    for tick in range(_TICKS + 1):
        value = low + (high - low) * tick / _TICKS
        y = _height(value, figure)
        lines += [line("grid", LEFT, y, width - 8, y), text(f"{value:g}", LEFT - 6, y + 4, "end")]
    turned = f"translate(14 {TOP + HEIGHT / 2}) rotate(-90)"
    return Markup("").join([*lines, tag("text", figure.axis, transform=turned, text_anchor="middle")])


def _panel(panel: Panel, figure: Figure, left: int) -> Markup:
    room = (PANEL - 16) / max(len(panel.boxes), 1)
    boxes = [_box(box, figure, left + 8 + room * (place + 0.5), room) for place, box in enumerate(panel.boxes)]
    return Markup("").join([text(panel.title, left + PANEL / 2, TOP - 12, "middle"), *boxes])


def _box(box: Box, figure: Figure, x: float, room: float) -> Markup:
    lowest, low, middle, high, highest = (_height(value, figure) for value in box.quantiles)
    half, turned = room * 0.32, f"translate({_n(x + 4)} {TOP + HEIGHT + 12}) rotate(-45)"
    parts = [
        line("whisker", _n(x), _n(lowest), _n(x), _n(highest)),
        tag("rect", class_="box", x=_n(x - half), y=high, width=_n(2 * half), height=_n(low - high)),
        line("middle", _n(x - half), _n(middle), _n(x + half), _n(middle)),
        tag("text", box.place, transform=turned, text_anchor="end"),
    ]
    if box.truth is not None:
        parts.append(tag("circle", class_="truth", cx=_n(x), cy=_height(box.truth, figure), r=3))
    return Markup("").join(parts)


def _height(value: float, figure: Figure) -> float:
    low, high = figure.limits
    share = (min(max(value, low), high) - low) / (high - low)
    return round(TOP + HEIGHT * (1 - share), 2)


def _n(value: float) -> float:
    return round(value, 2)
