"""Second moments of many random subsets in one pass, of columns without bounds: exact, and defined for all values."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Floats, Integers, Words
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import EncodedTable
from dpbayes_core.regression.schema import Factor
from dpbayes_core.subsample.schema import OpenSchema

LARGEST = 2.0**64  # larger numbers and infinities are clipped to it; NaN becomes 0


def fresh_key() -> Words:
    """A key of 128 bits from the operating system."""
    return np.frombuffer(secrets.token_bytes(16), dtype=np.uint64)


@dataclass(frozen=True, repr=False, eq=False)
class SubsetMoments(Confidential):
    """Confidential sums of each subset: the number of rows, and exact sums of values and products, as carried words."""

    counts: Integers  # (subsets,)
    words: Integers  # (subsets, entries, limbs)

    def __add__(self, other: "SubsetMoments") -> "SubsetMoments":
        from dpbayes_core.subsample.kernels import carry

        words = (self.words + other.words).reshape(-1)
        carry(words, 0, len(words))
        return SubsetMoments(self.counts + other.counts, words.reshape(self.words.shape))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SubsetMoments):
            return NotImplemented
        return np.array_equal(self.counts, other.counts) and np.array_equal(self.words, other.words)

    @property
    def rows(self) -> int:
        """Rows of all subsets together."""
        return int(self.counts.sum())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        return {"counts": self.counts, "words": self.words}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "SubsetMoments":
        """The inverse of `to_arrays`."""
        return cls(arrays["counts"], arrays["words"])


@dataclass(frozen=True, repr=False, eq=False)
class SubsetRegressions(Confidential):
    """The sums for a regression in each subset; each instance has its own secret key, which is never stored."""

    schema: OpenSchema
    subsets: int
    key: Words = field(default_factory=fresh_key)

    needs_people = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns it needs."""
        return self.schema.columns

    def encode(self, columns: Columns) -> EncodedTable:
        """Two integers for each value, the halves of its double; level codes become doubles, too."""
        from dpbayes_core.subsample.kernels import put_numbers

        table = np.empty((len(columns[self.schema.response]), len(self.columns)))
        for place, name in enumerate(self.columns):
            put_numbers(np.asarray(columns[name], dtype=np.float64), LARGEST, table[:, place])
        return EncodedTable(table.view(np.int32))

    def sum(self, encoded: EncodedTable, people: Words | None) -> SubsetMoments:
        """The sums of each subset; with `people` None, for one row a person, rows are assigned at random."""
        from dpbayes_core.subsample.kernels import add_rows, subset_numbers

        integers = encoded.integers
        total = self.empty()
        words = total.words.reshape(-1)
        if people is None:
            people = np.frombuffer(secrets.token_bytes(16 * len(integers)), dtype=np.uint64).reshape(-1, 2)
        numbers = subset_numbers(people, self.key, self.subsets)
        add_rows(self._values(integers), numbers, total.counts, words)
        return total

    def empty(self) -> SubsetMoments:
        """The sums over no rows."""
        from dpbayes_core.subsample.kernels import LIMBS

        width = len(self.schema.coefficients)  # covariates and response: as many as coefficients with the intercept
        entries = width + width * (width + 1) // 2
        return SubsetMoments(np.zeros(self.subsets, np.int64), np.zeros((self.subsets, entries, LIMBS), np.int64))

    def _values(self, integers: NDArray[np.int32]) -> Floats:
        """Covariates in the schema's order, indicators for levels, the response last."""
        table = np.ascontiguousarray(integers).view(np.float64)
        if not any(isinstance(covariate, Factor) for covariate in self.schema.covariates):
            return table
        values = np.empty((len(table), len(self.schema.coefficients)))
        column = 0
        for place, covariate in enumerate(self.schema.covariates):
            if isinstance(covariate, Factor):
                for code in range(1, len(covariate.levels)):
                    values[:, column] = table[:, place] == code
                    column += 1
            else:
                values[:, column] = table[:, place]
                column += 1
        values[:, column] = table[:, -1]
        return values
