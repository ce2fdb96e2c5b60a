"""What only PostgreSQL does: a server that others use, restarts, locks and settings of its own."""

from collections.abc import Iterator

import psycopg
import pytest

from dpbayes_core.errors import DpbayesError, LedgerMissing, StudyInvalid
from storage.ledger.ledger import Ledger
from storage.ledger.postgresql import LOCK
from storage.ledger.verify import verify
from tests.storage.ledger_cases import STAMP, account, cap, commit, laplace, request
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
