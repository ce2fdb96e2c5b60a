"""PostgreSQL as a source: a read-only snapshot behind a server-side cursor, every value as the server's own text.

Passwords come from PGPASSWORD or a .pgpass file, which the driver's library reads by itself.
"""

from collections.abc import Sequence
from typing import Any

from storage.ledger.postgresql import REACHING, give_up_after

SILENCE = 30.0  # seconds without a row, after which the connection is checked: a query may take hours

_KINDS = {
    "bool": "boolean",
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "float4": "float",
    "float8": "float",
    "numeric": "decimal",
    "date": "date",
    "text": "string",
    "varchar": "string",
    "bpchar": "string",
    "name": "string",
    "uuid": "string",
}
_FIRST_OWN_TYPE = 16384  # types from this number on are declared in the database itself
# shortest text that reads back as the same double, dates as YYYY-MM-DD, whatever the role's settings
_SETTINGS = "-c extra_float_digits=1 -c datestyle=ISO"


def make_engine(url: str) -> Any:
    """An engine whose transactions are read-only snapshots."""
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.pool import NullPool

    address = make_url(url)
    given = address.query.get("options", "")
    options = " ".join([given if isinstance(given, str) else " ".join(given), _SETTINGS]).strip()
    address = address.set(drivername="postgresql+psycopg").update_query_dict({"options": options})
    engine = create_engine(
        address,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args=REACHING | {"client_encoding": "utf8", "application_name": "dpbayes"},
        isolation_level="REPEATABLE READ",
        execution_options={"postgresql_readonly": True},
    )
    give_up_after(engine, SILENCE, if_silent=True)
    return engine


def prepare(connection: Any) -> None:
    """Deliver every value as the text that the server sends."""
    import psycopg
    from psycopg.adapt import Loader

    class AsSent(Loader):
        """The server's text, not decoded, since it may not be in the declared encoding."""

        def load(self, data: Any) -> Any:
            return bytes(data)

    class Padded(AsSent):
        """Text of a fixed width, without the spaces that fill it."""

        def load(self, data: Any) -> Any:
            return bytes(data).rstrip(b" ")

    adapters = connection.connection.dbapi_connection.adapters
    for info in psycopg.postgres.types:
        adapters.register_loader(info.oid, Padded if info.name == "bpchar" else AsSent)
        adapters.register_loader(info.array_oid, AsSent)
    adapters.register_loader(0, AsSent)  # every type that the driver does not know


def stored_types(answer: Any) -> Sequence[tuple[str, str]]:
    """Kind and name of the type of each column."""
    import psycopg

    known = {info.oid: info.name for info in psycopg.postgres.types}
    found: list[tuple[str, str]] = []
    for column in answer.cursor.description:
        name = known.get(column.type_code)
        if name is None and column.type_code >= _FIRST_OWN_TYPE:
            found.append(("string", "a type of the database's own"))  # enumerations come as their labels
        else:
            found.append((_KINDS.get(name or "", "other"), name or "a type without a name"))
    return found
