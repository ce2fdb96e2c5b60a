"""The statistics that one pass over confidential rows sums: exact integers, the same for every cut of the rows."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Words
from dpbayes_core.confidential import Confidential


@dataclass(frozen=True, repr=False, eq=False)
class EncodedTable(Confidential):
    """Rows as integers, (rows, width): all that the statistic sees of them, and which rows count."""

    integers: NDArray[np.int32]
    counts: NDArray[np.bool_] | None = None  # of each row; None where all do

    @property
    def counted(self) -> NDArray[np.int32]:
        """The rows that count."""
        return self.integers if self.counts is None else np.asfortranarray(self.integers[self.counts])


class Statistic(Protocol):
    """A sum over rows: how a row is encoded as integers, and what is summed."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns it needs."""
        ...

    @property
    def needs_people(self) -> bool:
        """Whether `sum` needs to know which person each row belongs to."""
        ...

    def encode(self, columns: Columns) -> EncodedTable:
        """The integers of each row, and whether it counts; total on values, no rows included."""
        ...

    def sum(self, encoded: EncodedTable, people: Words | None) -> Any:
        """The exact sums over those that count; `people` is (rows, 2), a hash of each row's person, where needed."""
        ...

    def empty(self) -> Any:
        """The sums over no rows."""
        ...
