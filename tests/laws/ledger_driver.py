"""Processes that rival for a ledger, or die in it; run as a program, so that only this one is ever forked."""

import itertools
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from dpbayes_core.errors import BudgetExceeded, LedgerMissing
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.ledger import raw_sql
from storage.ledger.charging import Answer
from storage.ledger.ledger import Ledger
from storage.ledger.request import AccountSpec, HolderSpec, Request
from storage.ledger.verify import verify
from tests.support.accounts import open_where_missing
from tests.support.ledger_cases import (
    EXACT,
    STAMP,
    account,
    cap,
    coming,
    commit,
    design,
    empty_ledger,
    laplace,
    moving,
    request,
    url,
)

NUMBERS = itertools.count(1)


def new_place(base: str) -> str:
    """The address of an empty place: in the database of that address, or in the folder."""
    name = f"place_{next(NUMBERS)}"
    if base.startswith("postgresql://"):
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{base}?options=-csearch_path%3D{name}"
    (Path(base) / name).mkdir()
    return url(Path(base) / name)


def new_ledger(base: str) -> str:
    """The address of a ledger with nothing but its first entry."""
    place = new_place(base)
    if place.startswith("sqlite"):
        Path(place.removeprefix("sqlite:///")).write_bytes(empty_ledger())
    else:
        Ledger.create(place, STAMP).dispose()
    return place


def in_child(work: Callable[[], Any]) -> Iterator[Any]:
    """Start work in a forked process; the first item says it runs, the second is its result, or None if it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                json.dump(work(), out)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
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


def rivals(base: str, processes: int, attempts: int, epsilon: float) -> dict[str, Any]:
    """Every process asks for releases of its own and, in turn with them, for the same ones as all others."""
    place, spec = new_ledger(base), account(cap("4", measure="pure-epsilon"))

    def work(number: int) -> list[Any]:
        answers: list[Any] = []
        with Ledger.open(place) as ledger:
            for attempt in range(attempts):
                name = f"shared-{attempt}" if attempt % 2 else f"own-{number}-{attempt}"
                try:
                    entry = commit(ledger, request(spec, release=name), laplace(epsilon))
                    answers.append([name, entry.seq, entry.hash])
                except BudgetExceeded:
                    answers.append([name, None, None])
        return answers

    started, start = [in_child(lambda number=number: work(number)) for number in range(processes)], time.perf_counter()
    for child in started:
        next(child)
    answers = [next(child) for child in started]
    return {"answers": answers, "seconds": time.perf_counter() - start, "after": look(place)}


HELD = replace(
    account(cap("4", measure="pure-epsilon")),
    holders=HolderSpec(by="office", names=("north", "south", "west"), membership="movable"),
)


def rivals_over_holders(base: str, processes: int, attempts: int, epsilon: float) -> dict[str, Any]:
    """Homes that all ask for the same releases of moving people, each with what its own pass has summed."""
    place = new_ledger(base)

    def work(number: int) -> list[Any]:
        made: list[Any] = []
        with Ledger.open(place) as ledger:
            for attempt in range(attempts):
                asked = request(HELD, release=f"shared-{attempt}")
                try:
                    answers = commit_held(ledger, asked, laplace(epsilon), f"home-{number}")
                    made.append([asked.release, [one.entry.hash for one in answers], [one.made for one in answers]])
                except BudgetExceeded:
                    made.append([asked.release, [], []])
        return made

    started = [in_child(lambda number=number: work(number)) for number in range(processes)]
    for child in started:
        next(child)
    answers = [next(child) for child in started]
    with Ledger.open(place) as ledger:
        charges = [entry.payload for entry in ledger.entries() if entry.kind == "charge"]
    named = [[charge[name] for name in ("release", "holder", "actor")] for charge in charges]
    return {"answers": answers, "charges": named, "after": look(place)}


def commit_held(ledger: Ledger, asked: Request, mechanism: Any, actor: str) -> tuple[Answer, ...]:
    assert HELD.holders is not None
    open_where_missing(ledger, HELD)
    exacts = dict.fromkeys(HELD.holders.names, EXACT)
    stamp = replace(STAMP, actor=actor)
    return ledger.commit_all(asked, moving(coming(mechanism)), exacts, OpenDPNoise(), stamp=stamp)


# --- deaths -----------------------------------------------------------------------------------------------------------


def die_at(step: int) -> None:
    """Kill this process at a boundary: before or after a statement, before a commit, after a connection's use."""
    seen = 0

    def boundary(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def told(*arguments: Any) -> Any:
        boundary()
        cursor = at_once(*arguments)
        boundary()
        return cursor

    def committing(*arguments: Any) -> None:
        boundary()
        commit_at_once(*arguments)

    commit_at_once, raw_sql.commit = raw_sql.commit, committing
    at_once, raw_sql.execute = raw_sql.execute, told  # what goes straight to the driver passes no event
    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(Engine, name, boundary)
    event.listen(Pool, "checkin", boundary)


def release(place: str) -> list[Any]:
    with Ledger.open(place) as ledger:
        entry = commit(ledger, request(), laplace(0.6))
        return [entry.seq, entry.hash, (entry.release or b"").decode()]


def release_held(place: str) -> list[Any]:
    with Ledger.open(place) as ledger:
        answers = commit_held(ledger, request(HELD), laplace(0.6), "tester")
        return [(answer.entry.release or b"").decode() for answer in answers]


def look(place: str) -> dict[str, Any]:
    with Ledger.open(place) as ledger:
        charges = [entry for entry in ledger.entries() if entry.kind == "charge"]
        return {
            "hashes": [entry.hash for entry in charges],
            "releases": [(entry.release or b"").decode() for entry in charges],
            "ok": all(check.ok for check in verify(ledger.entries())),
            "entries": ledger.head.seq,
        }


def dying(work: Callable[[str], list[Any]], place: str, step: int) -> list[Any]:
    die_at(step)
    return work(place)


def dying_creation(place: str, step: int) -> bool:
    die_at(step)
    Ledger.create(place, STAMP).dispose()
    return True


def deaths_in_release(
    base: str, work: Callable[[str], list[Any]] = release, spec: AccountSpec | None = None
) -> Iterator[dict[str, Any]]:
    for step in range(1, 1000):
        place = new_ledger(base)
        alone(lambda place=place: opened(place, spec or account()))
        finished = alone(lambda place=place, step=step: dying(work, place, step))
        found = alone(lambda place=place: look(place))
        again, after = alone(lambda place=place: ([work(place), work(place)], look(place)))
        yield {"finished": finished is not None, "found": found, "again": again, "after": after}
        if finished is not None:
            return


def deaths_in_release_over_holders(base: str) -> Iterator[dict[str, Any]]:
    return deaths_in_release(base, release_held, HELD)


def opened(place: str, spec: AccountSpec) -> int:
    with Ledger.open(place) as ledger:
        return ledger.open_account(spec, STAMP).seq


def deaths_in_creation(base: str) -> Iterator[dict[str, Any]]:
    for step in range(1, 1000):
        place = new_place(base)
        finished = alone(lambda place=place, step=step: dying_creation(place, step))
        try:
            Ledger.open(place).dispose()
            stood = True
        except LedgerMissing:
            stood = False
            Ledger.create(place, STAMP).dispose()
        yield {"finished": finished is not None, "stood": stood, "after": look(place)}
        if finished is not None:
            return


def main(scenario: str, base: str, processes: str = "", attempts: str = "", epsilon: str = "") -> None:
    design(laplace(0.1)).release(OpenDPNoise(), EXACT)  # load the library before forking
    contests = {"rivals": rivals, "rivals-over-holders": rivals_over_holders}
    if scenario in contests:
        print(json.dumps(contests[scenario](base, int(processes), int(attempts), float(epsilon))))
    else:
        scenarios = {
            "release": deaths_in_release,
            "release-over-holders": deaths_in_release_over_holders,
            "creation": deaths_in_creation,
        }
        print(json.dumps(list(scenarios[scenario](base))))


if __name__ == "__main__":
    main(*sys.argv[1:])
