"""Releases that die: of a killed process, at every statement or at any moment, or of a killed database server.

Run as a program, so that only this one is ever forked: `release_driver.py SCENARIO FOLDER [DATABASE]`.
"""

import json
import os
import random
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import great_expectations  # noqa: F401 -- seconds that no child should pay
import numpy as np
from sqlalchemy import Connection, Engine, event

import tasks.answers
import tasks.secure_pass
from dpbayes.secure.read_table import read_statistics
from dpbayes.study.load import load_study
from dpbayes_core.errors import DpbayesError
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.files.archive import MANIFEST
from storage.files.archive_paths import release_path
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.anchors import Anchors
from storage.ledger.ledger import Ledger
from storage.ledger.verify import verify
from tasks.orders import ReleaseOrder
from tasks.publish_release import publish_once
from tasks.release_statistics import release_once
from tests.laws.ledger_driver import alone, die_at, in_child, new_place
from tests.support.accounts import open_account_of
from tests.support.desk import PERIOD, STUDY, Desk, people
from tests.support.ledger_cases import STAMP, account, cap, commit, laplace, request
from tests.support.postgres import Server, binaries, new_folder

RELEASE = "pay-regression"
WINDOWS = ("before commit", "after commit", "archiving")
MARKS = ("summed", "committed", "anchored", "archived")
"""What a release tells as it goes; between each and the next lies a window of time."""
FEWEST, MOST = 30, 120  # random moments; more than the fewest until every window was hit
WRITES, KILLS = 60, 8
Told = Callable[[str], object]


def a_desk(folder: Path) -> Path:
    """A study with its table and a home, but no ledger yet."""
    folder.mkdir(parents=True)
    desk = Desk(folder)
    desk.study.write_text(STUDY)
    desk.write_table(people(200))
    Home.create(folder)
    return folder


def places(folder: Path, database: str | None) -> Iterator[Path]:
    """Copies of one desk, each with a ledger of its own that was never charged."""
    first = a_desk(folder / "desk")
    number = 0
    while True:
        number += 1
        place = folder / str(number)
        shutil.copytree(first, place)
        if database is not None:
            os.environ["DPBAYES_LEDGER_URL"] = new_place(database)
        with AnchoredLedger.create(Home.find(place), STAMP):
            open_account_of(place / "study.yaml")
        yield place


def release(place: Path, tell: Told = str) -> dict[str, Any]:
    """The release and its crate as the flow makes them, without Prefect."""
    order = ReleaseOrder(study=str(place / "study.yaml"), release=RELEASE, period=PERIOD)
    (status,) = release_once(order, OpenDPNoise())
    tell("anchored")
    return {"status": status, "digest": publish_once(order, [status])[0]["digest"]}


def look(place: Path) -> dict[str, Any]:
    """What stands, without repairing it."""
    home = Home.find(place)
    with Ledger.open(home.ledger_url) as ledger:
        entries = list(ledger.entries())
        ok = [check.check for check in verify(entries) if not check.ok] == []
    archive = home.archive()
    charges = [entry for entry in entries if entry.kind == "charge"]
    left_out = Anchors(archive, home.signer()).unanchored(len(entries))
    crate = release_path(charges[0].to_record()) if charges else None
    files = {name: archive.read(name).hex() for name in archive.list()}
    return {
        "ok": ok,
        "entries": len(entries),
        "releases": [(charge.release or b"").decode() for charge in charges],
        "unanchored": len(left_out),
        "finished": crate is not None and archive.exists(f"{crate}/{MANIFEST}"),
        "files": files,
    }


def outcome(place: Path) -> dict[str, Any]:
    """What a death left, and what running again, twice, made of it."""
    found = alone(lambda: look(place))
    first, after_first, second, after_second = alone(lambda: (release(place), look(place), release(place), look(place)))
    return {"found": found, "first": first | after_first, "second": second | after_second}


# --- killed processes -------------------------------------------------------------------------------------------------


def deaths_at_statements(folder: Path, database: str | None) -> Iterator[dict[str, Any]]:
    """Killed before and after every statement, before every commit and after every use of a connection."""
    for step, place in enumerate(places(folder, database), start=1):

        def dying(step: int = step, place: Path = place) -> dict[str, Any]:
            die_at(step)
            return release(place)

        finished = alone(dying) is not None
        yield {"killed": not finished} | outcome(place)
        if finished:
            return


def marking(tell: Told) -> None:
    """Tell when the sum, the commit and the crate are done; `release` tells when all is anchored."""

    def after(owner: Any, name: str, mark: str) -> None:
        original = getattr(owner, name)

        def marked(*arguments: Any, **keywords: Any) -> Any:
            result = original(*arguments, **keywords)
            tell(mark)
            return result

        setattr(owner, name, marked)

    after(tasks.secure_pass, "read_statistics", "summed")
    after(Ledger, "commit_all", "committed")
    after(tasks.answers, "store_crate", "archived")


class Clocked:
    """A release in a process of its own whose marks arrive as they are reached."""

    def __init__(self, place: Path) -> None:
        self._reading, writing = os.pipe()
        self._child = in_child(lambda: self._work(place, writing))
        self._process: int = next(self._child)
        os.close(writing)
        self.at: dict[str, float] = {}

    def wait_for(self, mark: str) -> None:
        """Return when the mark is reached, or the process has ended."""
        while mark not in self.at and (told := os.read(self._reading, 1)):
            self.at.setdefault(MARKS[told[0]], time.perf_counter())

    def kill(self) -> bool:
        """Whether it was alive to be killed."""
        os.kill(self._process, signal.SIGKILL)
        return self.end()

    def end(self) -> bool:
        """Whether it was killed."""
        killed = next(self._child) is None
        self.wait_for("the end")
        os.close(self._reading)
        return killed

    def lasted(self, window: int) -> float | None:
        """How long a window of time was, if it came to its end."""
        opened, closed = (self.at.get(mark) for mark in MARKS[window : window + 2])
        return None if opened is None or closed is None else closed - opened

    def _work(self, place: Path, writing: int) -> dict[str, Any]:
        def tell(mark: str) -> None:
            os.write(writing, bytes([MARKS.index(mark)]))

        marking(tell)
        return release(place, tell)


def deaths_at_moments(folder: Path, database: str | None) -> Iterator[dict[str, Any]]:
    """Killed at random moments after the sum, as many in each window of time; how long one is, changes as we look."""
    copies, chance = places(folder, database), random.Random(20261118)
    windows = range(len(MARKS) - 1)
    lasted: list[list[float]] = [[] for _ in windows]
    hit: set[str] = set()
    for number in range(-3, MOST):  # the first ones live
        place, target = next(copies), number % len(windows)
        run = Clocked(place)
        if number < 0:
            run.end()
        else:
            run.wait_for(MARKS[target])
            time.sleep(chance.uniform(0, statistics.median(lasted[target][-5:])))
            done = {"killed": run.kill()} | outcome(place)
            hit.add(window_of(done))
            yield done
        for window in windows:
            lasted[window] += filter(None, [run.lasted(window)])
        if number + 1 >= FEWEST and hit >= set(WINDOWS):
            return


def window_of(done: dict[str, Any]) -> str:
    """Between which two steps a release was killed, by what it left."""
    found = done["found"]
    if not found["releases"]:
        return "before commit"
    if found["unanchored"]:
        return "after commit"
    return "finished" if found["finished"] else "archiving"


# --- killed servers ---------------------------------------------------------------------------------------------------

SLOW_COMMITS = {
    "before its commit is on disk": {"commit_delay": "100000", "commit_siblings": "0"},
    "after its commit is on disk": {"synchronous_standby_names": "nobody"},  # waits for a standby that never comes
}


def committing(place: Path, tell: Told) -> dict[str, Any]:
    """A release that tells when it sends the commit of its charge, and says what went wrong."""

    def sent(connection: Connection) -> None:
        if "advisory" in connection.get_execution_options().get("begin", ""):
            tell("committing")

    event.listen(Engine, "commit", sent)
    try:
        return release(place)
    except DpbayesError as error:
        return {"error": str(error)}


def deaths_of_the_server(folder: Path, server: Server) -> Iterator[dict[str, Any]]:
    """The server killed, or shut down at once, in the middle of the commit of a release."""
    copies = places(folder, server.url("postgres"))
    for end in (server.kill, server.shut_down_immediately):
        for moment, settings in SLOW_COMMITS.items():
            place = next(copies)
            server.set(**settings)
            reading, writing = os.pipe()
            child = in_child(lambda place=place, fd=writing: committing(place, lambda mark: os.write(fd, b"!")))
            next(child)
            os.close(writing)
            os.read(reading, 1)
            os.close(reading)
            time.sleep(0.02)  # on its way to the disk
            end()
            said = next(child)
            server.start()
            server.set(**dict.fromkeys(settings, ""))
            yield {"how": end.__name__, "moment": moment, "said": said} | outcome(place)


def a_dying_server(server: Server) -> dict[str, Any]:
    """Three writers that try again until they are answered, while the server dies again and again."""
    chance, place, spec = random.Random(20261118), server.url("postgres"), account(cap("8", measure="pure-epsilon"))
    Ledger.create(place, STAMP).dispose()

    def write(number: int) -> dict[str, Any]:
        answers: list[list[str]] = []
        failures = 0
        with Ledger.open(place) as ledger:
            while len(answers) < WRITES:
                turn = len(answers)
                asked = request(spec, release=f"shared-{turn}" if turn % 2 else f"own-{number}-{turn}")
                try:
                    answers.append([asked.key, commit(ledger, asked, laplace(0.01)).hash])
                except DpbayesError:
                    failures += 1
                time.sleep(0.01)
        return {"answers": answers, "failures": failures}

    writers = [in_child(lambda number=number: write(number)) for number in range(3)]
    for writer in writers:
        next(writer)
    for kill in range(KILLS):
        time.sleep(chance.uniform(0.1, 0.4))
        (server.kill, server.shut_down_immediately)[kill % 2]()
        server.start()
    done = [next(writer) for writer in writers]
    with Ledger.open(place) as ledger:
        charges = [entry for entry in ledger.entries() if entry.kind == "charge"]
        ok = all(check.ok for check in verify(ledger.entries()))
    return {
        "answers": [each["answers"] for each in done],
        "failures": sum(each["failures"] for each in done),
        "hashes": [charge.hash for charge in charges],
        "kills": KILLS,
        "names": [charge.key for charge in charges],
        "ok": ok,
    }


def with_server(work: Callable[[Server], Any]) -> Any:
    """Do something with a server that may be killed."""
    programs = binaries()
    assert programs is not None
    server = Server(new_folder(), programs)
    try:
        server.start(wal_level="replica", max_wal_senders="2")
        return work(server)
    finally:
        server.stop()
        shutil.rmtree(server.folder)


def warm_up(place: Path) -> None:
    """Load and compile what every child needs, but start no thread that a fork would cut off."""
    study = load_study(place / "study.yaml")
    read_statistics(
        study.table(RELEASE, PERIOD),
        study.design(RELEASE).statistic(),
        key=Home.find(place).contribution_key(),
        progress=float,
    )
    mechanism = study.design(RELEASE).mechanism
    mechanism.release(OpenDPNoise(), np.zeros(len(study.design(RELEASE).schema.entries)))


def main(scenario: str, folder: str, database: str = "") -> None:
    place = Path(folder)
    warm_up(a_desk(place / "first"))
    if scenario == "server":
        done: Any = with_server(lambda server: list(deaths_of_the_server(place, server)))
    elif scenario == "dying-server":
        done = with_server(a_dying_server)
    else:
        runs = {"statements": deaths_at_statements, "moments": deaths_at_moments}[scenario](place, database or None)
        done = [run | {"window": window_of(run)} for run in runs]
    print(json.dumps(done))


if __name__ == "__main__":
    main(*sys.argv[1:])
