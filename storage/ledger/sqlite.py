"""The ledger on SQLite: one file, one writer at a time, every commit on disk before it is reported."""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection

from dpbayes_core.errors import DpbayesError, LedgerMissing, StudyInvalid
from storage.ledger import raw_sql
from storage.ledger.entries import BEFORE_GENESIS

PATIENCE = 60.0  # seconds to wait for another writer

TRIGGERS: tuple[str, ...] = (
    "CREATE TRIGGER entry_never_changes BEFORE UPDATE ON entry "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries are never changed'); END",
    "CREATE TRIGGER entry_never_goes BEFORE DELETE ON entry "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries are never deleted'); END",
    # INSERT OR REPLACE deletes without firing the trigger above
    "CREATE TRIGGER entry_is_never_replaced BEFORE INSERT ON entry "
    "WHEN EXISTS (SELECT 1 FROM entry WHERE seq = NEW.seq OR key = NEW.key) "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries are never replaced'); END",
    "CREATE TRIGGER entry_follows_the_last BEFORE INSERT ON entry "
    "WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entry) OR NEW.prev_hash IS NOT "
    f"coalesce((SELECT hash FROM entry ORDER BY seq DESC LIMIT 1), '{BEFORE_GENESIS}') "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries follow the last one'); END",
)


def make_engine(url: URL, *, create: bool) -> Engine:
    """An engine for the file, which must exist unless `create` is set."""
    _file(url, create=create)
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": PATIENCE})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def make_reader(url: URL) -> Engine:
    """An engine that writes nothing in the file's folder, for readers without write permission."""
    path = _file(url, create=False)
    at_rest: dict[Path, tuple[int, ...]] = {}

    def connect() -> sqlite3.Connection:
        # SQLite reads an existing write-ahead log, but without one would create it: `immutable` prevents that
        alone = not Path(f"{path}-wal").exists()
        if alone:
            at_rest.setdefault(path, _fingerprint(path))
        how = f"mode=ro{'&immutable=1' if alone else ''}"
        return sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, timeout=PATIENCE, check_same_thread=False)

    def unchanged() -> bool:
        return all(fingerprint == _fingerprint(path) for fingerprint in at_rest.values())

    engine = create_engine(url, hide_parameters=True, creator=connect, execution_options={"unchanged": unchanged})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _file(url: URL, *, create: bool) -> Path:
    if not url.database or url.database == ":memory:":
        raise StudyInvalid("cannot keep a ledger in memory: it must outlive the run. Name a file.")
    path = Path(url.database)
    if not create and not path.is_file():
        raise LedgerMissing(f"cannot open the ledger: there is no file {path}. Run `dpbayes ledger create`.")
    return path.absolute()


def _fingerprint(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def prepare(engine: Engine) -> None:
    """Set the journal mode, once for each database and outside any transaction."""
    with engine.connect().execution_options(bare=True) as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")


@contextmanager
def founding(engine: Engine) -> Generator[Connection]:
    """A SQLAlchemy transaction that no other writer overlaps, to make the table in."""
    with engine.connect().execution_options(immediate=True) as connection, connection.begin():
        yield connection


def exclusive(engine: Engine) -> AbstractContextManager[raw_sql.AnyConnection]:
    """A transaction that no other writer overlaps, from before its first read to its commit."""
    return raw_sql.transaction(engine, "BEGIN IMMEDIATE")


@contextmanager
def snapshot(engine: Engine) -> Generator[raw_sql.AnyConnection]:
    """A reading transaction; raises if the file was opened as immutable but changed meanwhile."""
    unchanged: Callable[[], bool] | None = engine.get_execution_options().get("unchanged")
    try:
        with raw_sql.transaction(engine, "BEGIN") as connection:
            yield connection
    finally:
        if unchanged is not None and not unchanged():
            raise DpbayesError("cannot read the ledger: somebody wrote to it meanwhile. Run again.")


def _prepare(connection: DBAPIConnection, record: object) -> None:
    connection.isolation_level = None  # the driver would begin too late; `_begin` does it
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA recursive_triggers = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("bare"):
        raw_sql.execute(connection, "BEGIN IMMEDIATE" if options.get("immediate") else "BEGIN")
