"""Public guesses about columns, for planning and the default prior: what they are, and what they say of pairs."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from dpbayes.strict_yaml.dates import RealOrDate
from dpbayes.strict_yaml.fields import ColumnName, Real, Says, Section, Spread, Text, refusal
from dpbayes.strict_yaml.problem import Flaw
from dpbayes_core.text import nearest, shown

if TYPE_CHECKING:
    from dpbayes.study.file import StudyFile
    from dpbayes_core.regression.planning.expected_moments import Expected
    from dpbayes_core.regression.planning.relations import Relations
    from dpbayes_core.regression.schema import RegressionSchema

SUM = 1e-6  # shares of all levels add up to 1 within it


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
    def _whole(self) -> Self:
        if (self.mean is None) != (self.sd is None):
            raise refusal("a guess of numbers is a mean and an sd", "Write both, or neither")
        if self.mean is None and not self.correlations and not self.shares:
            raise refusal("nothing is expected", "Write mean and sd, correlations, or shares, or delete expect")
        return self

    def check_numbers(self, low: float, high: float) -> None:
        """Refuse what a bounded column cannot be expected to be."""
        if self.shares is not None:
            raise refusal("shares are of levels", "Write mean and sd of a column of numbers", "expect")
        if self.mean is not None and not low <= self.mean <= high:
            raise refusal("the expected mean is outside the bounds", "Choose one within them", "expect")

    def check_levels(self, levels: tuple[str, ...]) -> None:
        """Refuse what a column of levels cannot be expected to be."""
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
    return total < 1 if len(stated) < len(levels) else abs(total - 1) <= SUM


def expected_of(file: "StudyFile", schema: "RegressionSchema") -> "dict[str, Expected]":
    """What a study expects of a regression's columns, by name: of those that have a mean and an sd."""
    from dpbayes_core.regression.planning.expected_moments import Expected

    columns = [file.columns.get(column.name) for column in (*schema.covariates, schema.response)]
    names = (column.name for column in (*schema.covariates, schema.response))
    guesses = {name: column.expect for name, column in zip(names, columns, strict=True) if column is not None}
    return {
        name: Expected(float(guess.mean), guess.sd)
        for name, guess in guesses.items()
        if guess is not None and guess.mean is not None and guess.sd is not None
    }


def relations_of(file: "StudyFile", **more: float) -> "Relations":
    """What a study states of pairs of columns and of levels."""
    from dpbayes_core.regression.planning.relations import Relations

    guesses = {name: column.expect for name, column in file.columns.items() if column.expect is not None}
    pairs = {
        frozenset((name, other)): value
        for name, guess in guesses.items()
        for other, value in (guess.correlations or {}).items()
    }
    shares = {
        name: shares_of(guess.shares, file.columns[name].levels or ())
        for name, guess in guesses.items()
        if guess.shares is not None
    }
    return Relations(pairs, shares, **more)


def guess_flaws(file: "StudyFile") -> Iterator[Flaw]:
    """Correlations with what is no such column, pairs stated twice, and those that cannot all be."""
    found = list(_pair_flaws(file))
    yield from found
    relations = relations_of(file)
    if found or not relations.correlations:
        return
    from dpbayes_core.regression.planning.relations import possible

    named = [name for name in file.columns if any(name in pair for pair in relations.correlations)]
    if not possible(named, relations):
        stating = next(name for name, column in file.columns.items() if column.expect and column.expect.correlations)
        what = "no columns have all of the correlations that are stated"
        yield Flaw(("columns", stating, "expect", "correlations"), what, "Correct one of them, or leave some out")


def _pair_flaws(file: "StudyFile") -> Iterator[Flaw]:
    known: set[frozenset[str]] = set()
    taken = [name for name, column in file.columns.items() if column.bounds or len(column.levels or ()) == 2]
    for name, column in file.columns.items():
        for other in (column.expect and column.expect.correlations) or ():
            place = ("columns", name, "expect", "correlations", other)
            if other == name:
                yield Flaw(place, "a column is not correlated with itself", "Name another column")
            elif other not in taken:
                what = f"{shown(other)} is no column with bounds or two levels"
                yield Flaw(place, what, nearest(other, taken, "Name one of"))
            elif frozenset((name, other)) in known:
                yield Flaw(place, f"this pair is stated at {shown(other)}, too", "Write it once")
            known.add(frozenset((name, other)))
