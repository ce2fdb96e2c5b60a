"""Processes that rival for a ledger, or die in it; run as a program, so that only this one is ever forked."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from dpbayes_core.errors import BudgetExceeded, LedgerMissing
from dpbayes_core.noise import OpenDPNoise
from storage.ledger.ledger import Ledger
from storage.ledger.verify import verify
from tests.storage.ledger_cases import STAMP, VALUES, account, cap, commit, empty_ledger, laplace, request, url


def in_child(work: Callable[[], Any]) -> Iterator[Any]:
    """Start work in a forked process; the first item says it runs, the second is its result, or None if it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as out:
            json.dump(work(), out)
        os._exit(0)
    os.close(writing)
    yield child
    with os.fdopen(reading) as result:
        text = result.read()
    status = os.waitpid(child, 0)[1]
    yield json.loads(text) if os.waitstatus_to_exitcode(status) == 0 else None


def alone(work: Callable[[], Any]) -> Any:
    _, result = in_child(work)
    return result


# --- rivals -----------------------------------------------------------------------------------------------------------


def rivals(folder: Path, processes: int, attempts: int) -> None:
    """Every process asks for releases of its own and, in turn with them, for the same ones as all others."""
    spec = account(cap("4", measure="pure-epsilon"))
    Ledger.create(url(folder), STAMP).dispose()

    def work(number: int) -> list[Any]:
        answers: list[Any] = []
        with Ledger.open(url(folder)) as ledger:
            for attempt in range(attempts):
                name = f"shared-{attempt}" if attempt % 2 else f"own-{number}-{attempt}"
                try:
                    entry = commit(ledger, request(spec, release=name), laplace(0.1))
                    answers.append([name, entry.seq, entry.payload["digest"]])
                except BudgetExceeded:
                    answers.append([name, None, None])
        return answers

    started = [in_child(lambda number=number: work(number)) for number in range(processes)]
    for child in started:
        next(child)
    print(json.dumps([next(child) for child in started]))


# --- deaths -----------------------------------------------------------------------------------------------------------


def die_at(step: int) -> None:
    """Kill this process at a boundary: before or after a statement, before a commit, after a connection's use."""
    seen = 0

    def boundary(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(Engine, name, boundary)
    event.listen(Pool, "checkin", boundary)


def release(folder: Path) -> list[Any]:
    with Ledger.open(url(folder)) as ledger:
        entry = commit(ledger, request(), laplace(0.6))
        return [entry.seq, entry.hash, (entry.release or b"").decode()]


def look(folder: Path) -> dict[str, Any]:
    with Ledger.open(url(folder)) as ledger:
        return {
            "releases": [(e.release or b"").decode() for e in ledger.entries() if e.kind == "charge"],
            "ok": all(check.ok for check in verify(ledger.entries())),
            "entries": ledger.head.seq,
        }


def dying_release(folder: Path, step: int) -> list[Any]:
    die_at(step)
    return release(folder)


def dying_creation(folder: Path, step: int) -> bool:
    die_at(step)
    Ledger.create(url(folder), STAMP).dispose()
    return True


def deaths_in_release(folder: Path) -> Iterator[dict[str, Any]]:
    for step in range(1, 1000):
        place = folder / str(step)
        place.mkdir()
        (place / "ledger.db").write_bytes(empty_ledger())
        finished = alone(lambda place=place, step=step: dying_release(place, step))
        found = alone(lambda place=place: look(place))
        again, after = alone(lambda place=place: ([release(place), release(place)], look(place)))
        yield {"finished": finished is not None, "found": found, "again": again, "after": after}
        if finished is not None:
            return


def deaths_in_creation(folder: Path) -> Iterator[dict[str, Any]]:
    for step in range(1, 1000):
        place = folder / str(step)
        place.mkdir()
        finished = alone(lambda place=place, step=step: dying_creation(place, step))
        try:
            Ledger.open(url(place)).dispose()
            stood = True
        except LedgerMissing:
            stood = False
            Ledger.create(url(place), STAMP).dispose()
        yield {"finished": finished is not None, "stood": stood, "after": look(place)}
        if finished is not None:
            return


def main() -> None:
    laplace(0.1).release(OpenDPNoise(), VALUES)  # load the library before forking
    scenario, folder = sys.argv[1], Path(sys.argv[2])
    if scenario == "rivals":
        rivals(folder, int(sys.argv[3]), int(sys.argv[4]))
    else:
        scenarios = {"release": deaths_in_release, "creation": deaths_in_creation}
        print(json.dumps(list(scenarios[scenario](folder))))


if __name__ == "__main__":
    main()
