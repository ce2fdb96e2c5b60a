"""The public description of a confidential table: where it is and what its columns are declared to be."""

from dataclasses import dataclass

from dpbayes_core.bounds import Bounds


@dataclass(frozen=True, kw_only=True)
class ColumnRule:
    """One declared column; exactly one of `bounds` and `levels` is given."""

    name: str
    bounds: Bounds | None = None
    levels: tuple[str, ...] | None = None
    null_value: float | None = None  # what null, NaN and unparsable become; continuous columns only
    unknown: str | None = None  # the level that nulls and unknown levels map to; factors only


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """One period's table, with the columns a pass will read."""

    path: str  # the period already filled in
    columns: tuple[ColumnRule, ...]
    unit: str | None  # the column that names a person; None where one row is one person
    max_rows_per_unit: int = 1
