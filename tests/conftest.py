"""Quiet orchestration, and real databases and object stores for every test that asks for one."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.environment import ALWAYS
from tests.support.object_store import ObjectStore
from tests.support.parts import missing, pytest_runtest_makereport
from tests.support.postgres import Server, binaries, new_folder

os.environ.update(ALWAYS, PREFECT_LOGGING_LEVEL="CRITICAL")  # read when Prefect is imported
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process of each test would compile the project anew
sys.dont_write_bytecode = False

pytest_plugins = ["tests.support.cpu_budget"]
__all__ = ["pytest_runtest_makereport"]  # a skip is a failure where every real part is promised

DATABASES = ("sqlite", "postgresql")


def _server() -> Iterator[Server]:
    programs = binaries()
    if programs is None:
        missing("PostgreSQL server", "install it with `apt-get install postgresql`")
    folder = new_folder()
    try:
        server = Server(folder, programs)
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A server that all tests share; each asks it for a database of its own."""
    yield from _server()


@pytest.fixture
def mortal_postgresql() -> Iterator[Server]:
    """A server of the test's own, to be killed."""
    yield from _server()


@pytest.fixture(scope="session")
def _shared_object_store() -> Iterator[ObjectStore]:
    with ObjectStore() as store:
        yield store


@pytest.fixture
def object_store(_shared_object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An S3 endpoint that all tests share; each asks it for a bucket of its own."""
    with _shared_object_store.in_use(monkeypatch) as store:
        yield store


@pytest.fixture
def mortal_object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An S3 endpoint of the test's own, which may go away or misbehave."""
    with ObjectStore() as own, own.in_use(monkeypatch) as store:
        yield store


@pytest.fixture(params=DATABASES)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes the address of a place that holds nothing, on each database in turn."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql").new_schema
    return lambda: f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(params=DATABASES)
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a ledger with nothing but its first entry, on each database in turn."""
    from storage.ledger.ledger import Ledger
    from tests.support.ledger_cases import STAMP, empty_ledger, url

    if request.param == "postgresql":
        place = request.getfixturevalue("postgresql").new_schema()
        Ledger.create(place, STAMP).dispose()
        return place
    (tmp_path / "ledger.db").write_bytes(empty_ledger())
    return url(tmp_path)
