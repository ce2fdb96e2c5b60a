"""The database with the ledger's table: transactions on SQLite or PostgreSQL, and failures in words."""

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol

from sqlalchemy import URL, Connection, Engine, inspect, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from dpbayes_core.errors import DpbayesError, IntegrityFailure, LedgerMissing, StudyInvalid
from storage.ledger import postgresql, raw_sql, sqlite
from storage.ledger.entries import Entry
from storage.ledger.page import ENTRY, METADATA, Page, entry_of

CHUNK = 500  # entries read at a time


class Dialect(Protocol):
    """What differs between databases; each database is one module."""

    @property
    def TRIGGERS(self) -> tuple[str, ...]: ...  # noqa: N802 -- a constant of each module
    def make_engine(self, url: URL, *, create: bool) -> Engine: ...
    def make_reader(self, url: URL) -> Engine: ...
    def prepare(self, engine: Engine) -> None: ...
    def founding(self, engine: Engine) -> AbstractContextManager[Connection]: ...
    def exclusive(self, engine: Engine) -> AbstractContextManager[raw_sql.AnyConnection]: ...
    def snapshot(self, engine: Engine) -> AbstractContextManager[raw_sql.AnyConnection]: ...


DIALECTS: Mapping[str, Dialect] = {"sqlite": sqlite, "postgresql": postgresql}


class Store:
    """A database with the ledger's table, or one to make the table in."""

    def __init__(self, url: str, purpose: Literal["create", "write", "read"]) -> None:
        parsed = _parsed(url)
        self._dialect = DIALECTS[parsed.get_backend_name()]
        with plain_failures():
            if purpose == "read":
                self.engine = self._dialect.make_reader(parsed)
            else:
                self.engine = self._dialect.make_engine(parsed, create=purpose == "create")
            if purpose == "create":
                with self.disposed_on_failure():
                    self._dialect.prepare(self.engine)

    @contextmanager
    def disposed_on_failure(self) -> Generator[None]:
        """Close the connections to the database if the block fails."""
        try:
            yield
        except BaseException:
            self.engine.dispose()
            raise

    @contextmanager
    def exclusive(self) -> Generator[Page]:
        """A writing transaction under the ledger's lock: what is read in it stays true until its commit."""
        with plain_failures(), self._dialect.exclusive(self.engine) as connection:
            yield Page(connection)

    @contextmanager
    def founding(self) -> Generator[Page]:
        """A transaction that makes the table, for its first entry; refused if the table exists."""
        with plain_failures(), self._dialect.founding(self.engine) as connection:
            if inspect(connection).has_table(ENTRY.name):
                raise StudyInvalid("cannot create the ledger: there is one already. Use it as it is.")
            METADATA.create_all(connection)
            for statement in self._dialect.TRIGGERS:
                connection.exec_driver_sql(statement)
            yield Page(connection)

    @contextmanager
    def snapshot(self) -> Generator[Page]:
        """A consistent view for reading."""
        with plain_failures(), self._dialect.snapshot(self.engine) as connection:
            yield Page(connection)

    def has_table(self) -> bool:
        """Whether the table was ever made."""
        with plain_failures(), self.engine.connect() as connection:
            return inspect(connection).has_table(ENTRY.name)

    def require_table(self) -> None:
        """Refuse a database without the table."""
        if not self.has_table():
            raise LedgerMissing("cannot open the ledger: its table was never made. Run `dpbayes ledger create`.")

    def entries_after(self, seq: int) -> Iterator[Entry]:
        """Every later entry in order, without checking hashes, which `verify` does."""
        while True:
            with self.snapshot() as page:
                rows = page.after(seq, CHUNK)
            if not rows:
                return
            for row in rows:
                yield entry_of(row)
            seq = rows[-1][0]


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in DIALECTS:
        raise StudyInvalid(
            "cannot open the ledger: its URL is neither sqlite nor postgresql. Correct DPBAYES_LEDGER_URL."
        )
    return parsed


@contextmanager
def plain_failures() -> Generator[None]:
    """Raise database errors as our own, without the statement: that of a failed insert contains noisy values."""
    failure: DpbayesError | None = None
    try:
        yield
    except (SQLAlchemyError, UnicodeDecodeError) as error:
        failure = _plain(getattr(error, "orig", None))
    if failure is not None:
        try:
            raise failure
        finally:
            failure.__context__ = None  # set by the raise itself


RECOVER, AGAIN = "Run `dpbayes ledger recover`.", "run again."
SYMPTOMS: tuple[tuple[str, type[DpbayesError], str], ...] = (
    ("locked|55P03", DpbayesError, f"cannot write the ledger: another process keeps it locked. Wait and {AGAIN}"),
    ("25P03", DpbayesError, f"cannot write the ledger: this process was silent for too long. Please {AGAIN}"),
    ("disk is full|53100", DpbayesError, f"cannot write the ledger: the disk is full. Free some space and {AGAIN}"),
    ("readonly|25006", DpbayesError, f"cannot write the ledger: it is read-only. Make it writable and {AGAIN}"),
    (
        "42501",
        DpbayesError,
        "cannot use the ledger: its database does not let this user read or write it. Grant that, or name another "
        "user in DPBAYES_LEDGER_URL.",
    ),
    ("malformed|not a database", IntegrityFailure, f"cannot read the ledger: the file is damaged. {RECOVER}"),
    (
        "I/O error|unable to open",
        DpbayesError,
        f"cannot use the ledger: its file cannot be opened or written. Check its disk and folder and {AGAIN}",
    ),
    ("decode", IntegrityFailure, f"cannot read the ledger: a text in it is damaged. {RECOVER}"),
    ("never", IntegrityFailure, "cannot write the ledger: it only grows, entry by entry. Run `dpbayes audit`."),
    (
        "database .* does not exist",
        LedgerMissing,
        "cannot open the ledger: there is no such database. Create it, or correct DPBAYES_LEDGER_URL.",
    ),
    (
        "password|authentication failed|pg_hba|role .* (does not exist|is not permitted)|28P01|28000",
        DpbayesError,
        "cannot reach the ledger: its database does not accept this user or password. Correct DPBAYES_LEDGER_URL, or "
        "the password file.",
    ),
    (
        "resolve host|translate host|resolution|service not known|nodename nor servname",
        DpbayesError,
        "cannot reach the ledger: the name of its host is not known here. Correct DPBAYES_LEDGER_URL, or the network.",
    ),
    ("53300", DpbayesError, f"cannot reach the ledger: its database takes no more connections. Wait and {AGAIN}"),
    (
        "[Cc]onnection|could not (send|receive)",
        DpbayesError,
        f"cannot reach the ledger: its database does not answer. Start it and {AGAIN}",
    ),
)
"""A pattern for the driver's SQLSTATE and message (messages may be translated), the error's class, its words."""


def _plain(error: BaseException | None) -> DpbayesError:
    driver_says = f"{getattr(error, 'sqlstate', None) or ''} {error or ''}"
    for symptom, kind, words in SYMPTOMS:
        if re.search(symptom, driver_says):
            return kind(words)
    return DpbayesError("cannot use the ledger: its database failed. Check that it is there and run again.")
