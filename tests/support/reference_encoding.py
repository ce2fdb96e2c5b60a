"""Rows as one dense matrix of integers, and its products: slower than the pass, and written independently of it."""

from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import AnyIntegers, Columns, Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.fixed_point import BITS, UNIT, rows_that_count
from dpbayes_core.regression.moments import BLOCK_ROWS, ExactStatistics
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.standardisation import Standardisation


@dataclass(frozen=True)
class EncodedRows:
    """Rows as (rows, m) integers in [-UNIT, UNIT], stored as float64."""

    schema: RegressionSchema
    matrix: Floats


def quantise(values: Floats | AnyIntegers, bounds: Bounds, out: Floats | None = None) -> Floats:
    """Clipped, standardised, rounded to integers in [-UNIT, UNIT]; infinities clip, NaN becomes the middle."""
    return _quantise(values, Standardisation.shifted(bounds), out)


def _quantise(values: Floats | AnyIntegers, standard: Standardisation, out: Floats | None) -> Floats:
    result = np.empty(len(values)) if out is None else out
    with np.errstate(all="ignore"):  # only values far outside can overflow, and those are clipped
        np.subtract(values, standard.middle, out=result)
        np.divide(result, standard.width, out=result)
        np.multiply(result, 2.0**BITS, out=result)
        np.rint(result, out=result)
        np.clip(result, -UNIT, UNIT, out=result)  # after rounding: the middle itself is rounded
    np.copyto(result, 0.0, where=np.isnan(result))
    return np.clip(result, *standard.steps(BITS), out=result)


def encode(schema: RegressionSchema, columns: Columns) -> EncodedRows:
    """Raw numbers of continuous columns and integer level codes of factors, as variables of the rows that count."""
    matrix = np.empty((len(columns[schema.response.name]), schema.m), order="F")
    place = 0
    for column in (*schema.covariates, schema.response):
        values = columns[column.name]
        if isinstance(column, Continuous):
            _quantise(values, schema.standardised(column), matrix[:, place])
            place += 1
        elif len(column.levels) == 2:
            matrix[:, place] = np.where(values == 1, UNIT, -UNIT)
            place += 1
        else:
            for code in range(1, len(column.levels)):
                np.multiply(values == code, float(UNIT), out=matrix[:, place])
                place += 1
    if schema.ball is not None:
        schema.ball.clip(matrix, UNIT)
    counts = rows_that_count(schema, columns)
    return EncodedRows(schema, matrix if counts is None else np.asfortranarray(matrix[counts]))


def block_products(encoded: EncodedRows) -> ExactStatistics:
    """Second moments of encoded rows, block by block so that no sum is ever rounded."""
    total = ExactStatistics.empty(encoded.schema)
    for start in range(0, len(encoded.matrix), BLOCK_ROWS):
        total += _exact_block(encoded.schema, encoded.matrix[start : start + BLOCK_ROWS])
    return total


def _exact_block(schema: RegressionSchema, block: Floats) -> ExactStatistics:
    moments = np.empty((schema.m + 1, schema.m + 1))
    moments[0, 1:] = block.sum(axis=0) * UNIT
    moments[1:, 1:] = block.T @ block
    places = np.array(schema.entries)
    sums = moments[places[:, 0], places[:, 1]].astype(np.int64)  # exact: integers below 2**53
    return ExactStatistics(len(block), tuple(sums.tolist()))
