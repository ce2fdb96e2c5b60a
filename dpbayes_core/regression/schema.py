"""The schema of a regression: columns, their encoding, the entries of second moments, and the user's units."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.errors import Refusal
from dpbayes_core.regression.ball import Ball
from dpbayes_core.regression.standardisation import Standardisation

Kind = Literal["continuous", "two-level", "indicator"]
Cases = Literal["all", "complete"]
"""Which rows count: all of them, or those without a missing value in any column."""

INTERCEPT = "(intercept)"
SIGMA = "sigma"


@dataclass(frozen=True)
class Continuous:
    """A numeric column, clipped to public bounds and standardised to [-1, 1]."""

    name: str
    bounds: Bounds

    def variables(self) -> tuple["Variable", ...]:
        """One variable: the column itself."""
        return (Variable(self.name, None, self.name, "continuous"),)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {"kind": "continuous", "name": self.name, "bounds": [self.bounds.low, self.bounds.high]}


@dataclass(frozen=True)
class Factor:
    """A column of named levels; the first is the reference."""

    name: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        if len(self.levels) < 2:
            raise ValueError(f"cannot declare factor {self.name}: it needs at least 2 levels. Name them all.")
        if len(set(self.levels)) < len(self.levels):
            raise ValueError(f"cannot declare factor {self.name}: a level is given twice. Name each level once.")

    def variables(self) -> tuple["Variable", ...]:
        """One -1/+1 variable for two levels, else a 0/1 indicator of each level but the reference."""
        kind: Kind = "two-level" if len(self.levels) == 2 else "indicator"
        return tuple(Variable(self.name, level, f"{self.name}[{level}]", kind) for level in self.levels[1:])

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {"kind": "factor", "name": self.name, "levels": list(self.levels)}


Covariate = Continuous | Factor


@dataclass(frozen=True)
class Variable:
    """One encoded, non-constant variable; `label` is the name of its coefficient."""

    column: str
    level: str | None
    label: str
    kind: Kind


@dataclass(frozen=True)
class RegressionSchema:
    """A linear regression's columns and bounds; in an entry (i, j), 0 is the constant and 1, 2, ... the variables.

    Without an intercept columns are scaled but not shifted, entries have no sums of single variables, and matrices have
    no row for the constant. With complete cases the number of rows depends on values, so it is never public.
    """

    response: Continuous
    covariates: tuple[Covariate, ...]
    intercept: bool = True
    ball: Ball | None = None
    cases: Cases = "all"

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariates", tuple(self.covariates))
        if self.cases not in ("all", "complete"):
            raise ValueError("cannot build regression: its rows are neither all nor the complete ones. Choose one.")
        self._refuse_names()
        if not self.intercept:
            self._refuse_without_intercept()
        if self.ball is not None:
            self._refuse_in_ball(self.ball)

    def _refuse_names(self) -> None:
        columns = [covariate.name for covariate in self.covariates]
        if self.response.name in columns:
            what = f"cannot regress {self.response.name} on itself: it is among the covariates"
            raise Refusal("response", what, "Take it out of them")
        _refuse_repeats("covariate", columns)
        _refuse_repeats("coefficient name", [*self.coefficients, SIGMA])

    def _refuse_without_intercept(self) -> None:
        if any(isinstance(column, Factor) for column in self.covariates):
            what = "cannot regress without intercept on named levels"
            raise Refusal("intercept", what, "Keep the intercept, or code numbers")
        for column in (*self.covariates, self.response):
            low, high = self.standardised(column).steps(16) if isinstance(column, Continuous) else (0, 1)
            if low == high:
                what = f"cannot regress without intercept: {column.name} has bounds too close for their size"
                raise Refusal("intercept", what, "Widen them")

    def _refuse_in_ball(self, ball: Ball) -> None:
        if any(isinstance(column, Factor) for column in self.covariates):
            raise Refusal("ball", "cannot bound the norm of named levels", "Leave the norm out, or code numbers")
        if self.d < 2 or min(ball.covariates, self.d) ** 2 > self.d:
            raise Refusal("ball", "cannot bound the norm of the covariates: their bounds already do", "Leave it out")

    def standardised(self, column: Continuous) -> Standardisation:
        """The map from a column to [-1, 1]."""
        return (Standardisation.shifted if self.intercept else Standardisation.scaled)(column.bounds)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The m encoded variables: covariates in their declared order, the response last."""
        return tuple(v for column in (*self.covariates, self.response) for v in column.variables())

    @property
    def m(self) -> int:
        """The number of encoded variables, without the constant."""
        return len(self.variables)

    @property
    def d(self) -> int:
        """The number of coefficients, without the intercept."""
        return self.m - 1

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the coefficients, the intercept first where there is one."""
        slopes = tuple(variable.label for variable in self.variables[:-1])
        return (INTERCEPT, *slopes) if self.intercept else slopes

    @cached_property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """The released moments (i, j), i <= j: those that are not public, not always zero, and equal to no other."""
        return tuple(self._free_places())

    @property
    def entries_with_count(self) -> tuple[tuple[int, int], ...]:
        """(0, 0), the number of rows, then the entries: the released moments where that number is not public."""
        return ((0, 0), *self.entries)

    def _free_places(self) -> Iterator[tuple[int, int]]:
        for j in range(1, self.m + 1) if self.intercept else ():
            yield 0, j
        for i in range(1, self.m + 1):
            for j in range(i, self.m + 1):
                first, second = self.variables[i - 1], self.variables[j - 1]
                if first.kind == "continuous" or first.column != second.column:
                    yield i, j

    def complete(self, values: Floats, n: float) -> Floats:
        """The symmetric matrix of second moments from the released values and n, with tied entries filled in.

        (m+1, m+1), the constant first; (m, m) without intercept.
        """
        rows, columns = np.array(self.entries).T
        full = np.zeros((self.m + 1, self.m + 1))
        full[rows, columns] = values
        full[columns, rows] = values
        full[0, 0] = n
        for i, variable in enumerate(self.variables, start=1):
            if variable.kind == "two-level":
                full[i, i] = n  # the square of a two-level variable is 1
            elif variable.kind == "indicator":
                full[i, i] = full[0, i]  # an indicator equals its square
        return full if self.intercept else full[1:, 1:]

    def to_user_units(self, theta: Floats, sigma: Floats) -> tuple[Floats, Floats]:
        """Standardised coefficients and residual sd (...) in the user's units and 0/1 levels.

        The coefficients are (..., d+1), or (..., d) without intercept.
        """
        response = self.standardised(self.response)
        height = response.width / 2
        slope, shift = self._standardisation
        if not self.intercept:
            return height * theta * slope, height * sigma
        intercept = response.middle + height * (theta[..., 0] + theta[..., 1:] @ shift)
        slopes = height * theta[..., 1:] * slope
        return np.concatenate([intercept[..., None], slopes], axis=-1), height * sigma

    @cached_property
    def _standardisation(self) -> tuple[Floats, Floats]:
        """(slope, shift) with v = slope u + shift for each covariate's variable."""
        pairs: list[tuple[float, float]] = []
        for column in self.covariates:
            if isinstance(column, Continuous):
                standard = self.standardised(column)
                pairs.append((standard.slope, standard.shift))
            else:
                two = len(column.levels) == 2
                pairs += [(2.0, -1.0) if two else (1.0, 0.0)] * len(column.variables())
        table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON; defaults are left out, so that older records do not change."""
        record: dict[str, Any] = {
            "response": self.response.to_record(),
            "covariates": [covariate.to_record() for covariate in self.covariates],
        }
        if not self.intercept:
            record["intercept"] = False
        if self.ball is not None:
            record["ball"] = self.ball.to_record()
        if self.cases != "all":
            record["cases"] = self.cases
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "RegressionSchema":
        """The inverse of `to_record`."""
        response = _column_from_record(record["response"])
        if not isinstance(response, Continuous):
            raise ValueError("cannot read schema: the response must be continuous. Check where the record came from.")
        ball = Ball.from_record(record["ball"]) if "ball" in record else None
        columns = tuple(_column_from_record(column) for column in record["covariates"])
        return cls(response, columns, record.get("intercept", True), ball, record.get("cases", "all"))


def _column_from_record(record: Mapping[str, Any]) -> Covariate:
    if record["kind"] == "continuous":
        low, high = record["bounds"]
        return Continuous(record["name"], Bounds(low, high))
    if record["kind"] == "factor":
        return Factor(record["name"], tuple(record["levels"]))
    raise ValueError(
        "cannot read schema: a column is neither continuous nor a factor. Check where the record came from."
    )


def _refuse_repeats(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise Refusal("covariates", f"cannot build regression: {what} {name} occurs twice", "Rename or drop one")
