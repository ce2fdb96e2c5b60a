"""What only PostgreSQL does: a server that others use, restarts, locks and settings of its own."""

import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from dpbayes_core.errors import DpbayesError, LedgerMissing, StudyInvalid
from storage.ledger import raw_sql
from storage.ledger.ledger import Ledger
from storage.ledger.postgresql import LOCK
from storage.ledger.verify import verify
from tests.support.command import ROOT
from tests.support.ledger_cases import STAMP, account, cap, commit, laplace, request
from tests.support.postgres import Server


@pytest.fixture
def place(postgresql: Server) -> str:
    found = postgresql.new_schema()
    Ledger.create(found, STAMP).dispose()
    return found


@pytest.fixture
def ledger(place: str) -> Iterator[Ledger]:
    with Ledger.open(place) as opened:
        yield opened


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET payload = '{}' WHERE seq = 1",
        "DELETE FROM entry",
        "DELETE FROM entry WHERE seq = 2",
        "TRUNCATE entry",
        "INSERT INTO entry SELECT * FROM entry WHERE seq = 2 ON CONFLICT (seq) DO UPDATE SET payload = '{}'",
        "INSERT INTO entry SELECT 9, kind, 'other', payload, release, hash, hash, account, period, programme "
        "FROM entry WHERE seq = 2",
        "INSERT INTO entry SELECT 3, kind, 'other', payload, release, 'elsewhere', hash, account, period, programme "
        "FROM entry WHERE seq = 2",
    ],
)
def test_the_database_itself_refuses_to_change_an_entry(ledger: Ledger, place: str, statement: str) -> None:
    ledger.open_account(account(), STAMP)
    before = list(ledger.entries())
    with psycopg.connect(place) as intruder, pytest.raises(psycopg.Error, match="ledger entries"):
        intruder.execute(statement)
    assert list(ledger.entries()) == before


def test_every_write_is_durable_whatever_the_server_is_used_to(place: str) -> None:
    with Ledger.open(f"{place}%20-csynchronous_commit%3Doff") as careless:
        with careless._store.engine.connect() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off"
        with careless._store.exclusive() as page:
            assert page._connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


@pytest.mark.slow
def test_a_server_that_cannot_keep_the_promises_of_a_ledger_is_refused(mortal_postgresql: Server) -> None:
    server = mortal_postgresql
    with server.connect() as connection:
        connection.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(StudyInvalid, match="server_encoding SQL_ASCII, not UTF8"):
        Ledger.create(server.url("ascii"), STAMP)
    server.set(fsync="off")
    with pytest.raises(StudyInvalid, match="fsync off, not on"):
        Ledger.create(server.url("postgres"), STAMP)


def test_a_database_that_is_not_there_is_a_missing_ledger(postgresql: Server) -> None:
    for attempt in (Ledger.open, lambda url: Ledger.create(url, STAMP)):
        with pytest.raises(LedgerMissing, match="there is no such database"):
            attempt(postgresql.url("nowhere"))


def test_a_ledger_that_stays_locked_says_so(ledger: Ledger, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.ledger.postgresql.PATIENCE", 0.3)
    with psycopg.connect(place) as other:
        other.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
        with pytest.raises(DpbayesError, match="keeps it locked"):
            commit(ledger, request(), laplace(0.1))
        assert ledger.head.seq == 1  # reading goes on


def test_a_writer_that_falls_silent_loses_its_turn(ledger: Ledger, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.ledger.postgresql.PATIENCE", 1.0)

    def fall_silent() -> None:
        with Ledger.open(place) as silent, silent._store.exclusive() as page:
            assert commit(ledger, request(), laplace(0.1)).seq == 3  # waits for half of the patience
            page.append("note", "late", {"reason": "late"})

    with pytest.raises(DpbayesError, match="silent for too long"):
        fall_silent()
    assert [entry.kind for entry in ledger.entries()] == ["genesis", "account", "charge"]


@pytest.mark.slow
def test_a_ledger_outlives_its_server(mortal_postgresql: Server) -> None:
    server, spec = mortal_postgresql, account(cap("1", measure="pure-epsilon"))
    with Ledger.create(server.url("postgres"), STAMP) as ledger:
        first = commit(ledger, request(spec), laplace(0.1))
        for end in (server.kill, server.shut_down_immediately):
            end()
            for _ in range(2):
                with pytest.raises(DpbayesError, match="cannot reach the ledger: its database does not answer"):
                    commit(ledger, request(spec, release="hours"), laplace(0.1))
            server.start()
            assert commit(ledger, request(spec), laplace(0.1)) == first
        assert commit(ledger, request(spec, release="hours"), laplace(0.1)).seq == first.seq + 1
        assert all(check.ok for check in verify(ledger.entries()))


@contextmanager
def stopped_at(step: int, server: Server, ledger: Ledger, environment: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, the server is stopped before the statement, or commit, of that number is sent."""
    counted, at_once, engine = itertools.count(1), raw_sql.execute, ledger._store.engine
    with ExitStack() as stopped, environment.context() as patched:

        def boundary(*_: object) -> None:
            if next(counted) == step:
                stopped.enter_context(server.silent())

        def asked(*arguments: Any) -> Any:
            boundary()
            return at_once(*arguments)

        patched.setattr(raw_sql, "execute", asked)
        for name in ("before_cursor_execute", "commit"):
            event.listen(engine, name, boundary)
        yield


@pytest.mark.slow
def test_a_server_stopped_at_any_statement_is_given_up_and_charges_once(
    mortal_postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.ledger.postgresql.SILENCE", 1.0)
    server, found = mortal_postgresql, Counter[int]()
    for step in itertools.count(1):
        place = server.new_schema()
        Ledger.create(place, STAMP).dispose()
        with Ledger.open(place) as ledger:
            ledger.open_account(account(), STAMP)
            began, failure = time.monotonic(), None
            with stopped_at(step, server, ledger, monkeypatch):
                try:
                    commit(ledger, request(), laplace(0.1))
                except DpbayesError as error:
                    failure = error
            if failure is None:
                break  # no statement has that number
            assert "its database does not answer" in str(failure)
            assert time.monotonic() - began < 20
        with Ledger.open(place) as ledger:
            ledger.note("waits until what was under way is decided", STAMP)
            found[ledger.count("charge")] += 1
            again = commit(ledger, request(), laplace(0.1))
            assert commit(ledger, request(), laplace(0.1)) == again
            assert ledger.count("charge") == 1
            assert all(check.ok for check in verify(ledger.entries()))
    assert found[0] >= 2  # a lock, an entry: nothing was written
    assert found[1] >= 1  # a commit that nobody heard of


@pytest.mark.slow
def test_a_network_that_swallows_everything_is_a_database_that_does_not_answer() -> None:
    program = ["unshare", "--net", sys.executable, "-m", "tests.support.swallowing"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    said, seconds = json.loads(done.stdout)
    assert said == "cannot reach the ledger: its database does not answer. Start it and run again."
    assert seconds < 60
