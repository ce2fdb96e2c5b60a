"""Exact second moments of encoded rows: Python integers in units of UNIT**-2, one per released entry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import Columns
from dpbayes_core.regression.fixed_point import BITS, UNIT, EncodedRows
from dpbayes_core.regression.schema import RegressionSchema

Floats = NDArray[np.float64]

EXACT_BITS = 53  # doubles hold every integer up to 2**53
PRODUCT_BITS = 2 * BITS - 2
BLOCK_ROWS = 2 ** (EXACT_BITS - PRODUCT_BITS)  # every partial sum of a block is then an exact double
FINEST_GRID = 30
LIMB_BITS = 32
HEADROOM_BITS = 6  # room for 64 times the declared rows: n is trusted by nobody


@dataclass(frozen=True, repr=False)
class ExactStatistics(Confidential):
    """Confidential sums over rows, one per `schema.entries`; equal for every order and split of the rows."""

    rows: int
    sums: tuple[int, ...]

    @classmethod
    def empty(cls, schema: RegressionSchema) -> "ExactStatistics":
        """The statistics of no rows."""
        return cls(0, (0,) * len(schema.entries))

    def __add__(self, other: "ExactStatistics") -> "ExactStatistics":
        sums = (a + b for a, b in zip(self.sums, other.sums, strict=True))
        return ExactStatistics(self.rows + other.rows, tuple(sums))

    def with_count(self) -> "ExactStatistics":
        """The same with the number of rows as its first sum: `schema.entries_with_count`, where it is not public."""
        return ExactStatistics(self.rows, (self.rows * UNIT**2, *self.sums))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The rows, and each sum in two halves: 64-bit integers would overflow."""
        high, low = limbs((self.rows, *self.sums))
        return {"high": high, "low": low}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "ExactStatistics":
        """The inverse of `to_arrays`."""
        rows, *sums = from_limbs(arrays["high"], arrays["low"])
        return cls(rows, tuple(sums))


def limbs(values: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Integers of up to 95 bits as arrays (high, low), each value high * 2**32 + low."""
    high = np.array([value >> LIMB_BITS for value in values], np.int64)
    return high, np.array([value & (2**LIMB_BITS - 1) for value in values], np.int64)


def from_limbs(high: NDArray[np.int64], low: NDArray[np.int64]) -> list[int]:
    """The inverse of `limbs`."""
    return [(a << LIMB_BITS) + b for a, b in zip(high.tolist(), low.tolist(), strict=True)]


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


def regression_statistics(schema: RegressionSchema, columns: Columns) -> ExactStatistics:
    """Exact second moments of raw columns (factors as level codes); total on values, empty columns included."""
    from dpbayes_core.regression.second_moments import SecondMoments  # which is made of what stands here

    statistic = SecondMoments(schema)
    return statistic.sum(statistic.encode(columns))


def grid_for(rows: int) -> int:
    """The finest grid (in bits) on which 64 times the declared, public number of rows is an exact double."""
    if rows < 1:
        raise ValueError("cannot choose a grid: the declared number of rows must be positive. Declare about how many.")
    return min(FINEST_GRID, EXACT_BITS - 1 - HEADROOM_BITS - (rows - 1).bit_length())


def on_grid(exact: ExactStatistics, grid: int, bits: int = PRODUCT_BITS) -> Floats:
    """Standardised sums rounded to multiples of 2**-grid (ties upward) and clamped to +-2**(52-grid): exact doubles.

    The sums are in units of 2**-bits: 38 for second moments, 60 for fourth.
    """
    shift = bits - grid
    if shift < 1:
        raise ValueError(f"cannot round to a grid of {grid} bits: sums have {bits}. Use a coarser grid.")
    half, limit = 1 << (shift - 1), 1 << (EXACT_BITS - 1)
    steps = (max(-limit, min(limit, (total + half) >> shift)) for total in exact.sums)
    return np.ldexp(np.array([float(step) for step in steps]), -grid)
