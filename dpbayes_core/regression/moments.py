"""Exact second moments of a regression, as Python integers in units of UNIT**-2."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Floats, ShortIntegers, Words
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import EncodedTable
from dpbayes_core.regression.fixed_point import BITS, UNIT, encoded_integers, rows_that_count
from dpbayes_core.regression.schema import Continuous, RegressionSchema

EXACT_BITS = 53  # doubles hold every integer up to 2**53
PRODUCT_BITS = 2 * BITS - 2
BLOCK_ROWS = 2 ** (EXACT_BITS - PRODUCT_BITS)  # every partial sum of a block is then an exact double
FINEST_GRID = 30
LIMB_BITS = 32
HEADROOM_BITS = 6  # room for 64 times the declared rows: the declaration may be wrong


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
        """The same with the number of rows as first sum, as in `schema.entries_with_count`."""
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


def regression_statistics(schema: RegressionSchema, columns: Columns) -> ExactStatistics:
    """Exact second moments of raw columns (factors as level codes); defined for all values and for empty columns."""
    statistic = SecondMoments(schema)
    return statistic.sum(statistic.encode(columns))


def grid_for(rows: int) -> int:
    """The finest grid, in bits, on which 64 times the declared number of rows is an exact double."""
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


@dataclass(frozen=True)
class SecondMoments:
    """The second moments of one regression; a factor is one code a row and never expanded to indicators."""

    schema: RegressionSchema

    @property
    def columns(self) -> tuple[str, ...]:
        """Covariates in their declared order, the response last."""
        return tuple(column.name for column in (*self.schema.covariates, self.schema.response))

    @property
    def needs_people(self) -> bool:
        """False: every row has the same weight."""
        return False

    def encode(self, columns: Columns) -> EncodedTable:
        """Per column a number in [-UNIT, UNIT], -UNIT or UNIT for two levels, or the code of a level."""
        integers = encoded_integers(self.schema, self.columns, columns, BITS)
        if self.schema.ball is not None:
            self.schema.ball.clip(integers, UNIT)
        return EncodedTable(integers, rows_that_count(self.schema, columns))

    def sum(self, encoded: EncodedTable, people: Words | None = None) -> ExactStatistics:
        """Exact sums over the rows that count, block by block."""
        total, integers = self.empty(), encoded.counted
        for start in range(0, len(integers), BLOCK_ROWS):
            total += self._block(integers[start : start + BLOCK_ROWS])
        return total

    def empty(self) -> ExactStatistics:
        """The sums over no rows."""
        return ExactStatistics.empty(self.schema)

    def _block(self, integers: ShortIntegers) -> ExactStatistics:
        from dpbayes_core.exact_sums.kernels import add_by_code, count_pairs

        layout = self._layout
        numbers = np.empty((1 + len(layout.numbers), len(integers)))
        numbers[0] = UNIT
        for place, (column, _) in enumerate(layout.numbers, start=1):
            numbers[place] = integers[:, column]
        moments = np.zeros((self.schema.m + 1, self.schema.m + 1))
        at = layout.variables
        moments[np.ix_(at, at)] = numbers @ numbers.T  # exact: every partial sum is below 2**53
        for column, variables in layout.factors:
            by_code = np.zeros((len(numbers), len(variables) + 1))
            for values, totals in zip(numbers, by_code, strict=True):
                add_by_code(integers[:, column], values, totals)
            moments[np.ix_(at, np.array(variables))] = by_code[:, 1:] * UNIT
        for first, (column, variables) in enumerate(layout.factors):
            for other, others in layout.factors[first + 1 :]:
                counts = np.zeros((len(variables) + 1, len(others) + 1), np.int64)
                count_pairs(integers[:, column], integers[:, other], counts)
                moments[np.ix_(np.array(variables), np.array(others))] = counts[1:, 1:] * float(UNIT**2)
        return ExactStatistics(len(integers), tuple(moments[layout.first, layout.second].astype(np.int64).tolist()))

    @cached_property
    def _layout(self) -> "ColumnLayout":
        return ColumnLayout.of(self.schema)


@dataclass(frozen=True)
class WithSecondMoments:
    """Base of statistics that contain the second moments and another statistic of the same rows."""

    schema: RegressionSchema

    @property
    def columns(self) -> tuple[str, ...]:
        """Covariates in their declared order, the response last."""
        return self.second.columns

    @property
    def needs_people(self) -> bool:
        """False: every row has the same weight."""
        return False

    @cached_property
    def second(self) -> SecondMoments:
        """The second moments alone."""
        return SecondMoments(self.schema)


@dataclass(frozen=True, eq=False)
class ColumnLayout:
    """The variables of the schema that each column of integers encodes."""

    numbers: tuple[tuple[int, int], ...]  # (column, variable); variable 0 is the constant
    factors: tuple[tuple[int, tuple[int, ...]], ...]  # (column, variables of its levels but the reference)
    variables: NDArray[np.int64]  # the constant and the numbers' variables
    first: NDArray[np.int64]  # row and column of each released entry in the order of summing: numbers before factors
    second: NDArray[np.int64]

    @classmethod
    def of(cls, schema: RegressionSchema) -> "ColumnLayout":
        """The layout of a schema: columns of three levels or more are factors, all others numbers."""
        numbers: list[tuple[int, int]] = []
        factors: list[tuple[int, tuple[int, ...]]] = []
        variable = 1
        for place, column in enumerate((*schema.covariates, schema.response)):
            count = len(column.variables())
            if isinstance(column, Continuous) or len(column.levels) == 2:
                numbers.append((place, variable))
            else:
                factors.append((place, tuple(range(variable, variable + count))))
            variable += count
        indicators = {variable for _, own in factors for variable in own}
        places = [(j, i) if i in indicators and j not in indicators else (i, j) for i, j in schema.entries]
        first, second = np.array(places).T
        return cls(tuple(numbers), tuple(factors), np.array([0, *(v for _, v in numbers)]), first, second)
