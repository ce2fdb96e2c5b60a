"""End a command soon after Ctrl-C or SIGTERM, and soon after Prefect's server stops answering, whatever hangs.

Ending it at any moment is safe: each charge, archived file and chain checkpoint is complete or absent.
"""

import atexit
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from dpbayes.markup.visible import visible
from dpbayes_core.errors import DpbayesError
from tasks.surroundings import PREFECT_SILENT, SurroundingsFailed

STOP = 3.5
"""Seconds after a signal until the process is ended if it has not ended by itself."""

SILENT = 40.0
"""Seconds without an answer from Prefect's server after which the command is ended."""

LEAVE = 10.0
"""Seconds that Prefect's threads may take for their last reports after the command's own output."""

POLL = 0.25
CLIENT = os.path.join("prefect", "client", "base.py")

Reporter = Callable[[DpbayesError], None]


class Stopped(DpbayesError):
    """The command was stopped by Ctrl-C or a signal."""

    kind = "stopped"

    def __init__(self) -> None:
        super().__init__()

    def __str__(self) -> str:
        return (
            "cannot go on: stopped by Ctrl-C or a signal. Run the same command again: it goes on from what is kept and "
            "spends nothing twice."
        )


def _report_on_stderr(failure: DpbayesError) -> None:
    """Report a failure that comes before the command's console exists."""
    print(visible(str(failure)), file=sys.stderr)


class _Ending:
    """The state of a thread that watches for signals and for waits on Prefect, and ends the process in time."""

    def __init__(self) -> None:
        self._report: Reporter = _report_on_stderr
        self._report_lock = threading.Lock()
        self._stop_lock = threading.Lock()
        self._failure: DpbayesError = Stopped()
        self._end = float("inf")
        self._code = 1
        self._answered = time.monotonic()

    def set_reporter(self, reporter: Reporter) -> None:
        """Set the function that reports a failure of the command which begins now."""
        self._report, self._report_lock = reporter, threading.Lock()

    def report_stopped(self) -> None:
        """Report that the command was stopped, unless a failure was reported already."""
        if self.claim_report():
            self._report(Stopped())

    def claim_report(self) -> bool:
        """Whether no failure was reported yet; from now on the caller is the one who reports."""
        return self._report_lock.acquire(blocking=False)

    def claim_stop(self) -> bool:
        """Whether nothing stopped the command yet; from now on it counts as being stopped."""
        return self._stop_lock.acquire(blocking=False)

    def end_soon(self, code: int) -> None:
        """All output is written: give the rest of the process `LEAVE` seconds, then end it with this exit code."""
        self.claim_report()
        self._code = code
        self._end = min(self._end, time.monotonic() + LEAVE)
        if self._stop_lock.locked():  # at exit Python no longer handles signals: another one would kill it
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def watch(self, signal_pipe: int) -> None:
        """Watch until the process ends; `signal_pipe` receives the number of each signal."""
        stopped = 0
        while time.monotonic() < self._end:
            if select.select([signal_pipe], [], [], POLL)[0]:
                for number in os.read(signal_pipe, 64):
                    if number in (signal.SIGINT, signal.SIGTERM):
                        logging.disable()  # libraries would log being stopped as their own failure
                        self._end = min(self._end, time.monotonic() + STOP)
                        stopped += number == signal.SIGINT  # Prefect sends a SIGTERM on to itself
            if stopped > 1:
                break
            if not _waits_for_prefect():
                self._answered = time.monotonic()
            elif time.monotonic() - self._answered > SILENT:
                self._failure = SurroundingsFailed(PREFECT_SILENT)
                break
        self._finish()

    def _finish(self) -> NoReturn:
        if self.claim_report():
            last = threading.Thread(target=self._report, args=(self._failure,), daemon=True)
            last.start()
            last.join(1)  # writing may block where nothing reads
        os._exit(self._code)  # workers and servers end with this process


def _waits_for_prefect() -> bool:
    """Whether the main thread is inside Prefect's HTTP client, waiting for the server."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_filename.endswith(CLIENT):
            return True
        frame = frame.f_back
    return False


_ENDING = _Ending()
set_reporter, claim_report = _ENDING.set_reporter, _ENDING.claim_report


@contextmanager
def bounded() -> Generator[None]:
    """Run a command as the whole process: signals stop it, and the process ends within the limits above."""
    signal_pipe, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    threading.Thread(target=_ENDING.watch, args=(signal_pipe,), name="ending", daemon=True).start()
    code = 1
    try:
        yield
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    except KeyboardInterrupt:
        _ENDING.report_stopped()
        raise SystemExit(code) from None
    finally:
        _ENDING.end_soon(code)


def _interrupt(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt at the first signal only; the watching thread handles any later one."""
    if _ENDING.claim_stop():
        raise KeyboardInterrupt
