"""The schema of a regression whose numeric columns have no usable bounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpbayes_core.errors import Refusal
from dpbayes_core.regression.schema import INTERCEPT, Factor


@dataclass(frozen=True)
class Unbounded:
    """A numeric column without declared bounds."""

    name: str

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {"kind": "unbounded", "name": self.name}


OpenCovariate = Unbounded | Factor


@dataclass(frozen=True)
class OpenSchema:
    """A linear regression with intercept, in the user's units; a factor's first level is the reference."""

    response: str
    covariates: tuple[OpenCovariate, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariates", tuple(self.covariates))
        names = [covariate.name for covariate in self.covariates]
        if self.response in names:
            what = f"cannot regress {self.response} on itself: it is a covariate"
            raise Refusal("response", what, "Take it out of them")
        for what in (names, list(self.coefficients)):
            if repeated := next((name for name in what if what.count(name) > 1), None):
                raise Refusal("covariates", f"cannot build regression: {repeated} occurs twice", "Rename or drop one")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, the response last."""
        return (*(covariate.name for covariate in self.covariates), self.response)

    @cached_property
    def coefficients(self) -> tuple[str, ...]:
        """Names of the coefficients, the intercept first."""
        return (INTERCEPT, *(name for covariate in self.covariates for name in _labels(covariate)))

    def place(self, coefficient: str) -> int:
        """The index of a coefficient; an unknown name is refused."""
        if coefficient not in self.coefficients:
            remedy = f"Choose from {', '.join(self.coefficients)}"
            raise Refusal("coefficient", f"cannot ask about {coefficient}: it is no coefficient", remedy)
        return self.coefficients.index(coefficient)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {"covariates": [covariate.to_record() for covariate in self.covariates], "response": self.response}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "OpenSchema":
        """The inverse of `to_record`."""
        return cls(record["response"], tuple(_covariate(column) for column in record["covariates"]))


def _labels(covariate: OpenCovariate) -> tuple[str, ...]:
    if isinstance(covariate, Unbounded):
        return (covariate.name,)
    return tuple(f"{covariate.name}[{level}]" for level in covariate.levels[1:])


def _covariate(record: Mapping[str, Any]) -> OpenCovariate:
    return Factor(record["name"], tuple(record["levels"])) if record["kind"] == "factor" else Unbounded(record["name"])


def printed(value: float) -> str:
    """A number as in a parameter's name: with all stated digits, no more."""
    return repr(float(value)).removesuffix(".0")
