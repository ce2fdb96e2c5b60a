"""Parquet files as a list of row groups of a proven shape; a failure here names columns and types, never content."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types

from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import ShapeMismatch
from storage.source import ColumnRule, TableSource

NUMBERS = ("integer", "float", "decimal", "boolean")
LEVELS = ("string", "integer", "boolean")
UNITS = ("string", "integer")

_KINDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("integer", types.is_integer),
    ("float", types.is_floating),
    ("decimal", types.is_decimal),
    ("boolean", types.is_boolean),
    ("string", types.is_string),
    ("string", types.is_large_string),
    ("string", types.is_string_view),
    ("null", types.is_null),  # a column without any value: fits everywhere, else one value more would change the shape
)

T = TypeVar("T")
Arrow = Any  # pyarrow's own classes carry no type information
_min_max: Any = pc.min_max  # pyright: ignore[reportAttributeAccessIssue]  # made when pyarrow loads


@dataclass(frozen=True, repr=False)
class RowGroup(Confidential):
    """One unit of work; the file is opened anew for each, so that memory does not grow with the file."""

    table: str
    path: Path
    metadata: Arrow  # holds minima and maxima of the columns
    index: int

    @property
    def size(self) -> int:
        """Bytes, for progress only."""
        return self.metadata.row_group(self.index).total_byte_size

    def read(self, columns: tuple[str, ...]) -> Arrow:
        """The named columns."""
        table = _attempt(lambda: self._read(columns))
        if table is None:
            raise ShapeMismatch(
                f"cannot read table {self.table}: the content of a file is damaged. Write the table again."
            )
        return table

    def _read(self, columns: tuple[str, ...]) -> Arrow:
        with (
            pa.OSFile(str(self.path), "rb") as file,
            pq.ParquetFile(file, metadata=self.metadata) as parquet,
        ):
            table = parquet.read_row_group(self.index, columns=list(columns), use_threads=False).select(columns)
        for column in table.columns:
            _check_dictionaries(column)
        return table


@dataclass(frozen=True, repr=False)
class Layout(Confidential):
    """A table whose shape is as declared: its row groups, and the type of each column as the first file stores it."""

    groups: tuple[RowGroup, ...]
    types: dict[str, str]


def lay_out(source: TableSource) -> Layout:
    """Check the declared shape from the files' footers alone, and list the row groups; `ShapeMismatch` otherwise."""
    table = Path(source.path).name
    groups: list[RowGroup] = []
    first: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for path in _files(Path(source.path), table):
        footer = _attempt(lambda path=path: _footer(path))
        if footer is None:
            raise ShapeMismatch(
                f"cannot read table {table}: a file of it is not readable as Parquet. Write it again as Parquet."
            )
        schema, metadata = footer
        found = {name: _stored_type(schema, name, allowed, table) for name, allowed in _declared(source)}
        for name, (kind, spelling) in found.items():
            first.setdefault(name, spelling)
            if kind != "null" and kinds.setdefault(name, kind) != kind:
                raise ShapeMismatch(
                    f"cannot read table {table}: column {name} is {kinds[name]} in one file and {kind} in another. "
                    "Write all files with the same types."
                )
        groups += [RowGroup(table, path, metadata, index) for index in range(metadata.num_row_groups)]
    return Layout(tuple(groups), first)


def _files(path: Path, table: str) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ShapeMismatch(
            f"cannot read table {table}: no such file or folder. Put it in place, or correct the source's path."
        )
    entries = _attempt(lambda: sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_"))))
    if not entries:
        raise ShapeMismatch(
            f"cannot read table {table}: the folder holds no Parquet file. Put the table's files in it."
        )
    if not all(entry.is_file() for entry in entries):
        raise ShapeMismatch(
            f"cannot read table {table}: the folder holds another folder. Put all Parquet files directly in it."
        )
    return entries


def _footer(path: Path) -> tuple[Arrow, Arrow]:
    with pa.OSFile(str(path), "rb") as file, pq.ParquetFile(file) as parquet:
        return parquet.schema_arrow, parquet.metadata


def _declared(source: TableSource) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each column to find and the kinds of storage it may have."""
    for rule in source.columns:
        yield rule.name, _allowed(rule)
    if source.unit is not None:
        yield source.unit, UNITS


def _allowed(rule: ColumnRule) -> tuple[str, ...]:
    return LEVELS if rule.bounds is None else NUMBERS


def _stored_type(schema: Arrow, name: str, allowed: tuple[str, ...], table: str) -> tuple[str, str]:
    places = schema.get_all_field_indices(name)
    if not places:
        raise ShapeMismatch(
            f"cannot read table {table}: column {name} is missing. Add it to the table, or drop it from the study."
        )
    if len(places) > 1:
        raise ShapeMismatch(f"cannot read table {table}: column {name} occurs more than once. Write each column once.")
    stored = schema.field(places[0]).type
    kind = _kind(stored)
    if kind not in (*allowed, "null"):
        raise ShapeMismatch(
            f"cannot read table {table}: column {name} is stored as {_spelling(stored)}. "
            f"Store it as {', '.join(allowed[:-1])} or {allowed[-1]}."
        )
    return kind, _spelling(stored)


def _kind(stored: Arrow) -> str:
    plain = stored.value_type if types.is_dictionary(stored) else stored
    return next((kind for kind, fits in _KINDS if fits(plain)), "other")


def _spelling(stored: Arrow) -> str:
    # a nested or extension type spells out names of its own making
    return (
        "a nested or extension type" if stored.num_fields or isinstance(stored, pa.BaseExtensionType) else str(stored)
    )


def _check_dictionaries(column: Arrow) -> None:
    # the reader takes the places in a dictionary page on trust
    for chunk in column.chunks if types.is_dictionary(column.type) else ():
        ends = _min_max(chunk.indices).as_py()
        if ends["max"] is not None and not 0 <= ends["min"] <= ends["max"] < len(chunk.dictionary):
            raise ValueError("a place lies outside its dictionary")


def _attempt(read: Callable[[], T]) -> T | None:
    """The result, or None: the caller raises outside the handler, so that no cause or context can carry content."""
    try:
        return read()
    except MemoryError:
        raise
    except Exception:
        return None
