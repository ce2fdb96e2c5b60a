"""Sections of the study file about the confidential table: where it is, its periods, its public columns."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpbayes.strict_yaml.dates import BoundsOrDates, DateBounds, Day, MissingCodes, RealOrDate
from dpbayes.strict_yaml.fields import (
    ColumnName,
    Levels,
    Section,
    Text,
    exactly_one,
    refusal,
)
from dpbayes.study.guesses import ExpectSpec
from dpbayes.study.places import DatabaseUrl, HolderPaths, Paths, QueryText
from dpbayes_core.text import shown
from storage.ledger.request import Grain, Membership


class HolderSpec(Section):
    """Whose rows are whose, where several offices hold one table: a column says so, or each has files of its own.

    Every release is then made for each holder by itself, from one pass over all.
    """

    column: ColumnName | None = Field(
        default=None,
        description="Column that names the holder; rows of another value, or none, count nowhere.",
        examples=["office"],
    )
    values: Levels | None = Field(
        default=None, description="With column: all holders, as that column spells them.", examples=["[n, s]"]
    )
    paths: HolderPaths | None = Field(
        default=None,
        description="In place of column, values and the source's path: the path, or list of paths, of each holder.",
        examples=["{n: n-{period}.parquet, s: s-{period}.parquet}"],
    )
    membership: Membership = Field(
        description="fixed: everybody is with one holder for good, and who is where is public. movable: people move, "
        "and where they are is protected. undeclared: a person may be with several, and charges add up.",
        examples=["fixed"],
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        exactly_one({"column": self.column, "paths": self.paths}, "what tells the holders apart")
        if self.column is not None and self.values is None:
            raise refusal("the holders have no names", "Write values: and all that the column may say", "column")
        if self.paths is not None and self.values is not None:
            raise refusal("paths name the holders already", "Delete values", "values")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The holders in their declared order."""
        return self.values or tuple(self.paths or ())


class SourceSpec(Section):
    """Where the confidential table is and what one person is in it."""

    path: Paths | None = Field(
        default=None,
        description=(
            "Parquet or CSV of one period: a file, a folder, a pattern with * ? or **, an fsspec URL, or a list of "
            "them, relative to the study file; {period} becomes the period's name."
        ),
        examples=["data/wages-{period}.parquet"],
    )
    url: DatabaseUrl | None = Field(
        default=None,
        description="PostgreSQL or SQLite database to read instead; its password comes from PGPASSWORD or .pgpass.",
        examples=["postgresql://reader@host/people"],
    )
    query: QueryText | None = Field(
        default=None,
        description="What to read from the database; :period is bound to the period's name. Under replace-one with one "
        "row a person, how many people or rows it finds is published without noise, so a condition on anything else "
        "publishes how many meet it, and whether somebody does is not protected.",
        examples=["select * from wages where month = :period"],
    )
    rows: Annotated[int, Field(ge=1, le=10**12)] = Field(
        description="About how many rows count in a period; where one row of each person does, how many people: a "
        "public guess, never trusted as that number.",
        examples=["50000"],
    )
    unit: ColumnName | None = Field(
        default=None,
        description="Column that names a person. Leave it out only where one row is one person.",
        examples=["person_id"],
    )
    max_rows_per_unit: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1,
        description="How many rows one person may contribute (with each holder, unless people move); it is enforced.",
        examples=["1"],
    )
    holder: HolderSpec | None = Field(
        default=None,
        description="Several holders of one table, by a column that names them.",
        examples=["{column: office, values: [n, s], membership: fixed}"],
    )

    expectations: Text | None = Field(
        default=None,
        description="The steward's own expectations about what a pass counts: a Great Expectations suite as JSON, "
        "relative to the study file, of known expectations with plain arguments; it decides nothing, and what it finds "
        "stays in the vault.",
        examples=["expectations.json"],
    )

    @property
    def places(self) -> tuple[str, ...]:
        """Every path of the table, or the database's address."""
        if self.holder is not None and self.holder.paths is not None:
            return tuple(path for paths in self.holder.paths.values() for path in paths)
        return self.path or (self.url or "",)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = {"path": self.path, "url": self.url, "holder.paths": self.holder and self.holder.paths}
        exactly_one(given, "the place of the table")
        if self.url is not None and self.query is None:
            raise refusal("a database is read by a query", "Add query: and a select", "url")
        if self.url is None and self.query is not None:
            raise refusal("a query needs a database", "Add url: and its address", "query")
        return self


class PeriodSpec(Section):
    """What a period is and whether the people in it come back."""

    grain: Grain = Field(
        description="Length of a period: month (2026-01), quarter (2026-Q1), year (2026) or day (2026-01-31).",
        examples=["month"],
    )
    people: Literal["same", "disjoint"] = Field(
        default="same",
        description="same: a person may be in many periods. disjoint: everybody is in one period only.",
        examples=["same"],
    )


class ColumnSpec(Section):
    """What is publicly known of a column; one of `bounds`, `levels` and `unbounded`, never taken from the data."""

    bounds: BoundsOrDates | None = Field(
        default=None,
        description="[low, high] of a column of numbers, or of dates: [1950-01-01, 2026-12-31]; values outside are "
        "clipped, and dates count as days since 1970-01-01.",
        examples=["[16, 80]"],
    )
    unbounded: Literal[True] | None = Field(
        default=None,
        description="A column of numbers of which no bounds are known: for posterior probabilities and quantiles only.",
        examples=["true"],
    )
    levels: Levels | None = Field(
        default=None,
        description="Values of a column of names; the first is the reference the others are compared with.",
        examples=["[north, south, east, west]"],
    )
    nulls: RealOrDate | None = Field(
        default=None,
        description="What null, NaN and unparsable become, within the bounds; if not given the middle of the bounds, "
        "or 0 where there are none. Not in releases with rows: complete.",
        examples=["38"],
    )
    unknown: Text | None = Field(
        default=None,
        description="Level that nulls and values outside the levels become; the first level if not given. In releases "
        "with rows: complete nulls are left out, and values outside the levels too where this is not given.",
        examples=["north"],
    )
    missing: MissingCodes | None = Field(
        default=None,
        description="Codes that the table writes for a missing value: numbers, dates where the bounds are dates, or "
        "texts in a column of levels. They count as null.",
        examples=["[-200]"],
    )
    missing_of: ColumnName | None = Field(
        default=None,
        description="A declared column: this one is not in the table but says of it, by the second of two levels, "
        "where its value is missing. Its missing values then count as what nulls: or unknown: says, also in releases "
        "with rows: complete. For regressions only.",
        examples=["income"],
    )
    expect: ExpectSpec | None = Field(
        default=None,
        description="Public guesses about a column, for planning and the default prior; never looked up in the data.",
        examples=["{mean: 2.5, sd: 0.6}"],
    )

    @property
    def fills(self) -> bool:
        """Whether it is stated what a missing value becomes."""
        return self.nulls is not None or self.unknown is not None

    @model_validator(mode="after")
    def _told_by_two_levels(self) -> Self:
        if self.missing_of is not None and len(self.levels or ()) != 2:
            what = "what tells whether a value is missing has two levels"
            raise refusal(what, "Write levels: [no, yes]", "missing_of")
        if self.missing_of is not None and (self.unknown or self.missing):
            raise refusal("what tells whether a value is missing is never missing", "Delete the rule", "missing_of")
        return self

    @model_validator(mode="after")
    def _codes_of_its_kind(self) -> Self:
        for code in self.missing or ():
            if self.levels is not None and not isinstance(code, str):
                raise refusal("a column of levels has codes of text", "Put quotes around it", "missing")
            if self.levels is None and isinstance(code, str):
                what = f"{shown(code)} is text, which counts as missing in a column of numbers anyway"
                raise refusal(what, "Take it out", "missing")
            if isinstance(code, str) and code in (self.levels or ()):
                raise refusal(f"{shown(code)} is one of the levels", "Take it out of one of them", "missing")
            if isinstance(code, Day) != isinstance(self.bounds, DateBounds) and not isinstance(code, str):
                what = "the bounds are dates and this is none"
                what = what if isinstance(self.bounds, DateBounds) else "the bounds are numbers and this is a date"
                raise refusal(what, "Write both as dates, or both as numbers", "missing")
        return self

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        exactly_one(
            {"bounds": self.bounds, "levels": self.levels, "unbounded": self.unbounded}, "what the column may hold"
        )
        if self.bounds is not None:
            self._check_bounded(self.bounds.low, self.bounds.high)
            self._check_dates(isinstance(self.bounds, DateBounds))
        elif self.unbounded:
            self._check_unbounded()
        elif self.nulls is not None:
            raise refusal(
                "a column of levels takes unknown, not nulls", "Write unknown: and one of its levels", "nulls"
            )
        elif self.unknown is not None and self.unknown not in (self.levels or ()):
            raise refusal(f"{shown(self.unknown)} is not one of the levels", "Name one of them", "unknown")
        elif self.expect is not None:
            self.expect.check_levels(self.levels or ())
        return self

    def _check_unbounded(self) -> None:
        if self.unknown is not None:
            raise refusal("a column of numbers takes nulls, not unknown", "Write nulls: and a number", "unknown")
        if self.expect is not None:
            raise refusal("guesses are for bounded columns", "Delete expect", "expect")
        if isinstance(self.nulls, Day):
            raise refusal("a date belongs to a column with dates as bounds", "Write a number", "nulls")

    def _check_bounded(self, low: float, high: float) -> None:
        if self.unknown is not None:
            raise refusal("a bounded column takes nulls, not unknown", "Write nulls: and a number", "unknown")
        if self.nulls is not None and not low <= self.nulls <= high:
            raise refusal(f"{self.nulls:g} is outside the bounds", "Choose a value within them", "nulls")
        if self.expect is not None:
            self.expect.check_numbers(low, high)

    def _check_dates(self, dates: bool) -> None:
        given = {"nulls": self.nulls, "expect": None if self.expect is None else self.expect.mean}
        for key, value in given.items():
            if value is not None and isinstance(value, Day) != dates:
                what = "the bounds are dates and this is none" if dates else "this is a date and the bounds are none"
                raise refusal(what, "Write both as dates, or both as numbers", key)
