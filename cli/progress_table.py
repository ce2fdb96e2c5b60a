"""What came of several periods, and what to do where one of them failed."""

from collections.abc import Iterator, Mapping
from typing import Any

from cli import analysis_table, tables

Document = Mapping[str, Any]


def run(document: Document) -> None:
    """Every period that was tried, in order: its release, then its analyses, or what was done before it failed."""
    for one in document.get("runs", [document]):
        tables.release(one)
        unpublished(one)
        analysis_table.analyse(one)
        if "error" in one and "runs" in document:
            tables.line(f"{one['period']} {tables.of_whom(document)}: FAILED ({one['error']['kind']}).", "bold red")


def release(document: Document) -> None:
    """What was released before another release failed."""
    tables.release(document)
    unpublished(document)


def unpublished(document: Document) -> None:
    """Charged and stored, while the crate is still to be written."""
    for one in document.get("unpublished", ()):
        how = "Charged and stored" if one["status"] == "released" else "Stored since an earlier run"
        whose = f"{one['release']} for {document['period']} {tables.of_whom(document)}"
        tables.line(f"{how}: {whose}. Its crate is not written yet.", "bold")


def sentences(done: Document, message: str) -> Iterator[str]:
    """What is said of a failure on stderr: of each period that failed, what is safe, and how to go on."""
    failed = [one for one in done.get("runs", ()) if "error" in one]
    if failed:
        yield from (f"{one['period']}: {one['error']['message']}" for one in failed)
    else:
        yield message
    tried = done.get("runs", [done])
    if any(one.get("releases") or one.get("unpublished") for one in tried):
        yield "What is shown as released is charged and stored: the same command again shows it and spends nothing."
    if left := done.get("not_tried"):
        names = left[0] if len(left) == 1 else f"{left[0]} to {left[-1]}"
        yield f"Not tried: {names}. Run the same command again, or with --keep-going to try them whatever fails."
