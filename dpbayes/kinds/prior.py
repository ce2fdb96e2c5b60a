"""The prior of an analysis as a study states it, and what a kind of release makes of it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Self

from pydantic import AfterValidator, Field, model_validator

from dpbayes.kinds.context import ReleaseContext
from dpbayes.strict_yaml.fields import Real, Says, Section, Spread, Text, refusal
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.regression.prior import LEAST, MOST

if TYPE_CHECKING:
    from dpbayes_core.regression.planning.expected_moments import Expected

OF_REGRESSIONS: tuple[str, ...] = ("law", "intercept", "coefficients", "named", "noise")
OF_NETWORKS: tuple[str, ...] = ("concentration",)
NOTHING: "Mapping[str, Expected]" = {}


def _within(number: float, least: float, most: float) -> float:
    if not least <= number <= most:
        raise refusal(f"it must be from {least:g} to {most:g}", "Write such a number")
    return number


Sds = Annotated[Spread, AfterValidator(lambda sd: _within(sd, LEAST, MOST)), Says(f"number from {LEAST:g} to {MOST:g}")]


Scale = Annotated[Spread, AfterValidator(lambda scale: _within(scale, LEAST**2, MOST**2))]


class InterceptPrior(Section):
    """Normal prior of the response at the middle of every column's bounds, centred on the middle of its own."""

    sd: Sds = Field(
        default=10.0,
        description="Standard deviation, in residual sds; with `law: independent` in half widths of the response's "
        "bounds, and 2 by default.",
        examples=["10"],
    )


class CoefficientPrior(Section):
    """Normal prior of every coefficient that is not named, centred on zero, columns mapped to [-1, 1]."""

    sd: Sds = Field(
        default=1.5,
        description="Standard deviation, in residual sds; with `law: independent` in half widths of the response's "
        "bounds, and 1 by default.",
        examples=["1"],
    )


class NamedPrior(Section):
    """Normal prior of one coefficient in the table's units; conjugate: at the residual sd that `noise` expects."""

    mean: Real = Field(
        default=0.0, description="Mean, in units of the response per unit of the column.", examples=["0.01"]
    )
    sd: Spread = Field(description="Standard deviation, in the same units.", examples=["0.02"])


class NoisePrior(Section):
    """Prior of the residual variance, with `law: independent` of the residual sd: shape, and scale or expected sd."""

    shape: Sds = Field(
        default=1.0,
        description="Shape of the residual variance's inverse gamma law, the larger the firmer; with `law: "
        "independent` of the residual sd's gamma law, and 2 by default.",
        examples=["2"],
    )
    scale: Scale | None = Field(
        default=None,
        description="Scale, in squared half widths of the response's bounds, 0.1 unless sd is given; with "
        "`law: independent` in half widths, and 0.15.",
        examples=["0.1"],
    )
    sd: Spread | None = Field(
        default=None,
        description="Expected residual standard deviation in units of the response, instead of scale: "
        "scale = shape sd^2; with `law: independent` scale = sd / shape, and sd is the mean.",
        examples=["0.6"],
    )

    @model_validator(mode="after")
    def _one_scale(self) -> Self:
        if self.scale is not None and self.sd is not None:
            raise refusal("scale and sd state one thing", "Keep one of them", "sd")
        return self


class PriorSpec(Section):
    """What is assumed before the release; for a regression, with every column mapped to [-1, 1] unless named."""

    law: Literal["conjugate", "independent"] | None = Field(
        default=None,
        description="Of a regression: `independent`, coefficients normal whatever the residual sd is, and that gamma; "
        "or `conjugate`, coefficients normal in units of the residual sd, and the residual variance inverse gamma. "
        "Unless stated `independent` where the prior states nothing else and the sampler takes it, in units of what "
        "is expected of the columns where the response's `expect` has an sd; else `conjugate`.",
        examples=["independent"],
    )
    intercept: InterceptPrior = Field(
        default=InterceptPrior(), description="Prior of the intercept.", examples=["{sd: 10}"]
    )
    coefficients: CoefficientPrior = Field(
        default=CoefficientPrior(), description="Prior of the coefficients.", examples=["{sd: 1.5}"]
    )
    named: dict[Text, NamedPrior] = Field(
        default={},
        description="Priors of single coefficients in the table's units, by the names that results have: age, "
        'or "region[east]", or "(intercept)".',
        examples=["{age: {mean: 0.01, sd: 0.02}}"],
    )
    noise: NoisePrior = Field(
        default=NoisePrior(), description="Prior of the residual variance or sd.", examples=["{shape: 2, sd: 0.6}"]
    )
    concentration: Spread = Field(
        default=1.0, description="Of a network: pseudo-count of each level given its parents.", examples=["0.5"]
    )

    @property
    def unstated(self) -> bool:
        """Whether it states nothing about a regression, not even the law."""
        return not self.model_fields_set & set(OF_REGRESSIONS)


class AnyPrior(Protocol):
    """The prior of an analysis."""

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        ...


class PriorOfKind(ABC):
    """How analyses of one kind of release turn a stated prior into the prior they use."""

    parts: tuple[str, ...] = ()  # of a stated prior that it reads
    example: str = ""  # a whole prior file

    @abstractmethod
    def prior(self, release: Any, stated: PriorSpec, sampler: str, expected: "Mapping[str, Expected]") -> AnyPrior:
        """The stated prior, or the sampler's default; `expected` has the expected moments of columns by name."""

    @abstractmethod
    def from_record(self, release: Any, record: Mapping[str, Any]) -> AnyPrior:
        """The prior that a record describes."""

    def problems(self, stated: PriorSpec, section: Any, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        """Where the stated parts contradict the release that a section describes."""
        yield from ()

    def others(self, stated: PriorSpec) -> list[str]:
        """The stated parts that belong to another kind of release."""
        return sorted(stated.model_fields_set - set(self.parts))
