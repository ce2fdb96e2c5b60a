"""The public description of a confidential table: where it is and what its columns are declared to be."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from dpbayes_core.bounds import Bounds

WIDEST = Bounds(-(2.0**64), 2.0**64)
"""The bounds of a column without known bounds: numbers beyond them, and infinities, count as the nearest end."""


@dataclass(frozen=True, kw_only=True)
class ColumnRule:
    """One declared column; exactly one of `bounds` and `levels` is given."""

    name: str
    bounds: Bounds | None = None
    levels: tuple[str, ...] | None = None
    null_value: float | None = None  # what null, NaN and unparsable become; continuous columns only
    unknown: str | None = None  # the level that nulls and unknown levels map to; factors only
    missing: tuple[float, ...] | tuple[str, ...] = ()  # codes that mean null: numbers, or texts that are not levels
    stays_missing: bool = False  # a missing number stays NaN, a missing level MISSING, for the statistic to leave out
    measure: Literal["number", "date"] = "number"  # a date counts as days since 1970-01-01, its bounds too
    names_holders: bool = False  # null and unknown levels belong to no holder
    of: "ColumnRule | None" = None  # not in the table: the first level where that column has a value, else the second

    @property
    def codes(self) -> tuple[float, ...]:
        """The codes for a missing value in a column of numbers."""
        return tuple(float(code) for code in self.missing if not isinstance(code, str))

    @property
    def words(self) -> tuple[str, ...]:
        """The codes for a missing value in a column of levels."""
        return tuple(code for code in self.missing if isinstance(code, str))


@dataclass(frozen=True, kw_only=True)
class Holders:
    """Which holder each row belongs to: by a column, or by the files that contain the row."""

    column: str
    names: tuple[str, ...]
    membership: Literal["fixed", "movable", "undeclared"]
    paths: tuple[
        tuple[str, ...], ...
    ] = ()  # of each holder, empty for one that is not read; `column` is then in no file

    @property
    def separate(self) -> bool:
        """Whether a person's rows are limited for each holder separately; the counts are then public."""
        return self.membership != "movable"

    @property
    def all_here(self) -> bool:
        """Whether the pass reads the rows of every holder."""
        return not self.paths or all(self.paths)

    @property
    def rule(self) -> ColumnRule:
        """How the column of holders is read."""
        return ColumnRule(name=self.column, levels=self.names, names_holders=True)


@dataclass(frozen=True, kw_only=True)
class Query:
    """The text of a query and the database it goes to; `:period` in the text is bound to the period's name."""

    url: str
    text: str
    period: str


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """One period's table and the columns that a pass reads; `path`, `query` or `holders` says where it is."""

    path: str | tuple[str, ...] = ()  # files, folders, patterns or URLs; the period already filled in
    query: Query | None = None
    columns: tuple[ColumnRule, ...]
    unit: str | None  # the column that names a person; None where one row is one person
    max_rows_per_unit: int = 1
    holders: Holders | None = None  # their column is the last one
    stated: tuple[str, ...] = ()  # columns for which the study states what null and unknown values become

    @property
    def paths(self) -> tuple[str, ...]:
        """Every place where files of the table are."""
        if self.holders is not None and self.holders.paths:
            return tuple(path for paths in self.holders.paths for path in paths)
        return (self.path,) if isinstance(self.path, str) else self.path

    @property
    def name(self) -> str:
        """The table's name in messages: base names of files, never the folders above."""
        if self.query is not None:
            return PurePosixPath(self.query.url.partition("?")[0]).name or "of the query"
        return ", ".join(PurePosixPath(path).name or path for path in self.paths)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to read, each once."""
        return tuple(dict.fromkeys([*self.stored, *([] if self.unit is None else [self.unit])]))

    @property
    def stored(self) -> dict[str, ColumnRule]:
        """The rules of the columns that the table itself contains."""
        return {rule.name: rule for rule in (each.of or each for each in self.columns)}
