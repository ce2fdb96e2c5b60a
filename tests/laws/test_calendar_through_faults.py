"""The calendar on all real parts, each of which dies once: one charge, one release and one posterior a period.

A Prefect server with its database on PostgreSQL, a worker, a Dask scheduler with two workers behind certificates, the
ledger on PostgreSQL and the archive on an S3 endpoint. Nobody starts a run: `deploy` and the catch-up schedule do.
"""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.calendars import last_months
from tests.support.canaries import finds, forms_of, places
from tests.support.command import document, dpbayes
from tests.support.dask_cluster import DaskCluster, certificate
from tests.support.desk import STUDY, Desk, people
from tests.support.object_store import ObjectStore
from tests.support.postgres import Server
from tests.support.prefect import PREFECT, Orchestrator, running, wait_until

MONTHS = last_months(3)
STUDIES = {"north": "staff", "south": "staff", "firms": "employers"}
PERIODS = len(STUDIES) * len(MONTHS)
OUTLIER, NAME, LEVEL = 90817.26354, "Zebulon-Quirk-Canary", "atlantis-canary"
CANARIES = (OUTLIER, NAME, LEVEL)
PATIENCE = 400  # what failed is tried again after one minute, two and four
SETTINGS = """\
home: home
prefect: {catch_up: "* * * * *"}
"""


@dataclass
class Agency:
    """All servers of an agency, with a project of three studies that owe three months each."""

    folder: Path
    database: Server
    store: ObjectStore
    bucket: str
    dask: DaskCluster
    certificates: dict[str, str]
    ledger: str = ""
    open: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.ledger = self.database.new_database()
        prefect = self.database.new_database().replace("postgresql://", "postgresql+asyncpg://")
        self.orchestrator = Orchestrator(
            self.folder / "orchestrator",
            DPBAYES_ARCHIVE_URL=f"{self.bucket}/archive",
            DPBAYES_DASK=self.dask.address,
            DPBAYES_LEDGER_URL=self.ledger,
            PREFECT_SERVER_DATABASE_CONNECTION_URL=prefect,
            **self.certificates,
        )

    @property
    def project(self) -> Path:
        """The folder of the studies."""
        return self.folder / "project"

    def study(self, name: str) -> Path:
        """A study file."""
        return self.project / name / "study.yaml"

    def set_up(self) -> None:
        """Write the studies with their tables, a home, and an account for each population."""
        self.orchestrator.folder.mkdir()
        self.project.mkdir()
        (self.project / "dpbayes.yaml").write_text(SETTINGS)
        for name, population in STUDIES.items():
            desk = Desk(self.project / name)
            desk.folder.mkdir()
            text = STUDY.replace("study: pay", f"study: {name}").replace(
                "population: staff", f"population: {population}"
            )
            text = text.replace('{cron: "0 2 1 * *"}', f'{{cron: "0 0 1 * *", first: {MONTHS[0]}}}')
            desk.study.write_text(text.replace("draws: 500", "draws: 20000"))
            for month in MONTHS:
                desk.write_table(planted(), month)
            self.command("ledger", "create", desk.study)

    def command(self, *arguments: str | Path, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        """The command, with the agency's settings."""
        done = dpbayes(*arguments, cwd=self.project, **self.settings)
        assert done.returncode in codes, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}\n{self.log}"
        return done

    @property
    def settings(self) -> dict[str, str]:
        """Of the whole environment, what `dpbayes` and Prefect read."""
        return {
            name: value
            for name, value in self.orchestrator.environment.items()
            if name.startswith(("DPBAYES_", "PREFECT_"))
        }

    @property
    def log(self) -> str:
        """What the workers and their runs printed."""
        return "".join(path.read_text() for path in sorted(self.orchestrator.folder.glob("worker-*.log")))

    def entries(self, kind: str) -> int:
        """How many entries of a kind the ledger has, by its database."""
        with self.database.connect(self.ledger.rpartition("/")[2]) as connection:
            row = connection.execute("SELECT count(*) FROM entry WHERE kind = %s", [kind]).fetchone()
        assert row is not None
        return int(row[0])

    def wait(self, kind: str, count: int) -> None:
        """Until the ledger has so many entries of a kind."""
        wait_until(lambda: self.entries(kind) >= count, PATIENCE, f"{count} of {kind}\n{self.log}")

    def worker(self, number: int) -> Callable[[], None]:
        """One more worker; what is returned kills it with its runs."""
        pid = self.open.enter_context(
            running(
                *(PREFECT, "worker", "start", "--pool", "dpbayes"),
                environment=self.orchestrator.environment,
                cwd=self.orchestrator.folder,
                log=self.orchestrator.folder / f"worker-{number}.log",
            )
        )
        return lambda: os.killpg(pid, signal.SIGKILL)

    def server(self, number: int) -> Callable[[], None]:
        """The Prefect server, once it answers; what is returned kills it with all its processes."""
        made = self.orchestrator
        server = (PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(made.port))
        log = made.folder / f"server-{number}.log"
        pid = self.open.enter_context(running(*server, environment=made.environment, cwd=made.folder, log=log))
        wait_until(lambda: made.ask("health"), 180, "Prefect's server")
        return lambda: os.killpg(pid, signal.SIGKILL)

    def active(self) -> list[dict[str, Any]]:
        """Runs that the server takes to be under way."""
        states = {"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}}
        return self.orchestrator.ask("flow_runs/filter", {"flow_runs": {"state": states}})


def planted() -> dict[str, Any]:
    columns = people()
    columns["pay"][11] = OUTLIER
    columns["person"][12] = NAME
    columns["region"][13] = LEVEL
    return columns


@pytest.fixture
def agency(mortal_postgresql: Server, mortal_object_store: ObjectStore, tmp_path: Path) -> Iterator[Agency]:
    certificates = certificate(tmp_path / "certificates", "agency")
    with DaskCluster(tmp_path / "dask", settings=certificates, protocol="tls") as dask:
        for _ in range(2):
            dask.work()
        bucket = mortal_object_store.new_bucket()
        made = Agency(tmp_path, mortal_postgresql, mortal_object_store, bucket, dask, certificates)
        with made.open:
            made.set_up()
            yield made


@pytest.mark.slow
def test_each_part_dies_once_and_every_period_is_charged_released_and_analysed_once(agency: Agency) -> None:
    kill_server = agency.server(1)
    agency.command("deploy", agency.project)
    kill_worker = agency.worker(1)

    agency.wait("charge", 1)
    agency.dask.kill_workers()
    agency.dask.work()

    agency.wait("charge", 2)
    agency.dask.begin_again()

    agency.wait("charge", 3)
    kill_worker()
    agency.worker(2)

    agency.wait("charge", 4)
    kill_server()
    time.sleep(5)
    agency.server(2)

    agency.wait("charge", 5)
    agency.database.kill()
    time.sleep(5)
    agency.database.start()

    agency.wait("charge", 6)
    agency.store.go_away()
    time.sleep(10)
    agency.store.come_back()

    agency.wait("publish", PERIODS)
    wait_until(lambda: not agency.active(), PATIENCE, f"no run under way\n{agency.log}")

    assert_each_once(agency)
    assert_nothing_confidential(agency)
    agency.open.close()
    assert leftovers(agency.folder) == []


def assert_each_once(agency: Agency) -> None:
    history = document("ledger", "history", agency.study("north"), cwd=agency.project, **agency.settings)
    of = Counter((entry["kind"], entry.get("study"), entry.get("period")) for entry in history["entries"])
    charges = {key: count for key, count in of.items() if key[0] == "charge"}
    assert charges == {("charge", study, month): 1 for study in STUDIES for month in MONTHS}
    found = document("audit", agency.study("north"), cwd=agency.project, **agency.settings)
    assert found["ok"], found


def assert_nothing_confidential(agency: Agency) -> None:
    """In no log, database, object, scratch folder or state of any service, decoded."""
    needles = {form for value in CANARIES for form in forms_of(value)}
    tables = [agency.project / study / "data" for study in STUDIES]
    assert places(agency.folder, CANARIES, skip=tables) == []
    assert [name for name, data in objects(agency.bucket) if finds(data, needles)] == []
    with agency.database.connect() as connection:
        databases = [name for (name,) in connection.execute("SELECT datname FROM pg_database WHERE NOT datistemplate")]
    searched = 0
    for name in databases:
        for table, row in rows(agency.database, name):
            searched += 1
            assert not finds(row, needles), f"{name}.{table}"
    assert searched > 100  # runs, states, logs and events are there


def objects(bucket: str) -> Iterator[tuple[str, bytes]]:
    import s3fs

    store = s3fs.S3FileSystem()
    for name in store.find(bucket.removeprefix("s3://")):
        yield name, store.cat_file(name)


def rows(server: Server, database: str) -> Iterator[tuple[str, bytes]]:
    """Every row of every table of a database as text."""
    listing = (
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
    )
    with server.connect(database) as connection:
        for (table,) in connection.execute(listing).fetchall():
            for (text,) in connection.execute(f'SELECT t::text FROM "{table}" t'):
                yield table, text.encode()


def leftovers(folder: Path) -> list[str]:
    """The command lines of processes that were started with the agency's settings and still run."""
    found: list[str] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and str(folder / "orchestrator") in process.environ().get("PREFECT_HOME", ""):
                found.append(" ".join(process.cmdline()))
    return found
