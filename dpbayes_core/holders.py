"""Second moments of several holders in one pass: a column with declared values says whose each row is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.confidential import Confidential
from dpbayes_core.schema import RegressionSchema
from dpbayes_core.second_moments import SecondMoments
from dpbayes_core.statistic import Columns, EncodedTable, Words
from dpbayes_core.statistics import ExactStatistics


@dataclass(frozen=True, repr=False)
class HolderStatistics(Confidential):
    """Confidential sums of each holder, in the declared order."""

    parts: tuple[ExactStatistics, ...]

    def __add__(self, other: "HolderStatistics") -> "HolderStatistics":
        return HolderStatistics(tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    @property
    def rows(self) -> int:
        """Rows of all holders together."""
        return sum(part.rows for part in self.parts)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        arrays = [part.to_arrays() for part in self.parts]
        return {name: np.stack([one[name] for one in arrays]) for name in arrays[0]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "HolderStatistics":
        """The inverse of `to_arrays`."""
        places = range(len(next(iter(arrays.values()))))
        return cls(
            tuple(ExactStatistics.from_arrays({name: held[place] for name, held in arrays.items()}) for place in places)
        )


@dataclass(frozen=True)
class HolderMoments:
    """One regression's second moments for each holder.

    Where membership is fixed one person moves one holder's sums, by no more than `regression_sensitivity` says. Where a
    person may move between holders two of them change, each as under add-remove.
    """

    schema: RegressionSchema
    column: str
    holders: tuple[str, ...]  # what the codes of the column stand for

    @property
    def columns(self) -> tuple[str, ...]:
        """The regression's columns, then the holder's."""
        return (*self._each.columns, self.column)

    @property
    def needs_people(self) -> bool:
        """No: every row weighs the same."""
        return False

    def encode(self, columns: Columns) -> EncodedTable:
        """The regression's integers, then the holder's code; codes that stand for nobody count for the first."""
        codes = np.asarray(columns[self.column])
        known = np.where((codes >= 0) & (codes < len(self.holders)), codes, 0).astype(np.int32)
        return EncodedTable(np.asfortranarray(np.column_stack([self._each.encode(columns).integers, known])))

    def sum(self, encoded: EncodedTable, people: Words | None = None) -> HolderStatistics:
        """Exact sums over the rows of each holder."""
        rows, codes = encoded.integers[:, :-1], encoded.integers[:, -1]
        chosen = (np.asfortranarray(rows[codes == code]) for code in range(len(self.holders)))
        return HolderStatistics(tuple(self._each.sum(EncodedTable(own)) for own in chosen))

    def empty(self) -> HolderStatistics:
        """The sums over no rows."""
        return HolderStatistics((self._each.empty(),) * len(self.holders))

    @property
    def _each(self) -> SecondMoments:
        return SecondMoments(self.schema)
