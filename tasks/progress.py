"""Progress and partial results that tasks and flows report, for a command that listens and a server that shows them.

Progress is a share of the work, never a count of rows. Partial results are shown if a later step fails.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

Listener = Callable[[str, float], None]
Documents = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ChainsSoFar:
    """How far the chains of a posterior are; what is not known yet is None."""

    draws: int  # of each chain, at least
    of: int  # draws of each chain in this round; there may be a further round
    ess: float | None  # smallest effective sample size of anything monitored, bulk or tail
    rhat: float | None  # largest of anything monitored
    seconds_left: float | None  # until enough effective draws are to be expected

    def __str__(self) -> str:
        """The numbers in words, as a progress line shows them."""
        words = [f"{self.draws:,} of {self.of:,} draws"]
        if self.ess is not None and self.rhat is not None:
            words.append(f"ESS {self.ess:,.0f}, R-hat {self.rhat:.3f}")
        if self.seconds_left is not None:
            words.append(f"about {_duration(self.seconds_left)} left")
        return ", ".join(words)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


ChainListener = Callable[[ChainsSoFar], None]

_listeners: list[Listener] = []
_chain_listeners: list[ChainListener] = []


def listen(listener: Listener, chains: ChainListener | None = None) -> None:
    """Send every later report to `listener(step, share done)`, and those of running chains also to `chains`."""
    _listeners[:] = [listener]
    _chain_listeners[:] = [] if chains is None else [chains]


def silence() -> None:
    """Send later reports nowhere."""
    _listeners.clear()
    _chain_listeners.clear()


class Watcher(Protocol):
    """Receives everything that one flow run reports; what it does must raise nothing and return at once."""

    def reported(self, step: str, share: float) -> None:
        """This share of a step is done."""

    def sampled(self, found: ChainsSoFar) -> None:
        """The chains of a posterior are so far."""

    def charged(self, release: str, statuses: Sequence[str]) -> None:
        """A release was charged, at one holder or several."""

    def published(self, releases: Documents) -> None:
        """The crates of a release are written."""

    def analysed(self, analysis: dict[str, Any]) -> None:
        """A posterior is archived."""


_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Generator[None]:
    """Inside the block, `watcher` receives every report, in place of the watchers of blocks around it."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def report_chains(found: ChainsSoFar) -> None:
    """Report how far the chains of a posterior are."""
    for listener in _chain_listeners:
        listener(found)
    for watcher in _watchers[-1:]:
        watcher.sampled(found)


def report(step: str, share: float) -> None:
    """Report that `share` (0 to 1) of `step` is done."""
    for listener in _listeners:
        listener(step, share)
    for watcher in _watchers[-1:]:
        watcher.reported(step, share)


@dataclass
class Done:
    """The documents of releases and analyses done so far, and of charges whose crates are not written yet."""

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
    """Collect what is reported as done inside the block; reports outside of any block are dropped."""
    found = Done()
    _open[:] = [found]
    try:
        yield found
    finally:
        _open.clear()


def charged(release: str, statuses: Sequence[str]) -> None:
    """Report that a release was charged, at one holder or several; its crates are still to be written."""
    for found in _open:
        found.unpublished = [{"release": release, "status": status} for status in dict.fromkeys(statuses)]
    for watcher in _watchers[-1:]:
        watcher.charged(release, statuses)


def published(releases: Documents) -> None:
    """Report that the crates of the charged release are written."""
    for found in _open:
        found.releases += releases
        found.unpublished = []
    for watcher in _watchers[-1:]:
        watcher.published(releases)


def analysed(analysis: dict[str, Any]) -> None:
    """Report that a posterior is archived, now or earlier."""
    for found in _open:
        found.analyses.append(analysis)
    for watcher in _watchers[-1:]:
        watcher.analysed(analysis)
