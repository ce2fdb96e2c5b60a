"""What a pass counted in the table, by row group: confidential, for the vault only, and never a value."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dpbayes_core.confidential import Confidential

if TYPE_CHECKING:  # numpy loads only when a table is opened
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnCounts(Confidential):
    """How many values of one column in one row group broke each rule."""

    nulls: int = 0
    not_a_number: int = 0
    out_of_bounds: int = 0
    unknown_levels: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupProfile(Confidential):
    """One row group: its place in the table, its rows, and the counts of each column."""

    file: str  # base name
    row_group: int  # place within its file
    rows: int
    columns: dict[str, ColumnCounts]
    null_units: int | None = None  # None where one row is one person
    incomplete_rows: int = 0  # left out for a missing value, where only complete rows count

    def to_arrays(self) -> "dict[str, NDArray[Any]]":
        """Plain arrays for the encrypted store of an interrupted pass."""
        import numpy as np

        units = -1 if self.null_units is None else self.null_units
        return {
            "names": np.array([self.file, *self.columns], np.str_),
            "numbers": np.array([self.row_group, self.rows, units, self.incomplete_rows], np.int64),
            "counts": np.array([[*_counts_record(one).values()] for one in self.columns.values()], np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: "Mapping[str, NDArray[Any]]") -> "GroupProfile":
        """The inverse of `to_arrays`."""
        file, *names = arrays["names"].tolist()
        row_group, rows, units, left_out = arrays["numbers"].tolist()
        counts = [ColumnCounts(**dict(zip(COUNTS, one, strict=True))) for one in arrays["counts"].tolist()]
        columns = dict(zip(names, counts, strict=True))
        null_units = None if units < 0 else units
        return cls(
            file=file, row_group=row_group, rows=rows, columns=columns, null_units=null_units, incomplete_rows=left_out
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Profile(Confidential):
    """The counts of the whole table; row groups are in the order of the files."""

    types: dict[str, str]  # storage type of each column, as the first file has it
    groups: tuple[GroupProfile, ...]
    duplicate_rows: int | None = None  # rows beyond those that count of a person; None where one row is one person
    several_holders: int | None = None  # people with more than one holder; None where they are not counted

    @property
    def rows(self) -> int:
        """Rows of all row groups, before the contribution bound."""
        return sum(group.rows for group in self.groups)

    @property
    def incomplete_rows(self) -> int:
        """Rows that were left out because of a missing value."""
        return sum(group.incomplete_rows for group in self.groups)

    def to_record(self) -> dict[str, Any]:
        """Plain data for the vault's JSON."""
        return {
            "columns": {name: {"type": kind, **self._total(name)} for name, kind in self.types.items()},
            "duplicate_rows": self.duplicate_rows,
            "incomplete_rows": self.incomplete_rows,
            "row_groups": [_group_record(group) for group in self.groups],
            "rows": self.rows,
            "several_holders": self.several_holders,
        }

    def broken(self, name: str) -> int:
        """How many values of a column broke a rule."""
        return sum(self._total(name).values())

    def _total(self, name: str) -> dict[str, int]:
        counts = [_counts_record(group.columns[name]) for group in self.groups if name in group.columns]
        return {rule: sum(one[rule] for one in counts) for rule in COUNTS} if counts else {}


COUNTS = tuple(field.name for field in fields(ColumnCounts))


def _group_record(group: GroupProfile) -> dict[str, Any]:
    return {
        "columns": {name: _counts_record(counts) for name, counts in group.columns.items()},
        "file": group.file,
        "incomplete_rows": group.incomplete_rows,
        "null_units": group.null_units,
        "row_group": group.row_group,
        "rows": group.rows,
    }


def _counts_record(counts: ColumnCounts) -> dict[str, int]:
    return {rule: getattr(counts, rule) for rule in COUNTS}
