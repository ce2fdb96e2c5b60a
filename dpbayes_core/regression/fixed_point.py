"""Columns as integers: products and sums are then exact, whatever the order, and sensitivity speaks of integers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.confidential import Confidential
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.standardisation import Standardisation

Codes = NDArray[np.integer[Any]]
Columns = Mapping[str, Floats | Codes]

BITS = 20
UNIT = 2 ** (BITS - 1)  # the integer of 1: the constant, an indicator that is on, an upper bound


@dataclass(frozen=True, repr=False, eq=False)
class EncodedRows(Confidential):
    """Rows as (rows, m) integers in [-UNIT, UNIT], held as float64. Made by `encode`, or chosen from what it made."""

    schema: RegressionSchema
    matrix: Floats


def quantise(values: Floats | Codes, bounds: Bounds, out: Floats | None = None) -> Floats:
    """Clipped, standardised, rounded to integers in [-UNIT, UNIT]; total: infinities clip, NaN becomes the middle."""
    return _quantise(values, Standardisation.shifted(bounds), out)


def _quantise(values: Floats | Codes, standard: Standardisation, out: Floats | None) -> Floats:
    result = np.empty(len(values)) if out is None else out
    # only values far outside can overflow, and those are clipped; a warning would tell on them
    with np.errstate(all="ignore"):
        np.subtract(values, standard.middle, out=result)
        np.divide(result, standard.width, out=result)
        np.multiply(result, 2.0**BITS, out=result)
        np.rint(result, out=result)
        np.clip(result, -UNIT, UNIT, out=result)  # after rounding: the middle itself is rounded
    np.copyto(result, 0.0, where=np.isnan(result))
    return np.clip(result, *standard.steps(BITS), out=result)


def encode(schema: RegressionSchema, columns: Columns) -> EncodedRows:
    """Raw numbers of continuous columns and integer level codes of factors, as variables of the rows that count."""
    needed = {name: columns[name] for name in (*(c.name for c in schema.covariates), schema.response.name)}
    if len({len(column) for column in needed.values()}) > 1:
        raise ValueError("cannot encode rows: the columns differ in length. Give one value of each column per row.")
    matrix = np.empty((len(needed[schema.response.name]), schema.m), order="F")
    place = 0
    for column in (*schema.covariates, schema.response):
        values = needed[column.name]
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


def rows_that_count(schema: RegressionSchema, columns: Columns) -> NDArray[np.bool_] | None:
    """Of complete cases the rows without a missing value: NaN of a number, a code of no level; None where all count."""
    if schema.cases == "all":
        return None
    present = [
        ~np.isnan(values) if isinstance(column, Continuous) else (values >= 0) & (values < len(column.levels))
        for column in (*schema.covariates, schema.response)
        for values in (np.asarray(columns[column.name]),)
    ]
    return np.logical_and.reduce(present)
