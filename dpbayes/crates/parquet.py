"""Writes and reads the Parquet files of crates; the same numbers give the same bytes."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

import numpy as np

from dpbayes.crates.format import MOST_FOOTER
from dpbayes_core.arrays import Floats
from dpbayes_core.errors import IntegrityFailure

INDEX_COLUMNS = ("chain", "draw")
TEXT = "BYTE_ARRAY"
ROW_GROUP = 1 << 20
MOST_AT_ONCE = 1 << 27  # bytes in memory of one part's lines, if each is as long as the file


def noisy_parquet(lines: Sequence[Mapping[str, Any]]) -> bytes:
    """A release's noisy numbers, one line each: whole numbers, text and floats as the first line has them."""
    import pyarrow as pa

    kinds = {int: pa.int32(), str: pa.string(), float: pa.float64()}
    columns = {name: kinds[type(value)] for name, value in lines[0].items()} if lines else {}
    return _bytes({name: pa.array([line[name] for line in lines], kind) for name, kind in columns.items()})


def read_noisy(data: bytes) -> list[dict[str, Any]]:
    """The lines that `noisy_parquet` wrote."""
    return cast("list[dict[str, Any]]", read_table(data, "noisy statistics").to_pylist())


def draws_parquet(draws: Mapping[str, Floats]) -> bytes:
    """Posterior draws, one line a draw: chain, draw, then one column for each parameter of shape (chains, draws)."""
    import pyarrow as pa

    shapes = {values.shape for values in draws.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2 or set(INDEX_COLUMNS) & set(draws):
        raise ValueError("cannot encode draws: they need one shape (chains, draws) and names other than chain, draw")
    chains, count = next(iter(shapes))
    columns: dict[str, Any] = {
        "chain": pa.array(np.repeat(np.arange(chains, dtype=np.int32), count)),
        "draw": pa.array(np.tile(np.arange(count, dtype=np.int32), chains)),
    }
    for name, values in draws.items():
        columns[name] = pa.array(np.ascontiguousarray(values, dtype=np.float64).reshape(-1))
    return _bytes(columns)


def read_draws(data: bytes) -> dict[str, Floats]:
    """The inverse of `draws_parquet`; several readers share the arrays, which therefore cannot be changed."""
    return dict(_draws(data))


@lru_cache(maxsize=1)  # an audit asks for the draws of a crate several times
def _draws(data: bytes) -> Mapping[str, Floats]:
    table = read_table(data, "posterior draws")
    names = cast("Sequence[str]", table.column_names)
    columns = {name: column_values(table.column(i)) for i, name in enumerate(names)}
    if tuple(names[:2]) != INDEX_COLUMNS or not table.num_rows:
        raise IntegrityFailure("cannot read posterior draws: chain and draw do not lead. Restore the crate.")
    chains = int(columns["chain"].max()) + 1
    found = {name: values.reshape(chains, -1) for name, values in columns.items() if name not in INDEX_COLUMNS}
    for values in found.values():
        values.flags.writeable = False
    return found


def column_values(column: Any) -> Any:
    """The values of a column; plain numbers by DLPack, because Arrow's own way imports pandas, which is slow."""
    import pyarrow as pa

    plain = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if plain and column.num_chunks == 1 and not column.null_count:
        return np.from_dlpack(column.chunk(0))
    return np.asarray(column)


def _bytes(columns: Mapping[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table(dict(columns)),
        sink,
        row_group_size=ROW_GROUP,
        compression="none",  # noise does not compress, and bytes without a codec are readable for ever
        use_dictionary=False,
        version="2.6",
    )
    return cast("bytes", sink.getvalue().to_pybytes())


def parquet_table(data: bytes) -> Any:
    """A whole Parquet file, read in this thread: a pool of Arrow's that is alive at exit may abort the process."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False) as file:
        return file.read(use_threads=False)


@lru_cache(maxsize=1024)  # the noisy statistics of a release are in the crate of every posterior drawn from it, too
def columns_of(data: bytes, what: str) -> tuple[tuple[str, ...], int]:
    """The columns of a file that this module wrote and its number of lines, out of its footer alone."""
    with _reading(data, what) as file:
        return tuple(file.schema_arrow.names), int(file.metadata.num_rows)


@lru_cache(maxsize=2)  # the draws of a crate, and its noisy statistics
def read_table(data: bytes, what: str) -> Any:
    """The whole table, read in parts; a table that becomes much larger than its file is refused."""
    import pyarrow as pa

    with _reading(data, what) as file:
        text = any(file.schema.column(at).physical_type == TEXT for at in range(file.metadata.num_columns))
        lines = max(1, min(ROW_GROUP, MOST_AT_ONCE // len(data))) if text else ROW_GROUP
        found, size = list[Any](), 0
        for batch in file.iter_batches(batch_size=lines, use_threads=False):
            found.append(batch)
            size += int(batch.nbytes)
            if size > 2 * len(data):
                raise _not_written(what)
        return pa.Table.from_batches(found, file.schema_arrow)


@contextmanager
def _reading(data: bytes, what: str) -> Generator[Any]:
    """A file whose footer is like those that dpbayes writes: plain columns without compression."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if len(data) < _TAIL or int.from_bytes(data[-_TAIL:-4], "little") > MOST_FOOTER:
        raise _not_whole(what)
    limits: dict[str, Any] = {"thrift_string_size_limit": MOST_FOOTER, "thrift_container_size_limit": MOST_FOOTER // 8}
    try:
        with pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, **limits) as file:
            if not _is_plain(file.metadata, len(data)):
                raise _not_written(what)
            yield file
    except (pa.ArrowException, OSError):  # arrow's own words could quote bytes of the file
        raise _not_whole(what) from None


def _is_plain(footer: Any, size: int) -> bool:
    """Whether every value has its own bytes in the file: flat columns of known types without compression."""
    widths = [_WIDTHS.get(column.physical_type, 0) for column in map(footer.schema.column, range(footer.num_columns))]
    flat = all(footer.schema.column(place).max_repetition_level == 0 for place in range(footer.num_columns))
    groups = [footer.row_group(place) for place in range(footer.num_row_groups)]
    chunks = (group.column(place) for group in groups for place in range(footer.num_columns))
    return (
        flat
        and all(widths)
        and footer.num_rows * sum(widths) <= size
        and footer.num_rows == sum(group.num_rows for group in groups)
        and all(chunk.compression == "UNCOMPRESSED" and chunk.num_values <= footer.num_rows for chunk in chunks)
    )


def _not_whole(what: str) -> IntegrityFailure:
    return IntegrityFailure(f"cannot read {what}: the file is not whole Parquet. Restore the crate.")


def _not_written(what: str) -> IntegrityFailure:
    return IntegrityFailure(
        f"cannot read {what}: the Parquet file is packed as dpbayes packs none, and may unpack to anything. "
        "Restore the crate."
    )


_TAIL = 8  # the length of the footer, and four letters
_WIDTHS = {"INT32": 4, "INT64": 8, "DOUBLE": 8, TEXT: 4}
