"""The ledger on PostgreSQL: the same table, one advisory lock around every write."""

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import URL, Connection, Engine, create_engine

from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.ledger.entries import BEFORE_GENESIS

LOCK = 0x6470_6261_7965_73  # "dpbayes": one per database
PATIENCE = 60.0  # seconds to wait for another writer; one that falls silent for half of it loses its turn
NEEDED = {"server_encoding": "UTF8", "fsync": "on"}

TRIGGERS: tuple[str, ...] = (
    """CREATE OR REPLACE FUNCTION entry_refuses() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'ledger entries are never changed or deleted'; END $$""",
    f"""CREATE OR REPLACE FUNCTION entry_must_follow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.seq IS DISTINCT FROM (SELECT coalesce(max(seq), 0) + 1 FROM entry)
    OR NEW.prev_hash IS DISTINCT FROM
    coalesce((SELECT hash FROM entry ORDER BY seq DESC LIMIT 1), '{BEFORE_GENESIS}')
    THEN RAISE EXCEPTION 'ledger entries follow the last one'; END IF; RETURN NEW; END $$""",
    "CREATE TRIGGER entry_never_changes BEFORE UPDATE OR DELETE ON entry FOR EACH ROW EXECUTE FUNCTION entry_refuses()",
    "CREATE TRIGGER entry_never_goes BEFORE TRUNCATE ON entry FOR EACH STATEMENT EXECUTE FUNCTION entry_refuses()",
    "CREATE TRIGGER entry_follows_the_last BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION entry_must_follow()",
)


def make_engine(url: URL, *, create: bool) -> Engine:
    """An engine on the database, which must exist."""
    try:
        # read committed: what follows the lock must see what the last holder wrote
        return create_engine(
            url.set(drivername="postgresql+psycopg"),
            hide_parameters=True,
            connect_args={"client_encoding": "utf8"},
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
        )
    except ModuleNotFoundError:
        pass
    raise DpbayesError("cannot open the ledger: psycopg is not installed. Install it, or keep the ledger on SQLite.")


def prepare(engine: Engine) -> None:
    """Refuse a server that cannot keep what a ledger promises."""
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
    with engine.begin() as connection:
        # in one round trip; a writer whose machine vanished must not keep the lock for ever
        connection.exec_driver_sql(
            "SELECT set_config('synchronous_commit', 'on', true), "
            f"set_config('lock_timeout', '{PATIENCE}s', true), "
            f"set_config('idle_in_transaction_session_timeout', '{PATIENCE / 2}s', true), "
            f"pg_advisory_xact_lock({LOCK})"
        )
        yield connection


@contextmanager
def snapshot(engine: Engine) -> Generator[Connection]:
    """A reading transaction."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        yield connection
