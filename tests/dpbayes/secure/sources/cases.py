"""A declaration with every kind of column, and what a source makes of a file."""

from pathlib import Path
from typing import Any

import pytest

from dpbayes.secure.sources.batch import Batch
from dpbayes.secure.sources.open_source import lay_out
from dpbayes.study.table_source import ColumnRule, TableSource
from dpbayes_core.bounds import Bounds
from dpbayes_core.errors import ShapeMismatch

RULES = (
    ColumnRule(name="x", bounds=Bounds(0, 10)),
    ColumnRule(name="born", bounds=Bounds(-20_000, 20_000), measure="date"),
    ColumnRule(name="level", levels=("n", "s")),
)
NAMES = ("person", "x", "born", "level")
CANARY = "zebra-4711"


def source(path: Path | str) -> TableSource:
    return TableSource(path=str(path), columns=RULES, unit="person")


def rows_of(table: TableSource) -> list[tuple[Any, ...]]:
    """Every row as the batches give it; NaN as text, so that it equals itself."""
    rows: list[tuple[Any, ...]] = []
    for batch in lay_out(table).batches():
        columns = batch.read(NAMES).to_pydict()
        rows += zip(*(columns[name] for name in NAMES), strict=True)
    return [tuple("NaN" if value != value else value for value in row) for row in rows]


def all_batches(table: TableSource) -> list[Batch]:
    """Every batch, so that all of a stream was read."""
    return list(lay_out(table).batches())


def refusal(table: TableSource, *, reading: bool = False) -> str:
    """The message, after checking that nothing travels with it."""
    with pytest.raises(ShapeMismatch) as caught:
        all_batches(table) if reading else lay_out(table)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    message = str(caught.value)
    assert message.startswith("cannot read table ")
    assert CANARY not in message
    return message
