"""What was tried last of each period of a study: for people, and no evidence of anything, which the ledger is."""

import contextlib
import fcntl
import json
import os
import socket
import threading
from collections.abc import Collection, Generator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from storage.files.durable import make_folder, replace_file

BEAT = 10.0
"""Seconds after which a running attempt touches its file again."""

SILENCE = timedelta(seconds=60)
"""How long a file that nobody touches still counts as that of a living attempt."""

MOST = 1 << 31
"""Above every id of a process."""

RUNNING, DONE, AWAITING_TABLE, DIED, STOPPED = "running", "done", "awaiting-table", "died", "stopped"
"""Outcomes of an attempt; every other outcome is the name of a failure."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What was tried last of a period: by whom, and what came of it. Times are in UTC."""

    study: str
    period: str
    begun: datetime
    ended: datetime | None = None
    host: str
    pid: int
    flow_run_id: str | None = None
    outcome: str = RUNNING
    kind: str | None = None
    exit_code: int | None = None
    message: str | None = None  # a sentence of dpbayes's own
    next_try: datetime | None = None
    tries: int = 1  # how many attempts in a row ended with this outcome
    untold: tuple[str, ...] = ()  # flow runs that died at this period, before Prefect's server could be told
    seen: datetime  # when it last gave a sign of life

    def alive(self, now: datetime) -> bool:
        """Whether somebody is at work on it."""
        return self.outcome == RUNNING and abs(now - self.seen) <= SILENCE and not self._gone()

    def dead(self, now: datetime) -> bool:
        """Whether it says that it is running and nobody is at work on it: its process was killed, or its machine."""
        return self.outcome == RUNNING and not self.alive(now)

    def died(self) -> "Attempt":
        """The same, where it is known to be dead."""
        message = f"The run that began at {minute(self.begun)} on {self.host} (process {self.pid}) died before its end."
        own = () if self.flow_run_id is None else (self.flow_run_id,)
        return replace(self, outcome=DIED, ended=self.seen, message=message, untold=(*self.untold, *own))

    def to_record(self) -> dict[str, Any]:
        """Plain data for JSON documents."""
        return {
            name: value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], seen: datetime) -> "Attempt":
        """The inverse of `to_record`, with the time of the last sign of life."""
        times = ("begun", "ended", "next_try")
        found: dict[str, Any] = {**record, "seen": seen}
        for name in times:
            found[name] = None if record[name] is None else datetime.fromisoformat(record[name])
            if found[name] is not None and found[name].tzinfo is None:
                raise ValueError(f"{name} has no timezone")
        numbers = (found["pid"], found["tries"], 0 if found["exit_code"] is None else found["exit_code"])
        if not all(isinstance(number, int) and 0 <= number < MOST for number in numbers):
            raise ValueError("a number is none, or out of its range")
        found["untold"] = tuple(record.get("untold", ()))
        if not all(isinstance(run, str) for run in found["untold"]):
            raise ValueError("a flow run has no name")
        return cls(**found)

    def _gone(self) -> bool:
        """Whether it was a process of this machine that exists no more."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False  # another user's
        return False


def minute(moment: datetime) -> str:
    """A moment as sentences have it."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


class Attempts:
    """The last attempts at the periods of a study: one file each, for this user alone."""

    def __init__(self, runs: Path, study: str) -> None:
        self._folder = runs / study
        self._study = study

    def read(self) -> dict[str, Attempt]:
        """The last attempt of each period, by the period's name; what cannot be read is as good as none."""
        found: dict[str, Attempt] = {}
        with contextlib.suppress(OSError):
            for path in sorted(self._folder.glob("*.json")):
                if (attempt := self._read(path)) is not None:
                    found[attempt.period] = attempt
        return found

    def begin(self, period: str, now: datetime, flow_run_id: str | None = None) -> "Running | None":
        """A new attempt by this process; None while another one lives."""
        with self._exclusive():
            known = self._read(self._path(period))
            if known is not None and known.alive(now):
                return None
            if known is not None and known.dead(now):
                known = known.died()
            begun = now.replace(microsecond=0)
            attempt = Attempt(
                study=self._study,
                period=period,
                begun=begun,
                host=socket.gethostname(),
                pid=os.getpid(),
                flow_run_id=flow_run_id,
                untold=() if known is None else known.untold,
                seen=now,
            )
            self._write(attempt)
            return Running(self, attempt, known, os.open(self._path(period), os.O_RDONLY))

    def reap(self, now: datetime) -> tuple[Attempt, ...]:
        """Put on record that attempts are dead which say that they are running; these attempts."""
        with self._exclusive():
            dead = [attempt.died() for attempt in self.read().values() if attempt.dead(now)]
            for attempt in dead:
                self._write(attempt)
            return tuple(dead)

    def told(self, runs: Collection[str], now: datetime) -> None:
        """Forget flow runs of whose death the server knows now; an attempt under way forgets them at its end."""
        with self._exclusive():
            for attempt in self.read().values():
                left = tuple(run for run in attempt.untold if run not in runs)
                if left != attempt.untold and not attempt.alive(now):
                    self._write(replace(attempt, untold=left))

    def replace(self, running: Attempt, ended: Attempt) -> None:
        """Put on record how an attempt ended, unless another one took its place meanwhile."""
        with self._exclusive():
            known = self._read(self._path(running.period))
            if known is not None and (known.begun, known.host, known.pid) == (running.begun, running.host, running.pid):
                self._write(ended)

    def _path(self, period: str) -> Path:
        if "/" in period or period.startswith("."):
            raise ValueError("this is no name of a period")
        return self._folder / f"{period}.json"

    def _read(self, path: Path) -> Attempt | None:
        try:
            with path.open("rb") as file:
                seen = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
                attempt = Attempt.from_record(json.load(file), seen)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return attempt if (attempt.study, f"{attempt.period}.json") == (self._study, path.name) else None

    def _write(self, attempt: Attempt) -> None:
        text = json.dumps(attempt.to_record() | {"seen": None}, indent=1, sort_keys=True) + "\n"
        replace_file(self._path(attempt.period), text.encode(), self._folder)

    @contextlib.contextmanager
    def _exclusive(self) -> Generator[None]:
        """Let one process at a time begin or end an attempt of the study; the lock ends with its process."""
        make_folder(self._folder.parent, mode=0o700)
        make_folder(self._folder, mode=0o700)
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


class Running:
    """An attempt of this process: a thread gives signs of life until it ends."""

    def __init__(self, attempts: Attempts, attempt: Attempt, before: Attempt | None, handle: int) -> None:
        self._attempts, self._handle = attempts, handle
        self.attempt = attempt
        self.before = before
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="attempt", daemon=True)
        self._thread.start()

    def end(self, outcome: str, now: datetime, **said: Any) -> Attempt:
        """What came of it: `kind`, `exit_code`, `message` and `next_try`; an attempt that replaced it stays."""
        self._over.set()
        self._thread.join()
        os.close(self._handle)
        ended = replace(self.attempt, outcome=outcome, ended=now, seen=now, tries=self.tries(outcome), **said)
        with contextlib.suppress(OSError):  # a full disk stops no release
            self._attempts.replace(self.attempt, ended)
        return ended

    def told(self, runs: Collection[str]) -> None:
        """Forget flow runs of whose death the server knows now."""
        self.attempt = replace(self.attempt, untold=tuple(run for run in self.attempt.untold if run not in runs))

    def tries(self, outcome: str) -> int:
        """How many attempts in a row have that outcome, this one included."""
        return self.before.tries + 1 if self.before is not None and self.before.outcome == outcome else 1

    def _beat(self) -> None:
        """Touch the file that was written at the beginning, never one that took its name."""
        while not self._over.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(self._handle)
