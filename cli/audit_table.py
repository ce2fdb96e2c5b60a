"""What an audit found, as people read it."""

from collections.abc import Mapping
from typing import Any

from cli.tables import line, of_whom

Document = Mapping[str, Any]


def audit(document: Document) -> None:
    """Every check, failures in full."""
    if about := _about(document):
        line(f"Audit of {about}.", "bold")
    for notice in document.get("notices", ()):
        line(f"NOTICE: {notice['said']}", "bold red")
    for one in document["checks"]:
        line(f"{'ok  ' if one['ok'] else 'FAIL'}  {one['check']}: {one['detail']}", None if one["ok"] else "bold red")
    if document.get("verdict"):
        line(document["verdict"])
    for unsure in document.get("cannot_tell", ()):
        line(f"One crate cannot tell {unsure}", "yellow")
    if document["ok"]:
        mind = " But read the NOTICE at the top: a crate that nobody altered may have been withdrawn or superseded."
        line(f"The audit passed.{mind if document.get('notices') else ''}", "bold")
    else:
        line(
            "The audit FAILED: something was altered, is missing, or is not vouched for. The lines with FAIL say what.",
            "bold",
        )


def _about(document: Document) -> str:
    """What was audited: a ledger, a crate, or a crate by a ledger."""
    ledger = f"the ledger of {' and '.join(document['accounts'])}" if document.get("accounts") else ""
    if document.get("verdict") is None:
        return ledger
    period = f" for {document['period']} {of_whom(document)}" if document.get("period") else ""
    by = f", by {ledger}" if ledger else ""
    return f"a crate{period}{by}" if period or by else ""
