"""Send the few statements of a charge directly to the driver, which takes half the time of SQLAlchemy."""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError


class PooledConnection:
    """A driver connection from an engine's pool, with the attributes of SQLAlchemy's `Connection` used here."""

    def __init__(self, engine: Engine) -> None:
        self.dialect = engine.dialect
        self.connection = engine.raw_connection()

    def invalidate(self, exception: BaseException | None = None) -> None:
        """Remove the connection from the pool."""
        self.connection.invalidate(exception)


AnyConnection = PooledConnection | Connection
"""SQLAlchemy's connection, or the part of one that a transaction needs."""


def execute(connection: AnyConnection, statement: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Any]:
    """Execute a statement in the connection's transaction and return its rows; errors are SQLAlchemy's."""
    cursor = connection.connection.cursor()
    try:
        if parameters is None:
            cursor.execute(statement)
        else:
            cursor.execute(
                _pyformat(statement) if connection.dialect.paramstyle == "pyformat" else statement, parameters
            )
        return cursor.fetchall() if cursor.description else []
    except connection.dialect.loaded_dbapi.Error as error:
        raise _error_of(connection, error) from None
    finally:
        cursor.close()


def commit(connection: AnyConnection) -> None:
    """Commit the transaction; errors are SQLAlchemy's."""
    try:
        connection.connection.commit()
    except connection.dialect.loaded_dbapi.Error as error:
        raise _error_of(connection, error) from None


@contextmanager
def transaction(engine: Engine, begin: str) -> Generator[PooledConnection]:
    """A transaction that is committed at the end of the block, and rolled back on any error."""
    try:
        pooled = PooledConnection(engine)
    except engine.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(None, None, error, hide_parameters=True) from None
    try:
        execute(pooled, begin)
        yield pooled
        commit(pooled)
    finally:
        pooled.connection.close()  # returns it to the pool, which rolls back what was not committed


def _error_of(connection: AnyConnection, error: Exception) -> DBAPIError:
    gone = connection.dialect.is_disconnect(error, connection.connection, None)  # type: ignore[arg-type]
    if gone:
        connection.invalidate(error)
    return DBAPIError(None, None, error, hide_parameters=True, connection_invalidated=gone)


@cache
def _pyformat(statement: str) -> str:
    """The statement with `:name` parameters rewritten as `%(name)s` for psycopg."""
    return re.sub(r":(\w+)", r"%(\1)s", statement)
