"""Arrow columns to finite numbers and level codes, whatever they hold: every rule about values is total."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from dpbayes_core.schema import Floats
from storage.profile import ColumnCounts
from storage.source import ColumnRule

Codes = NDArray[np.int64]
Column = Any  # pyarrow.ChunkedArray; pyarrow carries no type information
Chunk = Any  # pyarrow.Array

_UNKNOWN, _NULL = -1, -2
_index_in: Any = pc.index_in  # pyright: ignore[reportAttributeAccessIssue]  # made when pyarrow loads


def encode_column(column: Column, rule: ColumnRule) -> tuple[Floats | Codes, ColumnCounts]:
    """Numbers inside their bounds, or codes into the levels, with the count of every rule that had to act."""
    return _numbers(column, rule) if rule.levels is None else _codes(column, rule, rule.levels)


def _numbers(column: Column, rule: ColumnRule) -> tuple[Floats, ColumnCounts]:
    assert rule.bounds is not None
    low, high = rule.bounds.low, rule.bounds.high
    instead = rule.bounds.middle if rule.null_value is None else rule.null_value
    # one null for all that may hide in dictionaries; not safe: an integer past 2^53 must round, not raise
    plain = pc.cast(column, pa.float64(), safe=False)
    values = pc.fill_null(plain, instead).to_numpy()
    not_a_number = np.isnan(values)
    counts = ColumnCounts(
        nulls=plain.null_count,
        not_a_number=int(np.count_nonzero(not_a_number)),
        out_of_bounds=int(np.count_nonzero((values < low) | (values > high))),
    )
    if counts.not_a_number:
        values = np.where(not_a_number, instead, values)
    return np.clip(values, low, high), counts


def _codes(column: Column, rule: ColumnRule, levels: tuple[str, ...]) -> tuple[Codes, ColumnCounts]:
    wanted = pa.array(levels, pa.large_string())
    found = [_chunk_codes(chunk, wanted) for chunk in column.chunks]
    codes = np.concatenate(found) if found else np.empty(0, np.int64)
    unknown, null = codes == _UNKNOWN, codes == _NULL
    counts = ColumnCounts(nulls=int(np.count_nonzero(null)), unknown_levels=int(np.count_nonzero(unknown)))
    codes[unknown | null] = 0 if rule.unknown is None else levels.index(rule.unknown)
    return codes, counts


def _chunk_codes(chunk: Chunk, wanted: Chunk) -> Codes:
    if types.is_dictionary(chunk.type):
        return take_from_dictionary(chunk, _chunk_codes(chunk.dictionary, wanted), np.array(_NULL))
    text = pc.cast(chunk, pa.large_string())  # "true" / "false", integers in decimal
    codes = pc.fill_null(_index_in(text, value_set=wanted), _UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64)
    codes[missing(text)] = _NULL
    return codes


def take_from_dictionary(chunk: Chunk, of_values: NDArray[Any], of_null: NDArray[Any]) -> NDArray[Any]:
    """What belongs to each row of a dictionary array, from what belongs to each of its values and to null."""
    places = pc.fill_null(pc.cast(chunk.indices, pa.int64()), len(of_values)).to_numpy()
    return np.concatenate([of_values, of_null[None]])[places]


def missing(array: Chunk) -> NDArray[np.bool_]:
    """Where an Arrow array is null."""
    return array.is_null().to_numpy(zero_copy_only=False)
