"""How lines, tables and numbers look to people, and what the screens of several commands have in common."""

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

PLAIN_WIDTH = 160  # where no terminal says otherwise
ADDED_UP = 1.001  # times a cap's limit: within what rounding leaves


class Screen(Console):
    """Where people read: whatever reaches it, no text that others wrote is obeyed or hidden."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is printed, piece by piece; only rich's own pieces drive the terminal."""
        for piece in super().render(renderable, options):
            shown = piece.control or piece.text.isprintable()
            yield piece if shown else Segment(visible(piece.text, keep="\n"), piece.style)


out = Screen(highlight=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
errors = Screen(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def failure(message: str) -> None:
    """An error, on stderr."""
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
    """One line, whatever is in it."""
    out.print(visible(text), style=style, markup=False)


def grid(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> None:
    """A table of names and numbers, none of them cut: columns that have no room stand below, by the names again."""
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
    """Which columns stand beside the first; numbers go on below where the line is full, one of them at least."""
    again = list(range(1, names))
    pieces = [again.copy()]
    for column in range(names, len(widths)):
        wide = widths[0] + sum(2 + widths[other] for other in (*pieces[-1], column))
        if pieces[-1] != again and wide > out.width:
            pieces.append(again.copy())
        pieces[-1].append(column)
    return pieces


def number(value: float | str | None, digits: int = 4) -> str:
    """A number for people; nothing where there is none."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.{digits}g}"


def counted(many: int, thing: str) -> str:
    """How many of a thing there are, as people say it."""
    return f"{many} {thing}{'' if many == 1 else 's'}"


def fixed(value: float | None, places: int) -> str:
    """A number with so many decimals; nothing where there is none."""
    return "-" if value is None else f"{value:.{places}f}"


def of_whom(document: Document) -> str:
    """Which study and account a line is about, as far as the document says."""
    named = [f"{word} {document[word]}" for word in ("study", "account") if document.get(word)]
    return f"({', '.join(named)})"


def known_accounts(names: Sequence[str]) -> str:
    """Which populations a ledger knows."""
    return f"The ledger has accounts of {', '.join(names)}." if names else "There is no account in a ledger here."


def published(document: Document) -> None:
    """What goes out without noise because of the rows that were chosen."""
    if document["public_count"] is not None:
        line(f"  without noise: {document['public_count']}", "yellow")


def silent(document: Document) -> None:
    """Columns of whose missing values the study says nothing."""
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
    """Caps with their limits, what was spent and what remains."""
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
    """What remains: four digits that promise no more than there is."""
    return f"{rounded_down(value).normalize():f}"


def unconverged(what: str, document: Document) -> None:
    """Of chains that have not converged: why, that their numbers are not to be published, and what to do."""
    line(f"{what}: NOT CONVERGED. {why_words(document)} Do not publish these numbers.", "bold red")
    line(f"  {document['advice']}")


def origins(document: Document) -> None:
    """Of what is made from crates: what it stands on, what became of that, and what nobody has checked."""
    for notice in document.get("notices", ()):
        line(f"  NOTICE: {notice['said']}", "bold red")
    for source in document.get("sources", ()):
        holder = "" if source["holder"] is None else f" at {source['holder']}"
        trust = "which you trust" if source["trusted"] else "not checked"
        line(f"  from {source['release']} of {source['period']}{holder}, signed by {source['signed_by']}, {trust}")
    for unsure in document.get("not_verified", ()):
        line(f"  not verified: {unsure}", "yellow")


def shortened(address: str) -> str:
    """Relative to the current folder where that is shorter."""
    path, here = Path(address), Path.cwd()
    return str(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else address
