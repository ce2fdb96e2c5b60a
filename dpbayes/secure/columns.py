"""Turns Arrow columns into finite numbers and level codes; every rule is defined for every value."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from dpbayes.secure.profile import ColumnCounts
from dpbayes.study.table_source import ColumnRule
from dpbayes_core.arrays import Floats, ShortIntegers
from dpbayes_core.exact_sums.kernels import (
    MISSING,
    NULL_CODE,
    UNKNOWN_CODE,
    clip_and_count,
    clip_and_count_known,
    look_up,
    replace_codes,
)
from dpbayes_core.regression.holders import UNDECLARED

BLOCK_ROWS = 32_768  # a block of a dozen columns stays in the processor's cache from clipping to summing
Column = Any  # pyarrow.ChunkedArray; pyarrow carries no type information
Chunk = Any  # pyarrow.Array

_if_else: Any = pc.if_else  # pyright: ignore[reportAttributeAccessIssue]
_index_in: Any = pc.index_in  # pyright: ignore[reportAttributeAccessIssue]  # made when pyarrow loads


class Reading:
    """Reads one batch block by block, and counts the values that broke a rule."""

    def __init__(self, rules: Sequence[ColumnRule]) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._counts = {name: Counter[str]() for name in self._rules}
        self.rows = 0

    def blocks(self, table: Any) -> Iterator[dict[str, Floats | ShortIntegers]]:
        """The columns, block by block: numbers inside their bounds, and codes of levels."""
        codes = {
            name: _codes(table.column(name), rule, rule.levels, self._counts[name])
            for name, rule in self._rules.items()
            if rule.levels is not None and rule.of is None
        }
        indicators = {
            name: _missing_in(table.column(rule.of.name), rule.of) for name, rule in self._rules.items() if rule.of
        }
        codes |= indicators
        self.rows += table.num_rows
        for start in range(0, max(table.num_rows, 1), BLOCK_ROWS):
            numbers = {
                name: _numbers(table.column(name).slice(start, BLOCK_ROWS), rule, self._counts[name])
                for name, rule in self._rules.items()
                if rule.levels is None
            }
            yield numbers | {name: column[start : start + BLOCK_ROWS] for name, column in codes.items()}

    def counts(self) -> dict[str, ColumnCounts]:
        """How often each rule was applied so far."""
        return {name: ColumnCounts(**counts) for name, counts in self._counts.items()}


def _numbers(column: Column, rule: ColumnRule, counts: Counter[str]) -> Floats:
    """The clipped numbers of one block, without a copy where Arrow allows it."""
    low, high, middle = _limits(rule)
    replacement = min(max(middle if rule.null_value is None else rule.null_value, low), high)
    replacement = np.nan if rule.stays_missing else replacement
    numbers = np.empty(len(column))
    if not len(column):
        return numbers
    # the cast decodes dictionaries, whose nulls have two forms; not safe: an integer past 2^53 must round, not raise
    plain = column if column.type == pa.float64() else pc.cast(column, pa.float64(), safe=False)
    codes, filled = _as_stored(rule.codes, column.type), 0
    for chunk in plain.chunks:
        valid, content = chunk.buffers()
        values = np.frombuffer(content, np.float64)[chunk.offset : chunk.offset + len(chunk)]
        out = numbers[filled : filled + len(chunk)]
        if rule.missing:
            chunk, values, valid = _with_nulls_for_codes(chunk, values, codes)
        if chunk.null_count:
            known = np.frombuffer(valid, np.uint8)
            broken = clip_and_count_known(values, known, chunk.offset, low, high, replacement, out)
        else:
            broken = clip_and_count(values, low, high, replacement, out)
        counts.update(nulls=chunk.null_count, not_a_number=int(broken[0]), out_of_bounds=int(broken[1]))
        filled += len(chunk)
    return numbers


def _as_stored(codes: tuple[float, ...], kind: Any) -> Floats:
    """The codes for missing values in a column's own type: floats below double precision round them."""
    value_type = kind.value_type if types.is_dictionary(kind) else kind
    narrow = np.float16 if types.is_float16(value_type) else np.float32 if types.is_float32(value_type) else np.float64
    with np.errstate(over="ignore"):
        found = np.array(codes, dtype=np.float64).astype(narrow).astype(np.float64)
    return found[np.isfinite(found)]


def _with_nulls_for_codes(chunk: Chunk, values: Floats, codes: Floats) -> tuple[Chunk, Floats, Any]:
    """The chunk with null in place of codes for missing values, its values and its validity."""
    coded = np.isin(values, codes)
    if not coded.any():
        return chunk, values, chunk.buffers()[0]
    plain = _if_else(pa.array(coded), pa.scalar(None, pa.float64()), chunk)
    valid, content = plain.buffers()
    return plain, np.frombuffer(content, np.float64)[plain.offset : plain.offset + len(plain)], valid


def _missing_in(column: Column, rule: ColumnRule) -> ShortIntegers:
    """1 where a column of a whole batch has no value, else 0; broken rules are counted with the column itself."""
    if rule.levels is not None:
        return (_codes(column, rule, rule.levels, Counter()) == MISSING).astype(np.int32)
    return np.isnan(_numbers(column, rule, Counter())).astype(np.int32)


def _limits(rule: ColumnRule) -> tuple[float, float, float]:
    """The bounds and the replacement of a missing number; without bounds nothing is clipped, and 0 replaces it."""
    if rule.bounds is None:
        return -np.inf, np.inf, 0.0
    return rule.bounds.low, rule.bounds.high, rule.bounds.middle


def _codes(column: Column, rule: ColumnRule, levels: tuple[str, ...], counts: Counter[str]) -> ShortIntegers:
    """The level codes of a whole batch, so that each dictionary is looked up once."""
    wanted = pa.array((*levels, *rule.words), pa.large_string())
    parts = [_chunk_codes(chunk, wanted) for chunk in column.chunks]
    codes = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int32), *parts])
    if rule.words:
        codes[codes >= len(levels)] = NULL_CODE
    nulls, unknown = replace_codes(codes, *_replacement_codes(rule, levels))
    counts.update(nulls=int(nulls), unknown_levels=int(unknown))
    return codes


def _replacement_codes(rule: ColumnRule, levels: tuple[str, ...]) -> tuple[int, int]:
    """The codes for null, and for a level that is not declared."""
    if rule.names_holders:
        return UNDECLARED, UNDECLARED
    unknown = None if rule.unknown is None else levels.index(rule.unknown)
    if rule.stays_missing:
        return MISSING, MISSING if unknown is None else unknown
    return unknown or 0, unknown or 0


def _chunk_codes(chunk: Chunk, wanted: Chunk) -> ShortIntegers:
    if types.is_dictionary(chunk.type):
        return take_from_dictionary(chunk, _chunk_codes(chunk.dictionary, wanted), np.array(NULL_CODE, np.int32))
    text = pc.cast(chunk, pa.large_string())  # "true" / "false", integers in decimal
    found = pc.fill_null(_index_in(text, value_set=wanted), UNKNOWN_CODE)
    codes = found.to_numpy(zero_copy_only=False).astype(np.int32)
    codes[missing(text)] = NULL_CODE
    return codes


def take_from_dictionary(chunk: Chunk, of_values: NDArray[Any], of_null: NDArray[Any]) -> NDArray[Any]:
    """The value of each row of a dictionary array, given the values of its entries and of null."""
    places = chunk.indices
    if places.null_count:
        places = pc.fill_null(pc.cast(places, pa.int64()), len(of_values))
    known = np.concatenate([of_values, of_null[None]])
    found = np.empty((len(places), *known.shape[1:]), known.dtype)
    look_up(places.to_numpy(), known, found)
    return found


def missing(array: Chunk) -> NDArray[np.bool_]:
    """Where an Arrow array is null."""
    return array.is_null().to_numpy(zero_copy_only=False)
