"""The few statements of every charge, sent to the driver directly: through SQLAlchemy they take twice the time."""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError


class Lent:
    """A connection on loan from an engine's pool, and nothing more."""

    def __init__(self, engine: Engine) -> None:
        self.dialect = engine.dialect
        self.connection = engine.raw_connection()

    def invalidate(self, exception: BaseException | None = None) -> None:
        """Take the connection out of the pool for good."""
        self.connection.invalidate(exception)


Wire = Lent | Connection
"""A connection of SQLAlchemy's, or as much of one as a transaction needs."""


def at_once(wire: Wire, statement: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Any]:
    """The rows that a statement returns, in the connection's transaction; errors are those of SQLAlchemy."""
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
    """Make a transaction durable; errors are those of SQLAlchemy."""
    try:
        wire.connection.commit()
    except wire.dialect.loaded_dbapi.Error as error:
        raise _failed(wire, error) from None


@contextmanager
def transaction(engine: Engine, begin: str) -> Generator[Lent]:
    """A transaction from its first statement to its commit; any error rolls all of it back."""
    try:
        lent = Lent(engine)
    except engine.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(None, None, error, hide_parameters=True) from None
    try:
        at_once(lent, begin)
        yield lent
        commit(lent)
    finally:
        lent.connection.close()  # back to the pool, which rolls back what was not committed


def _failed(wire: Wire, error: Exception) -> DBAPIError:
    gone = wire.dialect.is_disconnect(error, wire.connection, None)  # type: ignore[arg-type]
    if gone:
        wire.invalidate(error)
    return DBAPIError(None, None, error, hide_parameters=True, connection_invalidated=gone)


@cache
def _percent(statement: str) -> str:
    """The statement with its parameters named as PostgreSQL's driver wants them."""
    return re.sub(r":(\w+)", r"%(\1)s", statement)
