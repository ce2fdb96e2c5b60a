"""What the number of rows of a release is a number of, in words."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Counted:
    """People with one row each, or rows: of some people several, or each one person's."""

    unit: str  # "row" where one row is one person
    most: int  # rows that count of a person

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Those of a release, by its record or its entry in the ledger."""
        return cls(record["unit"], int(record["max_rows_per_unit"]))

    @property
    def what(self) -> str:
        """People or rows."""
        return "people" if self.unit != "row" and self.most == 1 else "rows"

    @property
    def each(self) -> str:
        """How the two go together; the table may have more rows than count."""
        if self.unit == "row":
            return "each one person’s"
        return "one row of each" if self.most == 1 else f"at most {self.most} of each person"

    def words(self, number: str, more: str = "") -> str:
        """So many of them."""
        return f"{number} {self.what} ({self.each}{more})"


def alike(counted: Iterable[Counted]) -> str:
    """People where all are; rows else."""
    return "people" if {each.what for each in counted} == {"people"} else "rows"
