"""How a command ends: soon after Ctrl-C or SIGTERM, and without long waits for Prefect, whatever hangs.

A command may be cut off at any moment: what is charged, archived or kept of a chain is whole or absent.
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
"""Seconds from a signal until a command is ended that does not end by itself."""

SILENT = 40.0
"""Seconds that a command waits for Prefect's server at a stretch."""

LEAVE = 10.0
"""Seconds that Prefect's threads may take for their last reports when everything is said."""

POLL = 0.25
CLIENT = os.path.join("prefect", "client", "base.py")

Say = Callable[[DpbayesError], None]


class Stopped(DpbayesError):
    """Somebody ended the command."""

    kind = "stopped"

    def __init__(self) -> None:
        super().__init__()

    def __str__(self) -> str:
        return (
            "cannot go on: stopped by Ctrl-C or a signal. Run the same command again: it goes on from what is kept and "
            "spends nothing twice."
        )


def _say_on_stderr(failure: DpbayesError) -> None:
    """The last words before a command has begun."""
    print(visible(str(failure)), file=sys.stderr)


class _Ending:
    """A thread that sees signals and the main thread's waits, and ends the process when its time is over."""

    def __init__(self) -> None:
        self._say: Say = _say_on_stderr
        self._speaking = threading.Lock()
        self._stopping = threading.Lock()
        self._failure: DpbayesError = Stopped()
        self._end = float("inf")
        self._code = 1
        self._answered = time.monotonic()

    def let_speak(self, say: Say) -> None:
        """Who says the last words of the command that begins, should it come to that."""
        self._say, self._speaking = say, threading.Lock()

    def stopped(self) -> None:
        """Say that somebody stopped what no command had begun to speak for."""
        if self.speaks():
            self._say(Stopped())

    def speaks(self) -> bool:
        """Whether the caller is the first who has something to say of a failure."""
        return self._speaking.acquire(blocking=False)

    def stops(self) -> bool:
        """Whether the caller is the first who stops the command."""
        return self._stopping.acquire(blocking=False)

    def leave(self, code: int) -> None:
        """Everything is said: what is left may take a while, but not for ever."""
        self.speaks()
        self._code = code
        self._end = min(self._end, time.monotonic() + LEAVE)
        if self._stopping.locked():  # at the very end Python hears no more signals, and would die of another
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def watch(self, wakes: int) -> None:
        """Until the process ends."""
        stopped = 0
        while time.monotonic() < self._end:
            if select.select([wakes], [], [], POLL)[0]:
                for number in os.read(wakes, 64):
                    if number in (signal.SIGINT, signal.SIGTERM):
                        logging.disable()  # what libraries log of being stopped is no failure of theirs or ours
                        self._end = min(self._end, time.monotonic() + STOP)
                        stopped += number == signal.SIGINT  # Prefect sends a SIGTERM on to itself
            if stopped > 1:
                break
            if not _asks_prefect():
                self._answered = time.monotonic()
            elif time.monotonic() - self._answered > SILENT:
                self._failure = SurroundingsFailed(PREFECT_SILENT)
                break
        self._finish()

    def _finish(self) -> NoReturn:
        if self.speaks():
            last = threading.Thread(target=self._say, args=(self._failure,), daemon=True)
            last.start()
            last.join(1)  # nobody may be reading
        os._exit(self._code)  # workers and servers end with this process


def _asks_prefect() -> bool:
    """Whether the main thread is waiting for an answer of Prefect's server."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_filename.endswith(CLIENT):
            return True
        frame = frame.f_back
    return False


_ENDING = _Ending()
let_speak, speaks = _ENDING.let_speak, _ENDING.speaks


@contextmanager
def bounded() -> Generator[None]:
    """A command of its own process: signals stop it, and nothing keeps it."""
    wakes, wakened = os.pipe()
    os.set_blocking(wakened, False)
    signal.set_wakeup_fd(wakened, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    threading.Thread(target=_ENDING.watch, args=(wakes,), name="ending", daemon=True).start()
    code = 1
    try:
        yield
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    except KeyboardInterrupt:
        _ENDING.stopped()
        raise SystemExit(code) from None
    finally:
        _ENDING.leave(code)


def _interrupt(number: int, frame: Any) -> None:
    """Stop what is under way, once: while that comes to its end the thread alone listens."""
    if _ENDING.stops():
        raise KeyboardInterrupt
