"""Whether the number of rows of a release counts people, or rows of which a person may have several."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Counted:
    """What is counted: people with one row each, or rows of which a person may have several."""

    unit: str  # "row" where one row is one person
    most: int  # rows that count of a person

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """From a release's record or its ledger entry."""
        return cls(record["unit"], int(record["max_rows_per_unit"]))

    @property
    def what(self) -> str:
        """The word for it: people or rows."""
        return "people" if self.unit != "row" and self.most == 1 else "rows"

    @property
    def each(self) -> str:
        """How many rows count for each person; the table may contain more."""
        if self.unit == "row":
            return "each one person’s"
        return "one row of each" if self.most == 1 else f"at most {self.most} of each person"

    def words(self, number: str, more: str = "") -> str:
        """A number with its word, such as "100 people (one row of each)"."""
        return f"{number} {self.what} ({self.each}{more})"


def alike(counted: Iterable[Counted]) -> str:
    """ "people" if every release counts people, else "rows"."""
    return "people" if {each.what for each in counted} == {"people"} else "rows"
