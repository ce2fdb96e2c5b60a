"""Sections of the study file about the confidential table: where it is, its periods, its public columns."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from storage.ledger.request import Grain
from storage.study.fields import (
    ColumnName,
    Levels,
    Pair,
    Real,
    Section,
    Spread,
    Text,
    exactly_one,
    refusal,
)
from storage.study.flaw import shown


def _template(path: str) -> str:
    rest = path.replace("{period}", "")
    if rest == path:
        raise refusal(
            "there is no {period} in it", "Write {period} where the period's name goes: data-{period}.parquet"
        )
    if "{" in rest or "}" in rest:
        raise refusal("it has braces other than {period}", "Keep {period} as the only field")
    if ".." in path.replace("\\", "/").split("/"):
        raise refusal("two dots climb out of its folder", "Put the study file above the data, or write a full path")
    return path


class HolderSpec(Section):
    """Who keeps which rows, where several offices hold one table."""

    column: ColumnName = Field(description="Column that names the holder.", examples=["office"])
    values: Levels = Field(description="All holders, as that column spells them.", examples=["[n, s]"])
    membership: Literal["fixed", "movable", "undeclared"] = Field(
        description="Whether each person stays with one holder: fixed, movable or undeclared.", examples=["fixed"]
    )


class SourceSpec(Section):
    """Where the confidential table is and what one person is in it."""

    path: Annotated[Text, AfterValidator(_template)] = Field(
        description="Parquet file or folder of one period, relative to the study file; {period} becomes its name.",
        examples=["data/wages-{period}.parquet"],
    )
    url: Text | None = Field(default=None, description="Database to read from.", examples=["postgresql://host/people"])
    query: Text | None = Field(
        default=None, description="What to read from the database.", examples=["select * from wages"]
    )
    rows: Annotated[int, Field(ge=1, le=10**12)] = Field(
        description="About how many rows a period has: a public guess, never trusted as the number of rows.",
        examples=["50000"],
    )
    unit: ColumnName | None = Field(
        default=None,
        description="Column that names a person. Leave it out only where one row is one person.",
        examples=["person_id"],
    )
    max_rows_per_unit: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description="How many rows one person may contribute; the pass enforces it.", examples=["1"]
    )
    holder: HolderSpec | None = Field(
        default=None,
        description="Several holders of one table, by a column that names them.",
        examples=["{column: office, values: [n, s], membership: fixed}"],
    )


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


class ExpectSpec(Section):
    """Public guesses about a column: used by planning only, never in a release."""

    mean: Real = Field(description="Expected mean, within the bounds.", examples=["2.5"])
    sd: Spread = Field(description="Expected standard deviation.", examples=["0.6"])


class ColumnSpec(Section):
    """What is publicly known of a column; either `bounds` or `levels`, never taken from the data."""

    bounds: Pair | None = Field(
        default=None, description="[low, high] of a numeric column; values outside are clipped.", examples=["[16, 80]"]
    )
    levels: Levels | None = Field(
        default=None,
        description="Values of a column of names; the first is the reference the others are compared with.",
        examples=["[north, south, east, west]"],
    )
    nulls: Real | None = Field(
        default=None,
        description="What null, NaN and unparsable become, within the bounds; the middle of the bounds if not given.",
        examples=["38"],
    )
    unknown: Text | None = Field(
        default=None,
        description="Level that nulls and values outside the levels become; the first level if not given.",
        examples=["north"],
    )
    expect: ExpectSpec | None = Field(
        default=None,
        description="Public guesses about a bounded column, for planning.",
        examples=["{mean: 2.5, sd: 0.6}"],
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        exactly_one({"bounds": self.bounds, "levels": self.levels}, "what the column may hold")
        if self.bounds is not None:
            self._check_bounded(self.bounds.low, self.bounds.high)
        elif self.nulls is not None:
            raise refusal(
                "a column of levels takes unknown, not nulls", "Write unknown: and one of its levels", "nulls"
            )
        elif self.expect is not None:
            raise refusal("guesses are for bounded columns", "Delete expect", "expect")
        elif self.unknown is not None and self.unknown not in (self.levels or ()):
            raise refusal(f"{shown(self.unknown)} is not one of the levels", "Name one of them", "unknown")
        return self

    def _check_bounded(self, low: float, high: float) -> None:
        if self.unknown is not None:
            raise refusal("a bounded column takes nulls, not unknown", "Write nulls: and a number", "unknown")
        if self.nulls is not None and not low <= self.nulls <= high:
            raise refusal(f"{self.nulls:g} is outside the bounds", "Choose a value within them", "nulls")
        if self.expect is not None and not low <= self.expect.mean <= high:
            raise refusal("the expected mean is outside the bounds", "Choose one within them", "expect")
