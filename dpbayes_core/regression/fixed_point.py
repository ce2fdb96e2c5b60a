"""Columns encoded as integers: products and sums are then exact in any order, and so is the sensitivity."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, ShortIntegers
from dpbayes_core.regression.schema import Continuous, RegressionSchema

BITS = 20
UNIT = 2 ** (BITS - 1)  # the integer of 1: the constant, an indicator that is on, an upper bound


def encoded_integers(schema: RegressionSchema, names: Sequence[str], columns: Columns, bits: int) -> ShortIntegers:
    """One integer per row and column, (rows, columns): 2**bits steps from -1 to 1, or the code of a level."""
    from dpbayes_core.exact_sums.kernels import quantise_into

    declared = {column.name: column for column in (*schema.covariates, schema.response)}
    needed: list[NDArray[Any]] = [columns[name] for name in names]
    if len({len(values) for values in needed}) > 1:
        raise ValueError("cannot encode rows: the columns differ in length. Give one value of each column per row.")
    unit = 2 ** (bits - 1)
    integers = np.empty((len(needed[0]) if needed else 0, len(needed)), np.int32, order="F")
    for place, (name, values) in enumerate(zip(names, needed, strict=True)):
        column, out = declared[name], integers[:, place]
        if isinstance(column, Continuous):
            standard = schema.standardised(column)
            quantise_into(values, standard.middle, standard.width, 2.0**bits, out)
            if (steps := standard.steps(bits)) != (-unit, unit):
                np.clip(out, *steps, out=out)
        elif len(column.levels) == 2:
            integers[:, place] = np.where(values == 1, unit, -unit)
        else:
            integers[:, place] = np.where((values > 0) & (values < len(column.levels)), values, 0)
    return integers


def rows_that_count(schema: RegressionSchema, columns: Columns) -> NDArray[np.bool_] | None:
    """With complete cases, the rows without a missing value (NaN, or a code of no level); None where all rows count."""
    if schema.cases == "all":
        return None
    present = [
        ~np.isnan(values) if isinstance(column, Continuous) else (values >= 0) & (values < len(column.levels))
        for column in (*schema.covariates, schema.response)
        for values in (np.asarray(columns[column.name]),)
    ]
    return np.logical_and.reduce(present)
