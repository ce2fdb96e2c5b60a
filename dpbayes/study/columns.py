"""Sections of the study file about columns: what is publicly known of them, and guessed."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dpbayes.strict_yaml.dates import BoundsOrDates, DateBounds, Day, MissingCodes, RealOrDate
from dpbayes.strict_yaml.fields import ColumnName, Levels, Real, Says, Section, Spread, Text, exactly_one, refusal
from dpbayes_core.text import nearest, shown

SHARE_TOLERANCE = 1e-6  # how far the sum of all shares may be from 1


def _correlation(value: float) -> float:
    if not -1 < value < 1:
        raise refusal("a correlation lies between -1 and 1", "Write one such as 0.85, without the ends")
    return value


def _share(value: float) -> float:
    if not 0 < value < 1:
        raise refusal("a share lies between 0 and 1", "Write one such as 0.3, without the ends")
    return value


Correlation = Annotated[Real, AfterValidator(_correlation), Says("number between -1 and 1")]
Share = Annotated[Real, AfterValidator(_share), Says("number between 0 and 1")]


class ExpectSpec(Section):
    """Public guesses about a column: for planning, and the units of the default prior; never in a release."""

    mean: RealOrDate | None = Field(
        default=None, description="Expected mean, within the bounds; with sd.", examples=["2.5"]
    )
    sd: Spread | None = Field(default=None, description="Expected standard deviation; with mean.", examples=["0.6"])
    correlations: dict[ColumnName, Correlation] | None = Field(
        default=None,
        description="Expected correlations with other columns, the response among them: each pair once, columns of "
        "numbers or of two levels (then with the second level).",
        examples=["{tenure: 0.85}"],
    )
    shares: dict[Text, Share] | None = Field(
        default=None,
        description="Expected shares of levels; those that are not named have equal parts of the rest.",
        examples=["{north: 0.6, south: 0.005}"],
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.mean is None) != (self.sd is None):
            raise refusal("a guess of numbers is a mean and an sd", "Write both, or neither")
        if self.mean is None and not self.correlations and not self.shares:
            raise refusal("nothing is expected", "Write mean and sd, correlations, or shares, or delete expect")
        return self

    def check_numbers(self, low: float, high: float) -> None:
        """Refuse expectations that a column with these bounds cannot have."""
        if self.shares is not None:
            raise refusal("shares are of levels", "Write mean and sd of a column of numbers", "expect")
        if self.mean is not None and not low <= self.mean <= high:
            raise refusal("the expected mean is outside the bounds", "Choose one within them", "expect")

    def check_levels(self, levels: tuple[str, ...]) -> None:
        """Refuse expectations that a column with these levels cannot have."""
        if self.mean is not None:
            raise refusal("guesses of mean and sd are for bounded columns", "Write shares of the levels", "expect")
        if self.correlations is not None and len(levels) > 2:
            raise refusal("correlations are of numbers and of two levels", "Delete them", "expect")
        for level in self.shares or ():
            if level not in levels:
                remedy = nearest(level, levels, "Name one of")
                raise refusal(f"{shown(level)} is not one of the levels", remedy, "expect")
        if self.shares and not _add_up(self.shares, levels):
            raise refusal("the shares of the levels do not add up", "Those of all levels make 1", "expect")


def shares_of(stated: Mapping[str, float], levels: tuple[str, ...]) -> tuple[float, ...]:
    """The share of every level; those that are not named have equal parts of the rest."""
    rest = 1 - math.fsum(stated.values())
    return tuple(stated.get(level, rest / max(1, len(levels) - len(stated))) for level in levels)


def _add_up(stated: Mapping[str, float], levels: tuple[str, ...]) -> bool:
    total = math.fsum(stated.values())
    return total < 1 if len(stated) < len(levels) else abs(total - 1) <= SHARE_TOLERANCE


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
        description="A declared column: this one is not in the table; its second level marks the rows where that "
        "column's value is missing. Its missing values then count as what nulls: or unknown: says, also in releases "
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
        """Whether the study states what a missing value becomes."""
        return self.nulls is not None or self.unknown is not None

    @model_validator(mode="after")
    def _check_indicator(self) -> Self:
        if self.missing_of is not None and len(self.levels or ()) != 2:
            what = "an indicator of missing values has two levels"
            raise refusal(what, "Write levels: [no, yes]", "missing_of")
        if self.missing_of is not None and (self.unknown or self.missing):
            raise refusal("an indicator of missing values is never missing", "Delete the rule", "missing_of")
        return self

    @model_validator(mode="after")
    def _check_codes(self) -> Self:
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
    def _check_kind(self) -> Self:
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
