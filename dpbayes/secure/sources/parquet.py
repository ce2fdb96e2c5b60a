"""Parquet files as a list of row groups whose shape was checked; failures name columns and types, never content."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types

from dpbayes.secure.sources.batch import Arrow, Batch, Layout, attempt
from dpbayes.secure.sources.files import File
from dpbayes.secure.sources.shape import NULL, check_kind, declared, kind_of, place_of, places_of, spelling_of
from dpbayes.study.table_source import TableSource
from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import ShapeMismatch

_min_max: Any = pc.min_max  # pyright: ignore[reportAttributeAccessIssue]  # made when pyarrow loads
_MILLISECONDS_A_DAY = 86_400_000


@dataclass(frozen=True, repr=False)
class RowGroup(Confidential):
    """One unit of work; the file is opened anew for each, so that memory does not grow with the file."""

    table: str
    place: File
    metadata: Arrow  # contains minima and maxima of the columns
    dictionaries: tuple[int, ...]  # leaves of the schema that are dictionaries of text
    index: int

    @property
    def file(self) -> str:
        """Base name of the file."""
        return self.place.name

    @property
    def size(self) -> int:
        """Bytes, for progress only."""
        return self.metadata.row_group(self.index).total_byte_size

    @property
    def identity(self) -> str:
        """Which row group of which file."""
        return f"{self.place.place}\n{self.index}"

    def read(self, columns: tuple[str, ...]) -> Arrow:
        """The named columns; dates as days, decimals as the nearest doubles."""
        return self._undamaged(attempt(lambda: self._read(columns)))

    def pieces(self, columns: tuple[str, ...], rows: int) -> Iterator[Arrow]:
        """The same as several tables of about `rows` rows, to save memory."""
        with ExitStack() as stack:
            batches = self._undamaged(attempt(lambda: self._batches(columns, rows, stack)))
            while (piece := self._undamaged(attempt(lambda: next(batches, _END)))) is not _END:
                yield self._undamaged(attempt(partial(_declared_table, pa.Table.from_batches([piece]), columns)))

    def _read(self, columns: tuple[str, ...]) -> Arrow:
        with self.place.open_arrow() as file, self._parquet(file) as parquet:
            return _declared_table(
                parquet.read_row_group(self.index, columns=list(columns), use_threads=False), columns
            )

    def _batches(self, columns: tuple[str, ...], rows: int, stack: ExitStack) -> Any:
        file = stack.enter_context(self.place.open_arrow())
        parquet = stack.enter_context(self._parquet(file))
        return parquet.iter_batches(rows, row_groups=[self.index], columns=list(columns), use_threads=False)

    def _parquet(self, file: Arrow) -> Arrow:
        # by default Arrow casts a dictionary to the type it was written with: that fails for bytes that are not UTF-8
        # and for more values than its indices can number, so one row would decide whether the table is read
        return pq.ParquetFile(file, metadata=self.metadata, read_dictionary=self.dictionaries)

    def _undamaged(self, read: Arrow) -> Arrow:
        if read is None:
            raise self.damaged()
        return read

    def damaged(self) -> ShapeMismatch:
        """The error of a file whose content cannot be read."""
        return ShapeMismatch(
            f"cannot read table {self.table}: the content of a file is damaged. Write the table again."
        )


_END: Any = object()


def _declared_table(read: Arrow, columns: tuple[str, ...]) -> Arrow:
    table = read.select(columns)
    for column in table.columns:
        _check_dictionaries(column)
    return pa.table([_plain(column) for column in table.columns], names=list(columns))


def lay_out_parquet(source: TableSource, files: Sequence[File]) -> Layout:
    """Check the declared shape from the files' footers alone, and list the row groups; else `ShapeMismatch`."""
    table = source.name
    groups: list[Batch] = []
    first: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for file in files:
        footer = attempt(lambda file=file: _footer(file))
        if footer is None:
            raise ShapeMismatch(
                f"cannot read table {table}: a file of it is not readable as Parquet. Write it again as Parquet, or "
                "as CSV with a name that says so."
            )
        schema, metadata = footer
        for name, (kind, spelling) in _stored(schema, source).items():
            first.setdefault(name, spelling)
            if kind != NULL and kinds.setdefault(name, kind) != kind:
                raise ShapeMismatch(
                    f"cannot read table {table}: column {name} is {kinds[name]} in one file and {kind} in another. "
                    "Write all files with the same types."
                )
        dictionaries = _dictionaries(schema, metadata, source.names)
        groups += [RowGroup(table, file, metadata, dictionaries, index) for index in range(metadata.num_row_groups)]
    size = sum(group.size for group in groups)
    known = all(file.stamp for file in files)  # without a stamp a changed file may look unchanged
    return Layout(first, lambda: iter(groups), size, "\n".join(file.identity for file in files) if known else None)


def row_group_at(table: str, file: File, dictionaries: tuple[int, ...], index: int) -> RowGroup:
    """The row group that another machine laid out, with the footer read here; raises `ShapeMismatch` if damaged."""
    footer = attempt(lambda: _footer(file))
    group = RowGroup(table, file, None if footer is None else footer[1], dictionaries, index)
    if footer is None or index >= footer[1].num_row_groups:
        raise group.damaged()
    return group


def _footer(file: File) -> tuple[Arrow, Arrow]:
    with file.open_arrow() as opened, pq.ParquetFile(opened) as parquet:
        return parquet.schema_arrow, parquet.metadata


def _dictionaries(schema: Arrow, metadata: Arrow, names: Sequence[str]) -> tuple[int, ...]:
    """The declared columns that are stored as dictionaries of text; other dictionaries are read as plain columns."""
    wanted = {name for name in names if _of_text(schema.field(name).type)}
    leaves = metadata.schema
    return tuple(leaf for leaf in range(len(leaves) if wanted else 0) if leaves.column(leaf).path in wanted)


def _of_text(stored: Arrow) -> bool:
    return types.is_dictionary(stored) and kind_of(stored) == "string"


def _stored(schema: Arrow, source: TableSource) -> dict[str, tuple[str, str]]:
    """Kind and spelling of each declared column."""
    found: dict[str, tuple[str, str]] = {}
    places = places_of(schema.names)
    for name, allowed in declared(source):
        stored = schema.field(place_of(places, name, source.name)).type
        check_kind(kind_of(stored), spelling_of(stored), name, allowed, source.name)
        found[name] = kind_of(stored), spelling_of(stored)
    return found


def _plain(column: Arrow) -> Arrow:
    """The column with dates as days, and decimals as the nearest doubles, which Arrow's own cast misses."""
    stored = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_decimal(stored):
        return pc.cast(pc.cast(_flat(column), pa.string()), pa.float64())
    if types.is_date32(stored):
        return pc.cast(_flat(column), pa.int32())
    if types.is_date64(stored):
        days = [_whole_days(chunk) for chunk in _flat(column).chunks]
        return pa.chunked_array(days, pa.int64())
    return column


def _whole_days(chunk: Arrow) -> Arrow:
    milliseconds = pc.fill_null(pc.cast(chunk, pa.int64()), 0).to_numpy()
    return pa.array(milliseconds // _MILLISECONDS_A_DAY, mask=chunk.is_null().to_numpy(zero_copy_only=False))


def _flat(column: Arrow) -> Arrow:
    return pc.cast(column, column.type.value_type) if types.is_dictionary(column.type) else column


def _check_dictionaries(column: Arrow) -> None:
    # the reader does not check the indices of a dictionary page
    for chunk in column.chunks if types.is_dictionary(column.type) else ():
        ends = _min_max(chunk.indices).as_py()
        if ends["max"] is not None and not 0 <= ends["min"] <= ends["max"] < len(chunk.dictionary):
            raise ValueError("an index is outside its dictionary")
