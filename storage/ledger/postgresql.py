"""The ledger on PostgreSQL: the same table, an advisory lock around every write, and time limits on all waits."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError

from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.ledger import raw_sql
from storage.ledger.entries import BEFORE_GENESIS

LOCK = 0x6470_6261_7965_73  # "dpbayes": one per database
PATIENCE = 60.0  # seconds to wait for the lock; a writer that is idle for half of it is disconnected
SILENCE = PATIENCE + 15  # seconds until a statement's server counts as hanging

REACHING: dict[str, str | int] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}
"""Connection options that limit the wait for an absent server; in seconds unless noted."""

NEEDED = {"server_encoding": "UTF8", "fsync": "on"}

TRIGGERS: tuple[str, ...] = (
    """CREATE OR REPLACE FUNCTION entry_refuses() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'ledger entries are never changed or deleted'; END $$""",
    f"""CREATE OR REPLACE FUNCTION entry_must_follow() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE last record;
    BEGIN
    SELECT seq, hash INTO last FROM entry ORDER BY seq DESC LIMIT 1;
    IF NEW.seq IS DISTINCT FROM coalesce(last.seq, 0) + 1
    OR NEW.prev_hash IS DISTINCT FROM coalesce(last.hash, '{BEFORE_GENESIS}')
    THEN RAISE EXCEPTION 'ledger entries follow the last one'; END IF; RETURN NEW; END $$""",
    "CREATE TRIGGER entry_never_changes BEFORE UPDATE OR DELETE ON entry FOR EACH ROW EXECUTE FUNCTION entry_refuses()",
    "CREATE TRIGGER entry_never_goes BEFORE TRUNCATE ON entry FOR EACH STATEMENT EXECUTE FUNCTION entry_refuses()",
    "CREATE TRIGGER entry_follows_the_last BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION entry_must_follow()",
)


def make_engine(url: URL, *, create: bool) -> Engine:
    """An engine for the database, which must exist."""
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            hide_parameters=True,
            connect_args=REACHING | {"client_encoding": "utf8"},
            isolation_level="AUTOCOMMIT",  # until `_begin` begins
        )
        give_up_after(engine, SILENCE)
    except ModuleNotFoundError:
        engine = None
    if engine is None:
        raise DpbayesError("cannot open the ledger: psycopg is not installed. Install it, or keep it on SQLite.")
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def give_up_after(engine: Engine, seconds: float, *, if_silent: bool = False) -> None:
    """Raise if a statement takes longer; with `if_silent`, only if the server does not answer a ping either.

    The kernel of a suspended server still acknowledges packets, so that neither keepalives nor the server's own
    timeouts help. Whether the last statement was executed is then unknown, and the caller has to find out.
    """
    import psycopg
    from psycopg.errors import OperationalError
    from psycopg.errors import _WaitTimeout as TooLong  # pyright: ignore[reportPrivateUsage]
    from psycopg.pq import PGconn, Ping

    class GivenUp(OperationalError):
        """The server did not answer: whether the statement was executed is unknown."""

        given_up = True

    class Connection(psycopg.Connection[Any]):
        """The driver's connection, with a time limit on waits."""

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            while True:
                try:
                    return super().wait(gen, interval, seconds if timeout is None else timeout)
                except TooLong:
                    if timeout is not None:
                        raise
                if not if_silent or PGconn.ping(self.info.dsn.encode()) not in (Ping.OK, Ping.REJECT):
                    self.pgconn.finish()  # so that nothing waits for it again, such as a rollback
                    raise GivenUp("the connection is given up: its server does not answer")

    def connect(dialect: Any, record: Any, arguments: Any, named: Any) -> Any:
        return Connection.connect(*arguments, **named)

    event.listen(engine, "do_connect", connect)


def make_reader(url: URL) -> Engine:
    """The same engine: reading transactions are declared read-only, so a role with SELECT alone suffices."""
    return make_engine(url, create=False)


def prepare(engine: Engine) -> None:
    """Refuse a server whose settings do not make commits durable or text UTF-8."""
    with engine.connect() as connection:
        for setting, needed in NEEDED.items():
            found = connection.exec_driver_sql(f"SHOW {setting}").scalar()
            if found != needed:
                raise StudyInvalid(
                    f"cannot create the ledger: its database has {setting} {found}, not {needed}. Change the setting, "
                    "or name another database."
                )


@contextmanager
def exclusive(engine: Engine) -> Generator[Connection]:
    """A transaction that no other writer overlaps, from before its first read to its commit."""
    # read committed: statements after the lock must see what the last writer committed
    begin = (
        "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT set_config('synchronous_commit', 'on', true), "
        f"set_config('lock_timeout', '{PATIENCE}s', true), "
        f"set_config('idle_in_transaction_session_timeout', '{PATIENCE / 2}s', true), "
        f"pg_advisory_xact_lock({LOCK})"
    )
    with _begun(engine, begin) as connection:
        yield connection


founding = exclusive


@contextmanager
def snapshot(engine: Engine) -> Generator[Connection]:
    """A reading transaction."""
    with _begun(engine, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
        yield connection


@contextmanager
def _begun(engine: Engine, begin: str) -> Generator[Connection]:
    """A transaction begun in one round trip; a pooled connection that the server has closed is replaced."""
    with ExitStack() as stack:
        connection = stack.enter_context(engine.connect().execution_options(begin=begin))
        try:
            stack.enter_context(connection.begin())
        except DBAPIError as error:
            if not error.connection_invalidated or getattr(error.orig, "given_up", False):
                raise
            connection = stack.enter_context(engine.connect().execution_options(begin=begin))
            stack.enter_context(connection.begin())
        yield connection


def _prepare(connection: DBAPIConnection, record: object) -> None:
    cursor = connection.cursor()
    # without table statistics, the planner would read and sort all rows to find the last entry
    cursor.execute("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET jit = off")
    cursor.close()


def _begin(connection: Connection) -> None:
    begin: str | None = connection.get_execution_options().get("begin")
    if begin is not None:
        raw_sql.execute(connection, begin)  # in one round trip with the lock; the driver's own BEGIN would be another
