"""Where tasks and flows say how far they are and what they have done; silent unless a command listens.

Shares of work, never a count of rows. What was done is kept so that a failure in the middle leaves it to be shown.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Listener = Callable[[str, float], None]

_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Send every later report to `listener(step, share done)`."""
    _listeners[:] = [listener]


def silence() -> None:
    """Send later reports nowhere."""
    _listeners.clear()


def report(step: str, share: float) -> None:
    """Say that `share` (0 to 1) of `step` is done."""
    for listener in _listeners:
        listener(step, share)


Documents = list[dict[str, Any]]


@dataclass
class Done:
    """Releases and analyses as a person is told of them, and what was charged while its crate is not written yet."""

    releases: Documents = field(default_factory=list)
    analyses: Documents = field(default_factory=list)
    unpublished: Documents = field(default_factory=list)

    def to_record(self) -> dict[str, Documents]:
        """Plain data for JSON documents."""
        found = {"releases": list(self.releases), "analyses": list(self.analyses)}
        return found | ({"unpublished": list(self.unpublished)} if self.unpublished else {})


_open: list[Done] = []


@contextmanager
def collected() -> Generator[Done]:
    """What is done inside the block, as it is done; what is told outside of one goes nowhere."""
    found = Done()
    _open[:] = [found]
    try:
        yield found
    finally:
        _open.clear()


def charged(release: str, statuses: Sequence[str]) -> None:
    """A release stands in the ledger, at one holder or several; its crates are still to be written."""
    for found in _open:
        found.unpublished = [{"release": release, "status": status} for status in dict.fromkeys(statuses)]


def published(releases: Documents) -> None:
    """The crates of what was charged are written."""
    for found in _open:
        found.releases += releases
        found.unpublished = []


def analysed(analysis: dict[str, Any]) -> None:
    """A posterior is archived, or was found so."""
    for found in _open:
        found.analyses.append(analysis)
