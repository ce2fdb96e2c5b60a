"""CSV as a stream of batches: the study declares types, every row is accepted, only header and encoding can fail."""

import codecs
import csv
import gzip
import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import BinaryIO, TypeVar, cast

import numpy as np
import pyarrow as pa

from dpbayes.secure.sources.batch import Arrow, Batch, BatchStream, Layout, Scanner, attempt
from dpbayes.secure.sources.csv_ranges import Start, cuts_of, damaged, scans_of
from dpbayes.secure.sources.csv_tokens import Bytes, Places, fields_of, first_row, gathered, whole_rows
from dpbayes.secure.sources.files import File
from dpbayes.secure.sources.shape import place_of, places_of
from dpbayes.secure.sources.text import days, numbers
from dpbayes.study.table_source import ColumnRule, TableSource
from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import ShapeMismatch

_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
CHUNK = 1 << 23  # bytes of text in one batch, approximately
LONGEST_ROW = 1 << 28
_HEADER, _LONGEST_HEADER = 1 << 16, 1 << 24  # bytes read at a time, and at most

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class CsvBatch(Confidential):
    """Whole rows of one file as bytes; they are split into fields when they are summed."""

    file: str
    index: int
    size: int  # bytes read from the file, compressed or not
    content: bytes
    delimiter: int
    places: tuple[int, ...]  # the position in a row of each column of the source
    source: TableSource

    @property
    def identity(self) -> str:
        """Identifies the file and the piece of it."""
        return f"{self.file}\n{self.index}"

    def read(self, columns: tuple[str, ...]) -> Arrow:
        """The named columns: numbers and days as declared, else text."""
        rules = self.source.stored
        content = np.frombuffer(self.content, np.uint8)
        most = self.content.count(b"\n") + self.content.count(b"\r") + 1
        slots = np.full(max(self.places) + 1, -1, np.int64)
        places = dict(zip(self.source.names, self.places, strict=True))
        slots[[places[name] for name in columns]] = np.arange(len(columns))
        rows, found = fields_of(content, self.delimiter, slots, most)
        read = [typed(_text(content, found[place, :rows]), rules.get(name)) for place, name in enumerate(columns)]
        return pa.table(read, names=list(columns))


@dataclass(frozen=True, repr=False)
class CsvRange(Confidential):
    """The place of whole rows in one file; they are read when they are summed."""

    whole: File
    index: int
    begin: int
    end: int
    places: tuple[int, ...]
    source: TableSource

    @property
    def file(self) -> str:
        """Base name of the file."""
        return self.whole.name

    @property
    def size(self) -> int:
        """Bytes, for progress."""
        return self.end - self.begin

    @property
    def identity(self) -> str:
        """Identifies the file and the piece of it."""
        return f"{self.file}\n{self.index}"

    def read(self, columns: tuple[str, ...]) -> Arrow:
        """The named columns, as of the same rows in a `CsvBatch`."""
        content = attempt(self._content)
        if content is None or len(content) < self.size:
            raise damaged(self.source.name)
        delimiter = _delimiter(self.whole)
        rows = CsvBatch(self.file, self.index, self.size, content, delimiter, self.places, self.source)
        return rows.read(columns)

    def _content(self) -> bytes:
        with self.whole.open() as opened:
            opened.seek(self.begin)
            return opened.read(self.size)


@dataclass(frozen=True, repr=False)
class CsvFile(Confidential):
    """A whole file, whose batches only a reader from its beginning can tell, as of compressed text."""

    whole: File
    places: tuple[int, ...]
    source: TableSource
    block: int  # bytes read at a time

    @property
    def size(self) -> int:
        """Bytes, for progress."""
        return self.whole.size

    def batches(self) -> Iterator[Batch]:
        """The batches of the file."""
        return _batches(self.whole, self.places, self.source, self.block)


def is_csv(name: str) -> bool:
    """Whether a file's name says that it is delimited text."""
    return name.lower().endswith(_ENDINGS)


def typed(text: Arrow, rule: ColumnRule | None) -> Arrow:
    """A column of text as its declaration reads it; a column without declaration names people."""
    if rule is None or rule.bounds is None:
        return text
    return days(text) if rule.measure == "date" else numbers(text)


def lay_out_csv(source: TableSource, files: Sequence[File]) -> Layout:
    """Check header and encoding of every file; rows are read during the pass."""
    places = [_places(file, source) for file in files]

    def batches() -> Iterator[Batch]:
        for file, where in zip(files, places, strict=True):
            yield from _batches(file, where, source, CHUNK)

    def ranges(scanner: Scanner) -> Iterator[Batch | BatchStream]:
        starts = [_start(file) for file in files]
        scans = [
            [] if start is None else scans_of(file, start, _delimiter(file), CHUNK, source.name)
            for file, start in zip(files, starts, strict=True)
        ]
        found = iter(scanner([scan for of_file in scans for scan in of_file]))
        cuts = [
            None if start is None else cuts_of(file, start, CHUNK, [next(found) for _ in of_file])
            for file, start, of_file in zip(files, starts, scans, strict=True)
        ]
        return chain.from_iterable(_places_in(*one, source) for one in zip(files, cuts, places, strict=True))

    size = sum(file.size for file in files)
    return Layout(dict.fromkeys(source.names, "text"), batches, size, None, places=ranges)


def _places_in(
    file: File, cuts: list[tuple[int, int]] | None, places: tuple[int, ...], source: TableSource
) -> Iterator[Batch | BatchStream]:
    """The batches of a file by their cuts; without cuts the file."""
    if cuts is None:
        return iter((CsvFile(file, places, source, CHUNK),))
    return (CsvRange(file, index, *cut, places, source) for index, cut in enumerate(cuts))


def _start(file: File) -> Start | None:
    """Where the rows of a file begin; None if it has to be read from its beginning, as compressed text has."""
    if file.name.lower().endswith(".gz"):
        return None
    return attempt(lambda: Start.of(file, _delimiter(file), CHUNK))


def _places(file: File, source: TableSource) -> tuple[int, ...]:
    header = attempt(lambda: _header(file))
    if header is None:
        raise ShapeMismatch(
            f"cannot read table {source.name}: a file of it is not readable as CSV in UTF-8. Write it again in UTF-8."
        )
    if not header:
        raise ShapeMismatch(
            f"cannot read table {source.name}: a file of it has no header. Write the column names in its first line."
        )
    places = places_of(header)
    return tuple(place_of(places, name, source.name) for name in source.names)


def _header(file: File) -> list[str]:
    with _opened(file) as (text, _):
        start = b""
        while (found := _first_row(start, file)) is None and len(start) < _LONGEST_HEADER:
            more = text.read(min(CHUNK, _HEADER))
            if not more:
                break
            start = (start + more).removeprefix(codecs.BOM_UTF8)
    begin, end = found or (0, len(start))
    row = start[begin:end].decode("utf-8")
    return next(csv.reader(io.StringIO(row, newline=""), delimiter=chr(_delimiter(file))), [])


def _first_row(start: bytes, file: File) -> tuple[int, int] | None:
    """Where the first row that is not empty begins and ends, if it ends inside `start`."""
    begin, end = first_row(np.frombuffer(start, np.uint8), _delimiter(file))
    return None if end < 0 else (int(begin), int(end))


def _batches(file: File, places: tuple[int, ...], source: TableSource, block: int) -> Generator[Batch]:
    with ExitStack() as stack:
        opened = attempt(lambda: stack.enter_context(_opened(file)))
        text, raw = _readable(opened, source)
        rest, index, counted, after_header = b"", 0, 0, False
        while True:
            read: bytes = _readable(attempt(partial(text.read, max(block, len(rest)))), source)
            content = rest + read if after_header or rest else read.removeprefix(codecs.BOM_UTF8)
            rows, rest = _cut(content, file, source, last=not read)
            if not after_header:  # the header is still to come
                found = _first_row(rows, file)
                rows, after_header = (rows[found[1] :], True) if found else (b"", False)
            if rows:
                position = int(raw.tell())
                yield CsvBatch(file.name, index, position - counted, rows, _delimiter(file), places, source)
                index, counted = index + 1, position
            if not read:
                return


def _cut(content: bytes, file: File, source: TableSource, *, last: bool) -> tuple[bytes, bytes]:
    """Whole rows, and the rest of the content."""
    end, quote_open = whole_rows(np.frombuffer(content, np.uint8), _delimiter(file))
    if quote_open if last else len(content) - end > LONGEST_ROW:
        raise ShapeMismatch(
            f"cannot read table {source.name}: a quote in a file of it is never closed. Write it again as CSV."
        )
    return (content, b"") if last else (content[:end], content[end:])


def _readable(read: T | None, source: TableSource) -> T:
    if read is None:
        raise damaged(source.name)
    return read


@contextmanager
def _opened(file: File) -> Generator[tuple[BinaryIO, BinaryIO]]:
    """The text's bytes, and the file that they come from, whose position shows the progress."""
    with file.open() as raw:
        if file.name.lower().endswith(".gz"):
            yield cast("BinaryIO", gzip.GzipFile(fileobj=raw)), raw
        else:
            yield raw, raw


def _delimiter(file: File) -> int:
    return ord("\t") if file.name.lower().endswith((".tsv", ".tsv.gz")) else ord(",")


def _text(content: Bytes, ends: Places) -> Arrow:
    text, offsets, null = gathered(content, np.ascontiguousarray(ends))
    valid = pa.array(~null).buffers()[1]
    return pa.Array.from_buffers(
        pa.large_string(), len(ends), [valid, pa.py_buffer(offsets), pa.py_buffer(text)], int(null.sum())
    )
