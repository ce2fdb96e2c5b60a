"""Charges against bare durable inserts: what price, caps, chain, noise and lock cost on top of the commit itself."""

import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, BigInteger, Column, MetaData, Table, Text, create_engine, event, make_url

from dpbayes_core.canonical import canonical_json
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from tests.support.ledger_cases import STAMP, commit
from tests.support.long_ledger import MECHANISM, lengthen, numbered_request
from tests.support.postgres import Server, binaries, new_folder

LENGTHS = (100, 100_000)
ROUNDS, PER_ROUND = 40, 20  # in turns, so that the disk is as busy for all
TEXTS = ("kind", "key", "payload", "release", "prev_hash", "hash", "account", "period", "programme")
BARE = Table(
    "bare",
    MetaData(),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    *(Column(name, Text, unique=name == "key") for name in TEXTS),
)
Row = dict[str, Any]
Insert = Callable[[Row], Any]


@contextmanager
def sqlite(folder: Path) -> Iterator[tuple[str, URL]]:
    """Addresses of a ledger and of a bare table in the same folder."""
    yield f"sqlite:///{folder / 'ledger.db'}", make_url(f"sqlite:///{folder / 'bare.db'}")


@contextmanager
def postgresql(folder: Path) -> Iterator[tuple[str, URL]]:
    """The same on a new PostgreSQL server."""
    programs = binaries()
    assert programs is not None
    server = Server(folder, programs)
    server.start()
    try:
        yield server.new_database(), make_url(server.new_database()).set(drivername="postgresql+psycopg")
    finally:
        server.stop()


@contextmanager
def by_library(url: URL) -> Iterator[Insert]:
    """One insert to a transaction through SQLAlchemy, as any program that uses it would."""
    engine = create_engine(url)
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", as_durable_as_the_ledger)
    BARE.create(engine)
    statement = BARE.insert()

    def insert(row: Row) -> None:
        with engine.begin() as connection:
            connection.execute(statement, row)

    yield insert
    engine.dispose()


@contextmanager
def by_driver(url: URL) -> Iterator[Insert]:
    """One insert to a transaction by the bare driver, which begins and commits by itself."""
    import psycopg

    names = ("seq", *TEXTS)
    if url.get_backend_name() == "sqlite":
        values = ", ".join(f":{name}" for name in names)
        connection: Any = sqlite3.connect(str(url.database), isolation_level=None)
        as_durable_as_the_ledger(connection, None)
    else:
        values = ", ".join(f"%({name})s" for name in names)
        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        connection = psycopg.connect(plain, autocommit=True)
    with closing(connection):
        yield lambda row: connection.execute(f"INSERT INTO bare ({', '.join(names)}) VALUES ({values})", row)


def as_durable_as_the_ledger(connection: Any, record: object) -> None:
    """What the ledger sets on SQLite; on PostgreSQL every commit is durable as it comes."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def compare(ledger: Ledger, entries: int, clients: dict[str, Insert]) -> dict[str, float]:
    """Charges and bare inserts per second, in a ledger of so many entries."""
    number = lengthen(ledger, entries)
    spent = dict.fromkeys(("charges", *clients), 0.0)
    for round_ in range(-1, ROUNDS):  # the first is for warming up
        requests = [numbered_request(number + turn) for turn in range(PER_ROUND)]
        number += PER_ROUND
        start = time.perf_counter()
        charged = [commit(ledger, request, MECHANISM) for request in requests]
        took = {"charges": time.perf_counter() - start}
        for offset, (client, insert) in enumerate(clients.items()):
            rows = [row_of(entry, 2 * entry.seq + offset) for entry in charged]
            start = time.perf_counter()
            for row in rows:
                insert(row)
            took[client] = time.perf_counter() - start
        if round_ >= 0:
            spent = {what: spent[what] + took[what] for what in spent}
    return {what: ROUNDS * PER_ROUND / seconds for what, seconds in spent.items()}


def row_of(entry: Entry, number: int) -> Row:
    """The row that the ledger wrote, under another number and key."""
    record = entry.to_record() | {"payload": canonical_json(entry.payload).decode()} | entry.copies
    return record | {"seq": number, "key": f"{number} {entry.key}"}


def main(lengths: tuple[int, ...] = LENGTHS) -> None:
    """Print the ratios for both databases at every length."""
    print("ledger: charges per second, and what share that is of bare durable inserts of the same rows, one by one")
    print(
        f"{'database':<12}{'entries':>9}{'charges/s':>11}{'SQLAlchemy/s':>14}{'ratio':>7}{'driver/s':>10}{'ratio':>7}"
    )
    for place in (sqlite, postgresql):
        if place is postgresql and binaries() is None:
            print("postgresql: no server on this machine. Install it with `apt-get install postgresql`.")
            continue
        for entries in lengths:
            rates = measured(place, entries)
            charges, library, driver = rates["charges"], rates["library"], rates["driver"]
            print(
                f"{place.__name__:<12}{entries:>9,}{charges:>11.0f}{library:>14.0f}{charges / library:>7.0%}"
                f"{driver:>10.0f}{charges / driver:>7.0%}",
                flush=True,
            )


def measured(place: Callable[[Path], AbstractContextManager[tuple[str, URL]]], entries: int) -> dict[str, float]:
    """The rates on one kind of database, created for this and deleted afterwards."""
    folder = new_folder(on_disk=True)
    try:
        with (
            place(folder) as (address, bare),
            by_library(bare) as library,
            by_driver(bare) as driver,
            Ledger.create(address, STAMP) as ledger,
        ):
            return compare(ledger, entries, {"library": library, "driver": driver})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or LENGTHS)
