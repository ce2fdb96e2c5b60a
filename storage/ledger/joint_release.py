"""Releases of several holders: which of them stand, and where all are made at once or none is."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpbayes_core.errors import StudyInvalid
from storage.ledger.accounts import opened
from storage.ledger.charging import look_ahead, matching
from storage.ledger.entries import Entry
from storage.ledger.request import Request
from storage.ledger.store import Page


@dataclass(frozen=True)
class Answer:
    """The entry that stands under a request's name, and whether this very commit wrote it."""

    entry: Entry
    made: bool


def answers(page: Page, requests: Sequence[Request]) -> tuple[Entry | None, ...]:
    """What stands of one release at these holders; refused where it must be all of them and is not.

    The rows of a person who moves are bounded over all holders, by one pass over one table. A release put together
    from two passes could hold more rows of that person than the charge is for.
    """
    for request in requests:
        look_ahead(page, request)
    found = [page.find(request.key) for request in requests]
    stored = tuple(
        None if entry is None else matching(page, entry, request)
        for request, entry in zip(requests, found, strict=True)
    )
    together = _together(page, requests)
    if together and {request.holder for request in requests} != set(together):
        raise StudyInvalid(
            f"cannot release {requests[0].name}: where people move, all holders are released together. "
            f"Ask for {', '.join(together)}."
        )
    if together and len({entry is None for entry in stored}) > 1:
        made = ", ".join(entry.payload["holder"] for entry in stored if entry is not None)
        raise StudyInvalid(
            f"cannot complete {requests[0].release} of {requests[0].period}, released at {made} only: where people "
            "move, all holders are released together. Give the next --revision and --reason."
        )
    return stored


def _together(page: Page, requests: Sequence[Request]) -> tuple[str, ...]:
    """The holders that this release is made for at once, by what the account knows; none where each is by itself."""
    if any(request.holder is None for request in requests):
        return ()
    account = requests[0].account
    return (opened(page, account.population) or account).released_together
