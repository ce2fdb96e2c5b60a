"""Puts up the notices of a flow run: on the Prefect server of the user, and as JSON lines on stderr.

A server that a command started for itself gets none, since nobody looks at it. A notice that cannot be put up is
dropped: it never stops or delays the work.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Protocol

from prefect.runtime import flow_run

from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.ledger.periods import Period
from tasks import progress
from tasks.attempt import attempt_before, foreseen
from tasks.notices import (
    ENDED_STEPS,
    SHOWN_STEPS,
    Notice,
    Subject,
    analysed_notice,
    charged_notice,
    failed_notice,
    released_notice,
    step_notice,
)
from tasks.prefect_server import has_server_of_users
from tasks.run_names import DUE, PREVIOUS, last_completed
from tasks.surroundings import known

LOG = "DPBAYES_LOG"
"""The environment variable that asks for JSON lines: `json`."""

PAUSE = 2.0
"""Seconds between two shares of a step that are shown."""


class Board(Protocol):
    """A place where notices are put up."""

    def put(self, notice: Notice) -> None:
        """Put up a notice."""

    def show(self, subject: Subject, step: str, share: float, said: str) -> None:
        """Show how far a step is, with what is said of it so far."""


class JsonLines:
    """One JSON document a line on stderr, for programs that collect logs."""

    def put(self, notice: Notice) -> None:
        """Write a line."""
        about = {"time": datetime.now(UTC).isoformat(), "level": logging.getLevelName(notice.level)}
        print(json.dumps({**about, "event": notice.event, **notice.to_record()}), file=sys.stderr, flush=True)

    def show(self, subject: Subject, step: str, share: float, said: str) -> None:
        """Nothing: a line for each share would be noise."""


class Announcer:
    """Makes a notice of whatever one flow run reports, and puts it on every board."""

    def __init__(self, subject: Subject, boards: Sequence[Board]) -> None:
        self.subject, self._boards = subject, boards
        self._step = self._said = ""
        self._share = self._shown = 0.0

    def reported(self, step: str, share: float) -> None:
        """A step begins, or is further than before."""
        if step in ENDED_STEPS:
            return
        with suppress(Exception):
            begins = step != self._step
            if begins:
                self._step, self._said = step, ""
                self._put(step_notice(self.subject, step))
            self._show(share, at_once=begins)

    def sampled(self, found: progress.ChainsSoFar) -> None:
        """Chains are so far."""
        with suppress(Exception):
            self._said = str(found)
            self._show(self._share, at_once=False)

    def _show(self, share: float, *, at_once: bool) -> None:
        """Show how far the present step is, now or where the last time is long enough ago."""
        self._share, now = share, time.monotonic()
        if self._step in SHOWN_STEPS and (at_once or share >= 1 or now - self._shown >= PAUSE):
            self._shown = now
            for board in self._boards:
                board.show(self.subject, self._step, share, self._said)

    def charged(self, release: str, statuses: Sequence[str]) -> None:
        """A release was charged, now or earlier."""
        with suppress(Exception):
            self._put(charged_notice(self.subject, release, statuses))

    def published(self, releases: Sequence[dict[str, Any]]) -> None:
        """The crates of a release are written."""
        with suppress(Exception):
            for document in releases:
                self._put(released_notice(self.subject, document))

    def analysed(self, analysis: dict[str, Any]) -> None:
        """A posterior is archived, now or earlier."""
        with suppress(Exception):
            self._put(analysed_notice(self.subject, analysis))

    def failed(self, error: Exception) -> None:
        """Something failed; a flow around it that fails by the same error says nothing more."""
        with suppress(Exception):
            if not getattr(error, "announced", False):
                mark_announced(error)
                failure = foreseen(error)
                before = attempt_before(self.subject.study, self.subject.period)
                repeated = before is not None and before.message == str(failure)
                self._put(failed_notice(self.subject, failure, repeated=repeated))

    def _put(self, notice: Notice) -> None:
        for board in self._boards:
            board.put(notice)


def mark_announced(error: Exception) -> None:
    """Have no flow around it announce the error again."""
    error.announced = True  # type: ignore[attr-defined]


_open: list[Announcer] = []


@contextmanager
def announced() -> Generator[None]:
    """Announce what the present flow run reports inside the block, and its failure, which is raised in our own words.

    Flows that it calls for the same period announce with it. A run over several periods leaves each of them to the
    flow that it calls for it.
    """
    with ExitStack() as stack:
        if not _open or _open[-1].subject.period in ("", DUE):
            _open_announcer(stack)
        try:
            yield
        except Exception as error:
            _open[-1].failed(error)
            failure = known(error)
            if failure is None or failure is error:
                raise
            mark_announced(failure)
            raise failure from None


def announce_failure(study: Study, period: str, failure: Exception) -> None:
    """Announce the failure of a period for which no flow run of its own began, unless it was announced."""
    with ExitStack() as stack:
        subject = Subject(study.study, study.population, period)
        Announcer(subject, _boards(stack)).failed(failure)


def _open_announcer(stack: ExitStack) -> None:
    """Announce the present flow run until `stack` ends; one without a valid study or period announces nothing."""
    subject = _subject()
    _wants_json_lines()  # refuses another value before anything is done
    boards = [] if subject is None else _boards(stack)
    announcer = Announcer(subject or Subject("", "", ""), boards)
    _open.append(announcer)
    stack.callback(_open.remove, announcer)
    stack.enter_context(progress.watched(announcer))


def _wants_json_lines() -> bool:
    """Whether DPBAYES_LOG asks for JSON lines."""
    asked = os.environ.get(LOG, "")
    if asked not in ("", "json"):
        raise StudyInvalid(f"cannot log as {LOG} says: it knows json alone. Set it to json, or unset it.")
    return bool(asked)


def _boards(stack: ExitStack) -> list[Board]:
    """Where notices of this process are put up, until `stack` ends."""
    boards: list[Board] = [JsonLines()] if _wants_json_lines() else []
    if has_server_of_users():
        from tasks.prefect_board import PrefectBoard

        boards.append(stack.enter_context(PrefectBoard.open()))
    return boards


def _subject() -> Subject | None:
    """The study and period of the present flow run; None for a run without a valid study and period."""
    given = flow_run.parameters
    if "study" not in given:
        return None
    try:
        study = load_study(given["study"])
        asked = given["period"]
        period = last_completed(study) if asked == PREVIOUS else asked
        if period != DUE:
            Period.parse(period, study.period.grain)
        return Subject(study.study, study.population, period)
    except DpbayesError:
        return None
