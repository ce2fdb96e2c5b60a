"""The rows of a query as a stream of batches, from a transaction that reads one state of the database and never writes.

Every value comes as the database's own text, so that a driver's conversion can neither fail on a value nor round it.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpbayes.secure.sources import postgresql, sqlite
from dpbayes.secure.sources.batch import Arrow, Batch, Layout, attempt
from dpbayes.secure.sources.csv import typed
from dpbayes.secure.sources.shape import check_kind, declared, place_of, places_of
from dpbayes.study.table_source import ColumnRule, Query, TableSource
from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import ShapeMismatch, TableMissing

if TYPE_CHECKING:
    from sqlalchemy import CursorResult

ROWS = 1 << 16  # of one batch


@dataclass(frozen=True, repr=False)
class SqlBatch(Confidential):
    """Rows as the database sent them."""

    file: str
    index: int
    columns: dict[str, Arrow]  # text, or numbers already
    source: TableSource
    size: int = 0  # not known

    @property
    def identity(self) -> str:
        """Identifies the batch within the stream."""
        return f"{self.file}\n{self.index}"

    def read(self, columns: tuple[str, ...]) -> Arrow:
        """The named columns: numbers and days as declared, else text."""
        rules = self.source.stored
        return pa.table([_read(self.columns[name], rules.get(name)) for name in columns], names=list(columns))


def lay_out_query(source: TableSource, query: Query) -> Layout:
    """Check the columns of the query's result; its rows are fetched during the pass."""
    with _result(source, query) as answer:
        found = attempt(lambda: (list(answer.keys()), list(_dialect(query).stored_types(answer))))
    names, stored = _answered(found, source)
    places = places_of(names)
    types: dict[str, str] = {}
    for name, allowed in declared(source):
        kind, types[name] = stored[place_of(places, name, source.name)]
        check_kind(kind, types[name], name, allowed, source.name)
    return Layout(types, lambda: _batches(source, query), 0, None)


def _batches(source: TableSource, query: Query) -> Iterator[Batch]:
    with _result(source, query) as answer:
        found = places_of(answer.keys())
        places = [place_of(found, name, source.name) for name in source.names]
        types = _dialect(query).stored_types(answer)
        stored = [types[place][0] for place in places]
        rules = source.stored
        index = 0
        while rows := _answered(attempt(lambda: answer.fetchmany(ROWS)), source):
            columns = {
                name: _column([row[place] for row in rows], kind, rules.get(name))
                for name, place, kind in zip(source.names, places, stored, strict=True)
            }
            yield SqlBatch(source.name, index, columns, source)
            index += 1


@contextmanager
def _result(source: TableSource, query: Query) -> Generator["CursorResult[Any]"]:
    """The result of the query, before any row is fetched."""
    engine = _answered(attempt(lambda: _dialect(query).make_engine(query.url)), source)
    try:
        connection = _answered(attempt(engine.connect), source)
        with connection:
            answer = _answered(attempt(lambda: _execute(connection, query)), source, TableMissing)
            try:
                yield answer
            finally:
                attempt(answer.close)
    finally:
        engine.dispose()


def _execute(connection: Any, query: Query) -> Any:
    from sqlalchemy import text

    _dialect(query).prepare(connection)
    statement = text(query.text.strip().rstrip(";").replace("{period}", ":period"))
    streaming = connection.execution_options(stream_results=True)
    return streaming.execute(statement, {"period": query.period} if ":period" in statement.text else {})


def _dialect(query: Query) -> Any:
    return sqlite if query.url.startswith("sqlite") else postgresql


def _answered(answer: Any, source: TableSource, failure: type[ShapeMismatch] = ShapeMismatch) -> Any:
    if answer is None:
        raise failure(
            f"cannot read table {source.name}: the database does not answer the query. Check URL, password and query "
            "with the database's own client."
        )
    return answer


def _column(values: list[Any], kind: str, rule: ColumnRule | None) -> Arrow:
    """One column as text, which drivers give as bytes, or as numbers where SQLite returns nothing else."""
    if kind == "boolean":
        values = [_BOOLEANS.get(value) for value in values]
    array = attempt(partial(pa.array, values, pa.large_binary()))
    if array is None and rule is not None and rule.bounds is not None and rule.measure == "number":
        numbers = attempt(partial(pa.array, values, pa.float64()))  # fails on integers that it would round
        if numbers is not None:
            return numbers
    if array is None:
        spelled = [value if value is None or isinstance(value, bytes) else repr(value).encode() for value in values]
        array = pa.array(spelled, pa.large_binary())
    return array.view(pa.large_string())  # not checked to be UTF-8


def _read(column: Arrow, rule: ColumnRule | None) -> Arrow:
    return column if column.type == pa.float64() else typed(column, rule)


_BOOLEANS = {b"t": b"true", b"f": b"false"}
