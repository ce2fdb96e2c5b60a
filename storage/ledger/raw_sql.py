"""The few statements of every charge, straight to the driver: the library's own way takes twice the time."""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

from sqlalchemy import Dialect, Engine, PoolProxiedConnection
from sqlalchemy.exc import DBAPIError


class Wire(Protocol):
    """A connection of the library's, or as much of one as a transaction needs."""

    @property
    def dialect(self) -> Dialect:
        """What the library knows of the driver."""
        ...

    @property
    def connection(self) -> PoolProxiedConnection:
        """The driver's connection, on loan from the pool."""
        ...

    def invalidate(self, exception: BaseException | None = None) -> None:
        """Let nobody have the connection again."""
        ...


class Lent:
    """A connection on loan from an engine's pool, and nothing more."""

    def __init__(self, engine: Engine) -> None:
        self.dialect = engine.dialect
        self.connection = engine.raw_connection()

    def invalidate(self, exception: BaseException | None = None) -> None:
        """Let nobody have the connection again."""
        self.connection.invalidate(exception)


def at_once(wire: Wire, statement: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Any]:
    """What a statement answers, in the connection's transaction; it fails as the library would."""
    cursor = wire.connection.cursor()
    try:
        if parameters is None:
            cursor.execute(statement)
        else:
            cursor.execute(_percent(statement) if wire.dialect.paramstyle == "pyformat" else statement, parameters)
        return cursor.fetchall() if cursor.description else []
    except wire.dialect.loaded_dbapi.Error as error:
        raise _failed(wire, error) from None
    finally:
        cursor.close()


def commit(wire: Wire) -> None:
    """Make a transaction durable; it fails as the library would."""
    try:
        wire.connection.commit()
    except wire.dialect.loaded_dbapi.Error as error:
        raise _failed(wire, error) from None


@contextmanager
def transaction(engine: Engine, begin: str) -> Generator[Lent]:
    """A transaction from its first statement to its commit; whatever goes wrong in it, it never was."""
    try:
        lent = Lent(engine)
    except engine.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(None, None, error, hide_parameters=True) from None
    try:
        at_once(lent, begin)
        yield lent
        commit(lent)
    finally:
        lent.connection.close()  # back to the pool, which takes back what was not committed


def _failed(wire: Wire, error: Exception) -> DBAPIError:
    gone = wire.dialect.is_disconnect(error, wire.connection, None)  # type: ignore[arg-type]
    if gone:
        wire.invalidate(error)
    return DBAPIError(None, None, error, hide_parameters=True, connection_invalidated=gone)


@cache
def _percent(statement: str) -> str:
    """The statement with its parameters named as PostgreSQL's driver wants them."""
    return re.sub(r":(\w+)", r"%(\1)s", statement)
