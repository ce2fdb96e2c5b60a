"""Lists the batches of the table that a study declares: files, a query, or files of each holder."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpbayes.secure.sources.batch import Arrow, Batch, BatchStream, Layout, Scanner
from dpbayes.secure.sources.files import files_of
from dpbayes.study.table_source import Holders, TableSource
from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import ShapeMismatch


def lay_out(source: TableSource) -> Layout:
    """Check the declared shape without reading a value, and list the batches; raises `ShapeMismatch` otherwise."""
    if source.holders is not None and source.holders.paths:
        return _lay_out_holders(source, source.holders)
    if source.query is not None:
        from dpbayes.secure.sources.sql import lay_out_query

        return lay_out_query(source, source.query)
    from dpbayes.secure.sources.csv import is_csv, lay_out_csv
    from dpbayes.secure.sources.parquet import lay_out_parquet

    files = files_of(source)
    delimited = [is_csv(file.name) for file in files]
    if any(delimited) and not all(delimited):
        raise ShapeMismatch(
            f"cannot read table {source.name}: some of its files are CSV and others are not. Write all files alike."
        )
    layout = lay_out_csv(source, files) if delimited and delimited[0] else lay_out_parquet(source, files)
    known = [file.identity for file in files]
    return replace(layout, unchanged=lambda: [file.identity for file in files_of(source)] == known)


@dataclass(frozen=True, repr=False)
class HolderBatch(Confidential):
    """One holder's rows, extended by a column that names the holder."""

    rows: Batch
    column: str
    holder: str

    @property
    def file(self) -> str:
        """Base name of the file."""
        return self.rows.file

    @property
    def index(self) -> int:
        """Place within the file."""
        return self.rows.index

    @property
    def size(self) -> int:
        """Bytes, for progress."""
        return self.rows.size

    @property
    def identity(self) -> str:
        """Identifies the holder and the part of its table."""
        return f"{self.holder}\n{self.rows.identity}"

    def read(self, columns: tuple[str, ...]) -> Arrow:
        """The named columns of the holder's files, and the column of holders."""
        return self._with_holder(self.rows.read(self._stored(columns)))

    def pieces(self, columns: tuple[str, ...], rows: int) -> Iterator[Arrow]:
        """The same as several smaller tables, where the holder's files support that."""
        read: Any = getattr(self.rows, "pieces", None)
        if read is None:
            yield self.read(columns)
        else:
            yield from (self._with_holder(piece) for piece in read(self._stored(columns), rows))

    def _stored(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in columns if name != self.column)

    def _with_holder(self, table: Arrow) -> Arrow:
        codes = pa.array(np.zeros(table.num_rows, np.int8))
        return table.append_column(self.column, pa.DictionaryArray.from_arrays(codes, [self.holder]))


@dataclass(frozen=True, repr=False)
class HolderStream(Confidential):
    """One holder's batches, each extended by a column that names the holder."""

    stream: BatchStream
    column: str
    holder: str

    @property
    def size(self) -> int:
        """Bytes, for progress."""
        return self.stream.size

    def batches(self) -> Iterator[Batch]:
        """The holder's batches in their order."""
        return (HolderBatch(batch, self.column, self.holder) for batch in self.stream.batches())


def _of_holder(place: Batch | BatchStream, column: str, holder: str) -> Batch | BatchStream:
    return HolderStream(place, column, holder) if isinstance(place, BatchStream) else HolderBatch(place, column, holder)


def _lay_out_holders(source: TableSource, holders: Holders) -> Layout:
    """Every holder's files as a table of its own, one after the other; absent holders are left out."""
    columns = tuple(rule for rule in source.columns if not rule.names_holders)
    here = {name: paths for name, paths in zip(holders.names, holders.paths, strict=True) if paths}
    tables = [replace(source, path=paths, columns=columns, holders=None) for paths in here.values()]
    found = [file.place for table in tables for file in files_of(table)]
    if len(set(found)) < len(found):
        raise ShapeMismatch(
            f"cannot read table {source.name}: a file of it is that of two holders. Give each holder files of its own."
        )
    layouts = [lay_out(table) for table in tables]

    def batches() -> Iterator[Batch]:
        for name, layout in zip(here, layouts, strict=True):
            for batch in layout.batches():
                yield HolderBatch(batch, holders.column, name)

    def places(scanner: Scanner) -> Iterator[Batch | BatchStream]:
        found = [layout.batches() if layout.places is None else layout.places(scanner) for layout in layouts]
        return (_of_holder(one, holders.column, name) for name, own in zip(here, found, strict=True) for one in own)

    known = [layout.identity for layout in layouts if layout.identity is not None]
    return Layout(
        types=layouts[0].types,
        batches=batches,
        size=sum(layout.size for layout in layouts),
        identity="\n\n".join(known) if len(known) == len(layouts) else None,
        unchanged=lambda: all(layout.unchanged() for layout in layouts),
        places=places,
    )
