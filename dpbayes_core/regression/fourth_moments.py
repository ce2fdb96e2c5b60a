"""Third and fourth moments of a regression's covariates: exact sums of products of 16-bit integers, in two halves."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Words
from dpbayes_core.exact_sums.protocol import EncodedTable
from dpbayes_core.regression.moments import ExactStatistics, encoded_integers
from dpbayes_core.regression.schema import RegressionSchema, Variable

FOURTH_BITS = 16
HALF_BITS = FOURTH_BITS - 1  # a product of two variables, up to 2**30 in size, is cut in halves of 15 bits
FOURTH_UNIT = 2**HALF_BITS
BLOCK_ROWS = 2048  # a block of pairs stays in the processor's cache
MOST_ROWS = 2**23  # products of halves are at most 2**30: so many add up exactly in doubles

Places = tuple[int, int, int, int]


@dataclass(frozen=True)
class FourthMoments:
    """Sums of products of three or four covariates that no second moment tells, in units of FOURTH_UNIT**-4."""

    schema: RegressionSchema

    @property
    def columns(self) -> tuple[str, ...]:
        """The covariates in their declared order."""
        return tuple(column.name for column in self.schema.covariates)

    @property
    def needs_people(self) -> bool:
        """No: every row weighs the same."""
        return False

    @cached_property
    def entries(self) -> tuple[Places, ...]:
        """Four places in order, 0 for the constant: no square of a level, no two levels of one column."""
        return tuple(fourth_entries(self.schema))

    def encode(self, columns: Columns) -> EncodedTable:
        """Per covariate a number in [-FOURTH_UNIT, FOURTH_UNIT], or the code of a level; which rows count is not here.

        That hangs on the response too, which only the second moments see.
        """
        return EncodedTable(encoded_integers(self.schema, self.columns, columns, FOURTH_BITS))

    def sum(self, encoded: EncodedTable, people: Words | None = None) -> ExactStatistics:
        """Exact sums over the rows that count."""
        total, integers = self.empty(), encoded.counted
        for start in range(0, len(integers), MOST_ROWS):
            total += self._exact(integers[start : start + MOST_ROWS])
        return total

    def empty(self) -> ExactStatistics:
        """The sums over no rows."""
        return ExactStatistics(0, (0,) * len(self.entries))

    def _exact(self, integers: NDArray[np.int32]) -> ExactStatistics:
        pairs = sorted({pair for entry in self.entries for pair in (entry[:2], entry[2:])})
        place = {pair: number for number, pair in enumerate(pairs)}
        first, second = np.array(pairs, np.int64).reshape(-1, 2).T
        halves = np.zeros((2 * len(pairs), 2 * len(pairs)))
        for start in range(0, len(integers), BLOCK_ROWS):
            variables = self._variables(integers[start : start + BLOCK_ROWS])
            products = variables[first] * variables[second]
            high = np.floor(products / FOURTH_UNIT)
            both = np.concatenate([high, products - high * FOURTH_UNIT])
            halves += both @ both.T
        found, low = halves.astype(np.int64), len(pairs)
        sums: list[int] = []
        for entry in self.entries:
            a, b = place[entry[:2]], place[entry[2:]]
            middle = int(found[a, low + b]) + int(found[low + a, b])
            sums.append((int(found[a, b]) << 2 * HALF_BITS) + (middle << HALF_BITS) + int(found[low + a, low + b]))
        return ExactStatistics(len(integers), tuple(sums))

    def _variables(self, integers: NDArray[np.int32]) -> NDArray[np.float64]:
        """The constant and every variable, indicators expanded, (1 + d, rows)."""
        rows = [np.full(len(integers), float(FOURTH_UNIT))]
        for column, values in zip(self.schema.covariates, integers.T, strict=True):
            kinds = column.variables()
            if kinds[0].kind == "indicator":
                rows += [(values == code) * float(FOURTH_UNIT) for code in range(1, len(kinds) + 1)]
            else:
                rows.append(values.astype(np.float64))
        return np.array(rows)


def fourth_entries(schema: RegressionSchema) -> Iterator[Places]:
    """Products of three or four covariates' variables; a level's own square or another level of it adds nothing."""
    variables = schema.variables[:-1]
    for size in (3, 4):
        for chosen in combinations_with_replacement(range(1, len(variables) + 1), size):
            if _is_new([variables[i - 1] for i in chosen]):
                first, *rest = chosen
                yield (0, first, rest[0], rest[1]) if size == 3 else (first, rest[0], rest[1], rest[2])


def _is_new(chosen: list[Variable]) -> bool:
    levels = [variable.column for variable in chosen if variable.kind != "continuous"]
    return len(set(levels)) == len(levels)
