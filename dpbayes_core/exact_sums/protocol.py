"""The protocol of a statistic: exact integer sums over confidential rows, the same for every split of the rows."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Words
from dpbayes_core.confidential import Confidential


@dataclass(frozen=True, repr=False, eq=False)
class EncodedTable(Confidential):
    """Rows encoded as integers, (rows, width), and which of them count."""

    integers: NDArray[np.int32]
    counts: NDArray[np.bool_] | None = None  # of each row; None where all do

    @property
    def counted(self) -> NDArray[np.int32]:
        """The rows that count."""
        return self.integers if self.counts is None else np.asfortranarray(self.integers[self.counts])


class Statistic(Protocol):
    """A sum over rows: the encoding of a row as integers, and the summed functions of these."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns it needs."""
        ...

    @property
    def needs_people(self) -> bool:
        """Whether `sum` needs to know which person each row belongs to."""
        ...

    def encode(self, columns: Columns) -> EncodedTable:
        """The integers of each row, and whether it counts; defined for every value and for tables without rows."""
        ...

    def sum(self, encoded: EncodedTable, people: Words | None) -> Any:
        """The exact sums over the rows that count; `people` is (rows, 2), a hash of each row's person, where needed."""
        ...

    def empty(self) -> Any:
        """The sums over no rows."""
        ...
