"""A statistic of several holders in one pass over one table, of which a column names each row's holder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Words
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import EncodedTable, Statistic
from dpbayes_core.regression.residual_moments import SecondMomentsWithRows

UNDECLARED = -1  # the code of a row of no declared holder


@dataclass(frozen=True, repr=False)
class HolderStatistics(Confidential):
    """Confidential sums of each holder, in the declared order."""

    parts: tuple[Any, ...]  # results of the statistic's `sum`

    def __add__(self, other: "HolderStatistics") -> "HolderStatistics":
        return HolderStatistics(tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        arrays = [part.to_arrays() for part in self.parts]
        return {name: np.stack([one[name] for one in arrays]) for name in arrays[0]}

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> "HolderStatistics":
        """The inverse of `to_arrays`, for the same holders and statistic as `self`."""
        by_holder = [{name: array[place] for name, array in arrays.items()} for place in range(len(self.parts))]
        return HolderStatistics(tuple(part.from_arrays(own) for part, own in zip(self.parts, by_holder, strict=True)))


@dataclass(frozen=True)
class HolderSums:
    """The same statistic for each holder; rows of undeclared holders do not count.

    With fixed membership one person changes one holder's sums, as in a table of that holder alone. Where a person may
    move between holders, two holders' sums change, each as under add-remove.
    """

    each: Statistic
    column: str
    holders: tuple[str, ...]  # by the column's codes

    def __post_init__(self) -> None:
        if isinstance(self.each, SecondMomentsWithRows):  # whether stored rows can be stacked depends on values
            raise TypeError("cannot sum by holder and keep rows: each holder has its own number. Release one table.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The statistic's columns, then the holder's."""
        return (*self.each.columns, self.column)

    @property
    def needs_people(self) -> bool:
        """Whether the statistic needs them."""
        return self.each.needs_people

    def encode(self, columns: Columns) -> EncodedTable:
        """The statistic's integers, then the holder's code."""
        codes = np.asarray(columns[self.column])
        known = np.where((codes >= 0) & (codes < len(self.holders)), codes, UNDECLARED).astype(np.int32)
        each = self.each.encode(columns)
        return EncodedTable(np.asfortranarray(np.column_stack([each.integers, known])), each.counts)

    def sum(self, encoded: EncodedTable, people: Words | None = None) -> HolderStatistics:
        """Exact sums over the rows of each holder."""
        rows, codes = encoded.integers[:, :-1], encoded.integers[:, -1]
        chosen = [codes == code for code in range(len(self.holders))]
        counts = encoded.counts
        tables = [EncodedTable(np.asfortranarray(rows[own]), None if counts is None else counts[own]) for own in chosen]
        owners = [None if people is None else people[own] for own in chosen]
        return HolderStatistics(tuple(self.each.sum(*one) for one in zip(tables, owners, strict=True)))

    def empty(self) -> HolderStatistics:
        """The sums over no rows."""
        return HolderStatistics((self.each.empty(),) * len(self.holders))
