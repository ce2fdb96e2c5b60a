"""SQL: a read-only snapshot, the period bound as a value, every value as text that no driver can refuse."""

import gc
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from dpbayes.secure.read_table import read_statistics
from dpbayes.secure.sources import postgresql as source_postgresql
from dpbayes.secure.sources import sqlite as source_sqlite
from dpbayes.secure.sources.open_source import lay_out
from dpbayes.study.table_source import Query, TableSource
from dpbayes_core.errors import ShapeMismatch
from tests.dpbayes.secure.sources.cases import CANARY, RULES, refusal, rows_of
from tests.support.postgres import Server
from tests.support.small_tables import KEY, STATISTIC

SELECT = "SELECT * FROM t WHERE month = :period"


def asking(url: str, text: str = SELECT, period: str = "2026-01") -> TableSource:
    return TableSource(query=Query(url=url, text=text, period=period), columns=RULES, unit="person")


@pytest.fixture
def small(tmp_path: Path) -> str:
    """An SQLite database with every type that a cell of it can have."""
    connection = sqlite3.connect(tmp_path / "people.db")
    connection.execute("CREATE TABLE t (month, person, x, born, level)")
    rows: list[tuple[Any, ...]] = [
        (7, 1.5, "1970-01-02", "n"),
        ("7", "2.5", "1969-12-31", "s"),
        (b"\xff", "x", 12, 0),
        (None, None, None, None),
        (7.0, 2**63 - 1, "9", 1.0),
        ("", float("inf"), "", ""),
    ]
    connection.executemany("INSERT INTO t VALUES ('2026-01', ?, ?, ?, ?)", rows)
    connection.execute("INSERT INTO t VALUES ('2026-02', 'other', 1, '1970-01-01', 'n')")
    connection.commit()
    connection.close()
    return f"sqlite:///{tmp_path / 'people.db'}"


def test_every_cell_of_sqlite_is_read(small: str) -> None:
    table = asking(small, "SELECT * FROM t WHERE month = :period AND person IS NOT x'ff'")
    assert rows_of(table) == [
        ("7", 1.5, 1.0, "n"),
        ("7", 2.5, -1.0, "s"),
        (None, None, None, None),
        ("7.0", float(2**63), "NaN", "1.0"),
        ("", float("inf"), None, ""),
    ]


@pytest.mark.parametrize("text", [f"{SELECT};", SELECT.replace(":period", "{period}"), f"\n -- rows\n{SELECT}\n"])
def test_the_period_is_bound_as_a_value(small: str, text: str) -> None:
    assert len(list(rows_of(asking(small, text + "", "2026-02")))) == 1
    assert rows_of(asking(small, text, "2026-02' OR '1' = '1")) == []


def test_a_database_is_opened_for_reading_only(small: str) -> None:
    engine = source_sqlite.make_engine(small)
    with engine.connect() as connection:
        source_sqlite.prepare(connection)
        with pytest.raises(DBAPIError, match="readonly"):
            connection.exec_driver_sql("DELETE FROM t")
    engine.dispose()
    assert "does not answer the query" in refusal(asking(small, "DELETE FROM t WHERE month = :period RETURNING *"))
    assert len(rows_of(asking(small, "SELECT * FROM t WHERE month <> :period AND person = 'other'"))) == 1


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("sqlite:///{folder}/absent.db", SELECT),
        ("sqlite://", SELECT),
        ("postgresql://nobody@127.0.0.1:1/people", SELECT),
        ("{small}", "SELECT * FROM absent WHERE month = :period"),
        ("{small}", f"SELEKT '{CANARY}' WHERE '' = :period"),
    ],
)
def test_a_database_that_does_not_answer_is_a_matter_of_shape(tmp_path: Path, small: str, url: str, text: str) -> None:
    message = refusal(asking(url.format(folder=tmp_path, small=small), text))
    assert "the database does not answer the query" in message
    assert str(tmp_path) not in message
    assert not (tmp_path / "absent.db").exists()


def test_a_missing_or_repeated_column_is_named(small: str) -> None:
    assert "column born is missing" in refusal(asking(small, "SELECT person, x, level FROM t WHERE month = :period"))
    twice = refusal(asking(small, "SELECT *, 1 AS x FROM t WHERE month = :period"))
    assert twice.startswith("cannot read table people.db: column x occurs more than once")


@pytest.fixture
def server(postgresql: Server) -> Callable[..., str]:
    """Makes a database with one table of these columns and rows."""

    def fill(columns: str, *rows: str) -> str:
        url = postgresql.new_database()
        with postgresql.connect(url.rpartition("/")[2]) as connection:
            connection.execute("CREATE TYPE side AS ENUM ('n', 's')")
            connection.execute(f"CREATE TABLE t (month text, {columns})".encode())
            for row in rows:
                connection.execute(f"INSERT INTO t VALUES ('2026-01', {row})".encode())
        return url

    return fill


COLUMNS = "person bigint, x float8, born date, level side"


def test_values_that_a_driver_would_refuse_are_read(server: Callable[..., str]) -> None:
    others = "at timestamptz, many int[], document json, width interval"
    url = server(
        f"{COLUMNS}, {others}",
        "7, 0.1::float8 + 0.2, '1970-01-02', 'n', 'infinity', '{1}', '{}', '1 day'",
        "8, 'NaN', 'infinity', 's', '-infinity', null, null, null",
        "9, '-Infinity', '0044-03-15 BC', null, '2020-01-01', null, null, '100000000 years'",
        "null, 5e-324, '5874897-12-31', 's', null, null, null, null",
    )
    assert rows_of(asking(url)) == [
        ("7", 0.1 + 0.2, 1.0, "n"),
        ("8", "NaN", float("inf"), "s"),
        ("9", float("-inf"), -735160.0, None),
        (None, 5e-324, 2145042905.0, "s"),
    ]


@pytest.mark.parametrize(
    ("kind", "stored", "read"),
    [
        ("bool", "true", "true"),
        ("smallint", "7", "7"),
        ("char(5)", "'no'", "no"),
        ("varchar(5)", "'no '", "no "),
        ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("name", "'no'", "no"),
    ],
)
def test_levels_are_the_text_of_what_is_stored(server: Callable[..., str], kind: str, stored: str, read: str) -> None:
    url = server(f"person text, x numeric, born date, level {kind}", f"'a', 1.50, null, {stored}")
    assert rows_of(asking(url)) == [("a", 1.5, None, read)]


@pytest.mark.parametrize(
    ("columns", "name", "kind"),
    [
        ("person bigint, x text, born date, level text", "x", "text"),
        ("person bigint, x float8, born timestamp, level text", "born", "timestamp"),
        ("person bigint, x float8, born date, level float8", "level", "float8"),
        ("person float8, x float8, born date, level text", "person", "float8"),
        ("person bigint, x date, born date, level text", "x", "date"),
    ],
)
def test_a_wrong_type_is_named(server: Callable[..., str], columns: str, name: str, kind: str) -> None:
    assert f"column {name} is stored as {kind}. Store it as" in refusal(asking(server(columns)))


def test_a_role_with_other_settings_changes_nothing(postgresql: Server, server: Callable[..., str]) -> None:
    url = server(COLUMNS, "1, 0.1::float8 + 0.2, '1970-02-03', 'n'")
    with postgresql.connect(url.rpartition("/")[2]) as connection:
        for setting in ("extra_float_digits = -5", "datestyle = 'SQL, DMY'"):
            connection.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET {setting}".encode())
    assert rows_of(asking(url)) == [("1", 0.1 + 0.2, 33.0, "n")]
    assert rows_of(asking(f"{url}?options=-cwork_mem%3D4MB")) == [("1", 0.1 + 0.2, 33.0, "n")]


def test_a_pass_sees_one_state_and_writes_nothing(postgresql: Server, server: Callable[..., str]) -> None:
    url = server(COLUMNS, "1, 1, null, 'n'")
    engine = source_postgresql.make_engine(url)
    with engine.connect() as connection, postgresql.connect(url.rpartition("/")[2]) as other:
        source_postgresql.prepare(connection)
        count = "SELECT count(*)::text FROM t"
        assert connection.exec_driver_sql(count).scalar() == b"1"
        other.execute("INSERT INTO t VALUES ('2026-01', 2, 2, null, 's')")
        assert connection.exec_driver_sql(count).scalar() == b"1"
        with pytest.raises(DBAPIError, match="read-only transaction") as caught:
            connection.exec_driver_sql("DELETE FROM t")
    assert isinstance(caught.value.orig, psycopg.errors.ReadOnlySqlTransaction)
    engine.dispose()


def test_a_query_that_fails_on_its_way_is_refused_without_a_word_of_its_own(server: Callable[..., str]) -> None:
    url = server(COLUMNS, "1, 1, null, 'n'", "2, 0, null, 'n'")
    text = f"SELECT person, 1 / x AS x, born, level, '{CANARY}' FROM t WHERE month = :period"
    message = refusal(asking(url, text), reading=True)
    assert "does not answer the query" in message
    assert lay_out(asking(url, text)).types["x"] == "float8"  # the shape is right


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # its cursor goes with its connection
def test_a_query_may_take_its_time_and_a_server_that_is_stopped_is_given_up(
    mortal_postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_postgresql, "SILENCE", 0.5)
    with mortal_postgresql.connect() as connection:
        connection.execute("CREATE TABLE t (month text, person int, x float8, born date, level text)")
        connection.execute("INSERT INTO t VALUES ('2026-01', 1, 1, null, 'n')")
    url = mortal_postgresql.url("postgres")
    assert rows_of(asking(url, "SELECT t.*, pg_sleep(2) FROM t WHERE month = :period")) == [("1", 1.0, None, "n")]
    monkeypatch.setitem(source_postgresql.REACHING, "connect_timeout", 2)
    with ExitStack() as stopped:
        layout = lay_out(asking(url, "SELECT t.*, pg_sleep(2) FROM t WHERE month = :period"))
        threading.Timer(1, lambda: stopped.enter_context(mortal_postgresql.silent())).start()
        began = time.monotonic()
        with pytest.raises(ShapeMismatch, match="the database does not answer the query"):
            list(layout.batches())
        assert time.monotonic() - began < 30
    gc.collect()


def test_progress_says_nothing_of_how_many_rows_there_are(small: str) -> None:
    from dataclasses import replace

    from tests.support.small_tables import source as wages

    heard: list[float] = []
    text = "SELECT person, x AS wage, x AS age, level AS female, level AS region FROM t WHERE month = :period"
    table = replace(wages(Path("unused")), path=(), query=Query(url=small, text=text, period="2026-01"))
    read_statistics(table, STATISTIC, key=KEY, progress=heard.append)
    assert heard == [1.0]
