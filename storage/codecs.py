"""Parquet as a pure function of what is stored: the same numbers give the same bytes, whoever writes them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.errors import IntegrityFailure

Floats = NDArray[np.float64]
INDEX_COLUMNS = ("chain", "draw")
ROW_GROUP = 1 << 20


def noisy_parquet(lines: Sequence[Mapping[str, Any]]) -> bytes:
    """A release's noisy numbers, one line each: whole numbers, text and floats as the first line has them."""
    import pyarrow as pa

    kinds = {int: pa.int32(), str: pa.string(), float: pa.float64()}
    columns = {name: kinds[type(value)] for name, value in lines[0].items()} if lines else {}
    return _bytes({name: pa.array([line[name] for line in lines], kind) for name, kind in columns.items()})


def read_noisy(data: bytes) -> list[dict[str, Any]]:
    """The lines that `noisy_parquet` wrote."""
    return cast("list[dict[str, Any]]", _table(data, "noisy statistics").to_pylist())


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
    """The inverse of `draws_parquet`."""
    table = _table(data, "posterior draws")
    names = cast("Sequence[str]", table.column_names)
    columns = {name: np.asarray(table.column(i)) for i, name in enumerate(names)}
    if tuple(names[:2]) != INDEX_COLUMNS or not table.num_rows:
        raise IntegrityFailure("cannot read posterior draws: chain and draw do not lead. Restore the crate.")
    chains = int(columns["chain"].max()) + 1
    return {name: values.reshape(chains, -1) for name, values in columns.items() if name not in INDEX_COLUMNS}


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


def _table(data: bytes, what: str) -> Any:
    import pyarrow as pa

    try:
        return parquet_table(data)
    except (pa.ArrowException, OSError):  # arrow's own words could quote bytes of the file
        raise IntegrityFailure(f"cannot read {what}: the file is not whole Parquet. Restore the crate.") from None
