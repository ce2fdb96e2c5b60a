"""What a study expects of its columns (means, sds, correlations, shares), and expectations that are impossible."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dpbayes.strict_yaml.problem import Problem
from dpbayes.study.columns import ColumnSpec, shares_of
from dpbayes_core.text import nearest, shown

if TYPE_CHECKING:
    from dpbayes_core.regression.planning.expected_moments import Expected
    from dpbayes_core.regression.planning.relations import Relations
    from dpbayes_core.regression.schema import RegressionSchema


def expected_of(columns: Mapping[str, ColumnSpec], schema: "RegressionSchema") -> "dict[str, Expected]":
    """The expected mean and sd of each column of a regression that states both, by name."""
    from dpbayes_core.regression.planning.expected_moments import Expected

    names = [column.name for column in (*schema.covariates, schema.response)]
    guesses = {name: columns[name].expect for name in names if name in columns}
    return {
        name: Expected(float(guess.mean), guess.sd)
        for name, guess in guesses.items()
        if guess is not None and guess.mean is not None and guess.sd is not None
    }


def relations_of(columns: Mapping[str, ColumnSpec], **more: float) -> "Relations":
    """The correlations and shares of levels that a study states."""
    from dpbayes_core.regression.planning.relations import Relations

    guesses = {name: column.expect for name, column in columns.items() if column.expect is not None}
    pairs = {
        frozenset((name, other)): value
        for name, guess in guesses.items()
        for other, value in (guess.correlations or {}).items()
    }
    shares = {
        name: shares_of(guess.shares, columns[name].levels or ())
        for name, guess in guesses.items()
        if guess.shares is not None
    }
    return Relations(pairs, shares, **more)


def guess_problems(columns: Mapping[str, ColumnSpec]) -> Iterator[Problem]:
    """Correlations with unknown columns, pairs stated twice, and correlations that no columns can have together."""
    found = list(_pair_problems(columns))
    yield from found
    relations = relations_of(columns)
    if found or not relations.correlations:
        return
    from dpbayes_core.regression.planning.relations import possible

    named = [name for name in columns if any(name in pair for pair in relations.correlations)]
    if not possible(named, relations):
        stating = next(name for name, column in columns.items() if column.expect and column.expect.correlations)
        what = "no columns have all of the correlations that are stated"
        yield Problem(("columns", stating, "expect", "correlations"), what, "Correct one of them, or leave some out")


def _pair_problems(columns: Mapping[str, ColumnSpec]) -> Iterator[Problem]:
    known: set[frozenset[str]] = set()
    taken = [name for name, column in columns.items() if column.bounds or len(column.levels or ()) == 2]
    for name, column in columns.items():
        for other in (column.expect and column.expect.correlations) or ():
            place = ("columns", name, "expect", "correlations", other)
            if other == name:
                yield Problem(place, "a column is not correlated with itself", "Name another column")
            elif other not in taken:
                what = f"{shown(other)} is no column with bounds or two levels"
                yield Problem(place, what, nearest(other, taken, "Name one of"))
            elif frozenset((name, other)) in known:
                yield Problem(place, f"this pair is stated at {shown(other)}, too", "Write it once")
            known.add(frozenset((name, other)))
