"""A ledger's database that cannot be used: a sentence each, nothing charged, and a second try that works."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

import tasks.release_statistics
from tests.support.desk import PERIOD, Desk
from tests.support.faults import assert_fault, fault, faults_of
from tests.support.place import HookedNoise
from tests.support.postgres import Server
from tests.support.recorded import recorded_as_named

Test = Callable[..., None]


def release(desk: Desk, test: Test, place: int = 0) -> None:
    """The release ends as the test's decorator says, within its time."""
    began = time.monotonic()
    result = desk.run("release", desk.study, "--period", PERIOD)
    done = subprocess.CompletedProcess[str]([], result.exit_code, result.stdout, result.stderr)
    assert_fault(done, test, place)
    assert time.monotonic() - began < faults_of(test)[place].within


@contextmanager
def in_use(server: Server, folder: Path, environment: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk whose ledger is on the server; at the end nothing was charged, and a release works."""
    address = server.new_database()
    environment.setenv("DPBAYES_LEDGER_URL", address)
    desk = Desk.set_up(folder)
    yield desk
    environment.setenv("DPBAYES_LEDGER_URL", address)
    assert desk.document("ledger", "show", desk.study)["charges"] == 0
    assert desk.release()["releases"][0]["status"] == "released"


def name_user(environment: pytest.MonkeyPatch, desk: Desk, user: str) -> None:
    """The ledger's URL with another user."""
    environment.setenv("DPBAYES_LEDGER_URL", os.environ["DPBAYES_LEDGER_URL"].replace("steward@", f"{user}@"))


@pytest.mark.slow
@fault(
    "PostgreSQL does not accept the user or password",
    "cannot reach the ledger: its database does not accept this user or password. Correct DPBAYES_LEDGER_URL, or the "
    "password file.",
    exit_code=1,
    within=30,
)
@pytest.mark.parametrize("user", ["clerk:wrong", "clerk", "nobody"])
def test_a_user_whom_the_database_does_not_accept(
    postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    rules = postgresql.folder / "data" / "pg_hba.conf"
    rule = "host all clerk 127.0.0.1/32 scram-sha-256\n"
    if rule not in rules.read_text():
        rules.write_text(rule + rules.read_text())
        with postgresql.connect() as connection:
            connection.execute("CREATE ROLE clerk LOGIN PASSWORD 'right'")
        postgresql.set(deadlock_timeout="1001")  # whatever: it reads its files again
    with in_use(postgresql, tmp_path, monkeypatch) as desk:
        name_user(monkeypatch, desk, user)
        release(desk, test_a_user_whom_the_database_does_not_accept)


@pytest.mark.slow
@fault(
    "PostgreSQL does not let the user read or write the ledger",
    "cannot use the ledger: its database does not let this user read or write it. Grant that, or name another user in "
    "DPBAYES_LEDGER_URL.",
    exit_code=1,
    within=30,
)
@pytest.mark.parametrize("grant", ["", "GRANT SELECT ON entry TO {user}"])
def test_a_user_without_permission(
    postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grant: str
) -> None:
    user = "reader" if grant else "outsider"
    with in_use(postgresql, tmp_path, monkeypatch) as desk:
        with postgresql.connect(os.environ["DPBAYES_LEDGER_URL"].rpartition("/")[2]) as connection:
            connection.execute(f"CREATE ROLE {user} LOGIN")
            if grant:
                connection.execute(grant.format(user=user))
        name_user(monkeypatch, desk, user)
        release(desk, test_a_user_without_permission)


@pytest.mark.slow
@fault(
    "The host of the ledger's database has no known name",
    "cannot reach the ledger: the name of its host is not known here. Correct DPBAYES_LEDGER_URL, or the network.",
    exit_code=1,
    within=30,
)
def test_a_host_that_has_no_known_name(postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with in_use(postgresql, tmp_path, monkeypatch) as desk:
        monkeypatch.setenv("DPBAYES_LEDGER_URL", "postgresql://steward@no-such-host.invalid/ledger")
        with recorded_as_named(desk.study):
            release(desk, test_a_host_that_has_no_known_name)


@pytest.mark.slow
@fault(
    "PostgreSQL is not there, goes away before the commit, or does not answer",
    "cannot reach the ledger: its database does not answer. Start it and run again.",
    exit_code=1,
    within=30,
)
def test_a_server_that_goes_away(mortal_postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = mortal_postgresql
    with in_use(server, tmp_path, monkeypatch) as desk:
        with monkeypatch.context() as patched:
            patched.setattr(tasks.release_statistics, "OpenDPNoise", lambda: HookedNoise(server.kill))
            release(desk, test_a_server_that_goes_away)
        release(desk, test_a_server_that_goes_away)
        server.start()
        with server.silent():
            release(desk, test_a_server_that_goes_away)


SLOWLY = """
CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(20); RETURN NEW; END $$;
CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON entry DEFERRABLE INITIALLY {when} FOR EACH ROW
EXECUTE FUNCTION slowly()
"""
UNDER_WAY = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'PgSleep'"


def until_under_way(server: Server, many: int) -> None:
    """Wait until so many statements that write to a ledger are under way."""
    deadline = time.monotonic() + 200
    with server.connect() as connection:
        while connection.execute(UNDER_WAY).fetchall() != [(many,)]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.slow
@fault(
    "PostgreSQL is stopped in the middle of a statement or commit, which may then have been done or not: the "
    "next run sees that it is done once",
    "cannot reach the ledger: its database does not answer. Start it and run again.",
    exit_code=1,
    within=120,
)
@pytest.mark.parametrize(
    ("when", "then"), [("IMMEDIATE", "released"), ("DEFERRED", "already-released")], ids=["insert", "commit"]
)
def test_a_server_that_stops_in_the_middle_of_a_statement(
    mortal_postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, then: str
) -> None:
    server, address = mortal_postgresql, mortal_postgresql.new_database()
    monkeypatch.setenv("DPBAYES_LEDGER_URL", address)
    desk = Desk.set_up(tmp_path)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(SLOWLY.format(when=when).encode())
    with ExitStack() as stopped, ThreadPoolExecutor() as beside:

        def stop() -> None:
            until_under_way(server, 1)
            stopped.enter_context(server.silent())

        stopping = beside.submit(stop)
        release(desk, test_a_server_that_stops_in_the_middle_of_a_statement)
        stopping.result()
    until_under_way(server, 0)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP TRIGGER slowly ON entry")  # waits for whoever still writes
    assert desk.release()["releases"][0]["status"] == then
    assert desk.release()["releases"][0]["status"] == "already-released"
    assert desk.document("ledger", "show", desk.study)["charges"] == 1
    assert desk.document("audit", desk.study)["ok"]
