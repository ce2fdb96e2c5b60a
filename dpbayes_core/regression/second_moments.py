"""Second moments of a regression as what a pass adds up: integers per row, exact sums per block."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.exact_sums.protocol import Columns, EncodedTable, Words
from dpbayes_core.regression.fixed_point import BITS, UNIT, rows_that_count
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.statistics import BLOCK_ROWS, ExactStatistics

Integers = NDArray[np.int32]


@dataclass(frozen=True)
class SecondMoments:
    """The released second moments of one regression; a factor stays one code a row and is never expanded."""

    schema: RegressionSchema

    @property
    def columns(self) -> tuple[str, ...]:
        """Covariates in their declared order, the response last; `encode` keeps it."""
        return tuple(column.name for column in (*self.schema.covariates, self.schema.response))

    @property
    def needs_people(self) -> bool:
        """No: every row weighs the same."""
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

    def _block(self, integers: Integers) -> ExactStatistics:
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


@dataclass(frozen=True, eq=False)
class ColumnLayout:
    """Which column of the integers holds which variables of the schema."""

    numbers: tuple[tuple[int, int], ...]  # (column, variable); variable 0 is the constant
    factors: tuple[tuple[int, tuple[int, ...]], ...]  # (column, variables of its levels but the reference)
    variables: NDArray[np.int64]  # the constant and those of the numbers
    first: NDArray[np.int64]  # where a released entry is found: numbers before factors, as they are summed
    second: NDArray[np.int64]

    @classmethod
    def of(cls, schema: RegressionSchema) -> "ColumnLayout":
        """Columns of three levels or more are factors, all others are numbers."""
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


def encoded_integers(schema: RegressionSchema, names: Sequence[str], columns: Columns, bits: int) -> Integers:
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
