"""How lines, tables and numbers are printed, and the lines that several commands share."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from dpbayes.markup.convergence_advice import why_words
from dpbayes.markup.visible import visible
from storage.ledger.cap_document import measure_words, rounded_down

Document = Mapping[str, Any]

PLAIN_WIDTH = 160  # columns, where there is no terminal
ADDED_UP = 1.001  # times a cap's limit: a larger sum of spent and remaining is not due to rounding


class Screen(Console):
    """A terminal console that makes control characters in any text visible instead of sending them."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments to print; only rich's own control segments reach the terminal as they are."""
        for piece in super().render(renderable, options):
            shown = piece.control or piece.text.isprintable()
            yield piece if shown else Segment(visible(piece.text, keep="\n"), piece.style)


out = Screen(highlight=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
errors = Screen(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def failure(message: str) -> None:
    """Print an error on stderr."""
    errors.print(visible(message), style="red", markup=False)


def progress_bar() -> Progress:
    """Bars on stderr that vanish when the work is done."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=errors, transient=True)


def line(text: str, style: str | None = None) -> None:
    """Print one line, without reading markup in it."""
    out.print(visible(text), style=style, markup=False)


def grid(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> None:
    """Print a table without cutting any cell: columns that do not fit follow below, with the name columns repeated."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headers, *rows, strict=True)]
    if title:
        line(title, "bold")
    for piece in _pieces(widths, names):
        for number, row in enumerate((headers, *rows)):
            spaces = [" " * (width - cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
            cells = (row[0] + spaces[0], *(spaces[column] + row[column] for column in piece))
            line("  ".join(cells).rstrip(), None if number else "bold")


def _pieces(widths: Sequence[int], names: int) -> list[list[int]]:
    """The columns after the first in each part of a table that is too wide for one line; at least one number each."""
    name_columns = list(range(1, names))
    pieces = [name_columns.copy()]
    for column in range(names, len(widths)):
        wide = widths[0] + sum(2 + widths[other] for other in (*pieces[-1], column))
        if pieces[-1] != name_columns and wide > out.width:
            pieces.append(name_columns.copy())
        pieces[-1].append(column)
    return pieces


def number(value: float | str | None, digits: int = 4) -> str:
    """A number of so many significant digits; a dash for None."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.{digits}g}"


def counted(many: int, thing: str) -> str:
    """A count with its noun, in the plural unless it is 1."""
    return f"{many} {thing}{'' if many == 1 else 's'}"


def fixed(value: float | None, places: int) -> str:
    """A number with so many decimals; a dash for None."""
    return "-" if value is None else f"{value:.{places}f}"


def study_and_account(document: Document) -> str:
    """The study and account of a document in parentheses, as far as it names them."""
    named = [f"{word} {document[word]}" for word in ("study", "account") if document.get(word)]
    return f"({', '.join(named)})"


def known_accounts(names: Sequence[str]) -> str:
    """A sentence naming the accounts in the ledger."""
    return f"The ledger has accounts of {', '.join(names)}." if names else "There is no account in a ledger here."


def public_count_note(document: Document) -> None:
    """Print the count that is published without noise because of how rows are selected, if there is one."""
    if document["public_count"] is not None:
        line(f"  without noise: {document['public_count']}", "yellow")


def missing_values_note(document: Document) -> None:
    """Print which columns' missing values the study does not declare, if any."""
    if document["missing"] is not None:
        line(f"  missing values: {document['missing']}", "yellow")


def cost(record: Document) -> str:
    """A cost in every measure that applies."""
    parts = [f"rho {number(record['rho'])}"]
    if record["epsilon"] is not None:
        of = (
            f"(epsilon, delta) = ({number(record['epsilon'])}, {number(record['delta'])})"
            if record["delta"]
            else f"epsilon {number(record['epsilon'])}"
        )
        parts.insert(0, of)
    return ", ".join(parts)


def caps(title: str, rows: Sequence[Document]) -> None:
    """Print caps with their limits, what was spent and what remains."""
    grid(
        title,
        ("cap", "period", "limit", "spent", "remaining"),
        [
            (cap["cap"], cap["period"] or "", measured(cap), number(cap["spent"]), remaining(cap["remaining"]))
            for cap in rows
        ],
        names=2,
    )
    if any((cap["spent"] or 0) + cap["remaining"] > ADDED_UP * cap["limit"] for cap in rows):
        line("  spent and remaining do not add up: several releases together cost less than the sum of their epsilons")


def measured(cap: Document) -> str:
    """A cap's limit in its own measure."""
    return measure_words(cap["measure"], number(cap["limit"]), f"{cap['delta']:g}" if cap["delta"] else "")


def remaining(value: float) -> str:
    """What remains of a cap, in four digits rounded down."""
    return f"{rounded_down(value).normalize():f}"


def unconverged(what: str, document: Document) -> None:
    """Print why chains have not converged, that their numbers are not to be published, and what to do."""
    line(f"{what}: NOT CONVERGED. {why_words(document)} Do not publish these numbers.", "bold red")
    line(f"  {document['advice']}")


def origins(document: Document) -> None:
    """Print the releases that a result is computed from, notices about them, and what was not verified."""
    for notice in document.get("notices", ()):
        line(f"  NOTICE: {notice['said']}", "bold red")
    for source in document.get("sources", ()):
        holder = "" if source["holder"] is None else f" at {source['holder']}"
        trust = "which you trust" if source["trusted"] else "not checked"
        line(f"  from {source['release']} of {source['period']}{holder}, signed by {source['signed_by']}, {trust}")
    for unsure in document.get("not_verified", ()):
        line(f"  not verified: {unsure}", "yellow")


def shortened(address: str) -> str:
    """A path relative to the current folder if it is inside it; any other address unchanged."""
    path, here = Path(address), Path.cwd()
    return str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else address
