"""What is tried of a period is on record in the home while it is tried, and afterwards with what came of it."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dpbayes.calendar.states import FAILURES
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError
from storage.home.attempts import AWAITING_TABLE, DONE, STOPPED, Attempt, Attempts, Running
from storage.home.home import Home
from tasks.prefect_server import has_server_of_users
from tasks.server_runs import OF_A_WORKER, crash
from tasks.surroundings import known

AGAIN = timedelta(hours=1)
"""How long after a failure a scheduled run tries the same period again, at most; people may at any time."""

SOON = timedelta(minutes=1)
"""How long after a first failure of something around dpbayes, such as a server, which may be back soon."""


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def attempts_of(study: Study) -> Attempts:
    """What was tried last of each period of a study."""
    return Attempts(Home.find(study.path).runs, study.study)


@dataclass
class Trial:
    """An attempt under way, and what came of it; `begun` is False where another one lives, which is left alone."""

    begun: bool
    _ending: dict[str, Any] = field(default_factory=lambda: {"outcome": DONE})

    def awaits_table(self, missing: DpbayesError, retry: timedelta) -> None:
        """There is no table yet, which is looked for again."""
        said = {"kind": missing.kind, "exit_code": missing.exit_code, "message": str(missing)}
        self._ending = {"outcome": AWAITING_TABLE, "next_try": now() + retry, **said}

    def failed(self, error: BaseException) -> None:
        """It came to this end."""
        if not isinstance(error, Exception):
            self._ending = {"outcome": STOPPED, "message": "The run was stopped before its end."}
            return
        failure = foreseen(error)
        state, _ = FAILURES.get(failure.exit_code, FAILURES[1])
        said = {"kind": failure.kind, "exit_code": failure.exit_code, "message": str(failure)}
        self._ending = {"outcome": state, **said}

    def end(self, running: Running) -> None:
        """Put on record how it ended, and when a failure is tried again."""
        if code := self._ending.get("exit_code"):
            tries = running.tries(self._ending["outcome"])
            self._ending = {"next_try": now() + pause_after(code, tries)} | self._ending
        running.end(now=now(), **self._ending)


def pause_after(exit_code: int, tries: int) -> timedelta:
    """How long to wait after so many failures in a row: what only a person can mend is not tried again soon."""
    return min(AGAIN, SOON * 2 ** min(tries - 1, 10)) if exit_code == 1 else AGAIN


class Unforeseen(DpbayesError):
    """A failure that nobody foresaw: only its type is said."""

    kind = "unforeseen"

    def __str__(self) -> str:
        return f"cannot go on: an unforeseen {self.args[0]}. Run the same period by hand with --debug, and report it."


def foreseen(error: Exception) -> DpbayesError:
    """A failure in a sentence of dpbayes's own."""
    return known(error) or Unforeseen(type(error).__name__)


_BEFORE: dict[tuple[str, str], Attempt | None] = {}


def attempt_before(study: str, period: str) -> Attempt | None:
    """The attempt before the one that this process began last at a period; None if there is none on record."""
    return _BEFORE.get((study, period))


def _tell_of_the_dead(attempts: Attempts, running: Running | None) -> None:
    """Let the user's Prefect server know which runs died; what it does not hear is told by a later attempt."""
    dead = {run: one.message for one in attempts.read().values() for run in one.untold}
    if dead and has_server_of_users():
        with suppress(Exception):  # the server is away
            crash(dead)
            attempts.told(dead, now())
            if running is not None:
                running.told(dead)


@contextmanager
def tried(study: Study, period: str) -> Generator[Trial]:
    """An attempt at a period, on record from now on until the block ends, after those that died; no record stops it."""
    begun, running = True, None
    with suppress(OSError):
        attempts = attempts_of(study)
        attempts.reap(now())
        running = attempts.begin(period, now(), os.environ.get(OF_A_WORKER))
        begun = running is not None
        _tell_of_the_dead(attempts, running)
        if running is not None:
            _BEFORE[study.study, period] = running.before
    trial = Trial(begun)
    try:
        yield trial
    except BaseException as error:
        trial.failed(error)
        raise
    finally:
        if running is not None:
            trial.end(running)
