"""Waits for a PostgreSQL server that end: where it is stopped, hangs, or its network swallows what is sent.

A server that is stopped still acknowledges every packet, so that neither keepalives nor its own timeouts help. What it
was asked last may have been done: whoever gives up knows nothing, and has to look again.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Engine

REACHING: dict[str, str | int] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}
"""Seconds until a server that is not there, or no longer there, is given up."""


def give_up_after(engine: "Engine", seconds: float, *, if_silent: bool = False) -> None:
    """No statement of the engine waits longer; or, where one may take long, no longer while the server is silent."""
    import psycopg
    from psycopg.errors import OperationalError
    from psycopg.errors import _WaitTimeout as TooLong  # pyright: ignore[reportPrivateUsage]
    from psycopg.pq import PGconn, Ping
    from sqlalchemy import event

    class GivenUp(OperationalError):
        """The server was asked, and nobody knows what it did."""

        given_up = True

    class Connection(psycopg.Connection[Any]):
        """The driver's connection, whose waits end."""

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            while True:
                try:
                    return super().wait(gen, interval, seconds if timeout is None else timeout)
                except TooLong:
                    if timeout is not None:
                        raise
                if not if_silent or PGconn.ping(self.info.dsn.encode()) not in (Ping.OK, Ping.REJECT):
                    self.pgconn.finish()  # nobody is to wait for it once more, be it only to roll back
                    raise GivenUp("the connection is given up: its server does not answer")

    def connect(dialect: Any, record: Any, arguments: Any, named: Any) -> Any:
        return Connection.connect(*arguments, **named)

    event.listen(engine, "do_connect", connect)
