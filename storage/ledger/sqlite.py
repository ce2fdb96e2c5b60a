"""The ledger on SQLite: one file, one writer at a time, every commit on disk before it is believed."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection

from dpbayes_core.errors import LedgerMissing, StudyInvalid
from storage.ledger import wire
from storage.ledger.entries import BEFORE_GENESIS

PATIENCE = 60.0  # seconds to wait for another writer

TRIGGERS: tuple[str, ...] = (
    "CREATE TRIGGER entry_never_changes BEFORE UPDATE ON entry "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries are never changed'); END",
    "CREATE TRIGGER entry_never_goes BEFORE DELETE ON entry "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries are never deleted'); END",
    # INSERT OR REPLACE deletes without asking the trigger above
    "CREATE TRIGGER entry_is_never_replaced BEFORE INSERT ON entry "
    "WHEN EXISTS (SELECT 1 FROM entry WHERE seq = NEW.seq OR key = NEW.key) "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries are never replaced'); END",
    "CREATE TRIGGER entry_follows_the_last BEFORE INSERT ON entry "
    "WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entry) OR NEW.prev_hash IS NOT "
    f"coalesce((SELECT hash FROM entry ORDER BY seq DESC LIMIT 1), '{BEFORE_GENESIS}') "
    "BEGIN SELECT RAISE(ABORT, 'ledger entries follow the last one'); END",
)


def make_engine(url: URL, *, create: bool) -> Engine:
    """An engine on the file; where it is not to be created, the file must exist."""
    if not url.database or url.database == ":memory:":
        raise StudyInvalid("cannot keep a ledger in memory: it must outlive the run. Name a file.")
    if not create and not Path(url.database).is_file():
        raise LedgerMissing(f"cannot open the ledger: there is no file {url.database}. Run `dpbayes ledger create`.")
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": PATIENCE})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def prepare(engine: Engine) -> None:
    """What is set once per database and outside any transaction."""
    with engine.connect().execution_options(bare=True) as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")


@contextmanager
def founding(engine: Engine) -> Generator[Connection]:
    """A transaction of the library's own that no other writer overlaps, for making the table."""
    with engine.connect().execution_options(immediate=True) as connection, connection.begin():
        yield connection


def exclusive(engine: Engine) -> AbstractContextManager[wire.Wire]:
    """A transaction that no other writer overlaps, from before its first read to its commit."""
    return wire.transaction(engine, "BEGIN IMMEDIATE")


def snapshot(engine: Engine) -> AbstractContextManager[wire.Wire]:
    """A reading transaction."""
    return wire.transaction(engine, "BEGIN")


def _prepare(connection: DBAPIConnection, record: object) -> None:
    connection.isolation_level = None  # the driver would begin too late; `_begin` does it
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA recursive_triggers = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("bare"):
        wire.at_once(connection, "BEGIN IMMEDIATE" if options.get("immediate") else "BEGIN")
