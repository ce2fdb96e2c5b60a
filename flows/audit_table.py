"""What an audit found, as people read it."""

from collections.abc import Mapping
from typing import Any

from flows.tables import line

Document = Mapping[str, Any]


def audit(document: Document) -> None:
    """Every check, failures in full."""
    for one in document["checks"]:
        line(f"{'ok  ' if one['ok'] else 'FAIL'}  {one['check']}: {one['detail']}", None if one["ok"] else "bold red")
    if document["ok"]:
        line("The audit passed.", "bold")
    else:
        line(
            "The audit FAILED: something was altered, is missing, or is not vouched for. The lines with FAIL say what.",
            "bold",
        )
