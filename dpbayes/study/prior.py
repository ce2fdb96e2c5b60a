"""The prior of an analysis as a study states it, and what it must agree with: the kind and columns of its release."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dpbayes.strict_yaml.fields import Real, Says, Section, Spread, Text, refusal
from dpbayes.strict_yaml.problem import Flaw, Place
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.regression.expected_prior import expected_prior
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.prior import LEAST, MOST, Prior
from dpbayes_core.text import nearest, shown

if TYPE_CHECKING:
    from dpbayes.study.analyses import ReleaseSpec
    from dpbayes.study.file import StudyFile
    from dpbayes_core.regression.planning.expected_moments import Expected
    from dpbayes_core.regression.schema import RegressionSchema

PARTS: Mapping[str, tuple[str, ...]] = {
    "regression": ("law", "intercept", "coefficients", "named", "noise"),
    "bayes-net": ("concentration",),
}
"""What a prior has where a release of the kind is analysed; nothing for a kind that is not here."""

AUTO = "auto"
NOTHING: "Mapping[str, Expected]" = {}
INDEPENDENT_SAMPLERS = (AUTO, "collapsed", "robust")
"""What draws under the independent law; every other sampler's steps need the conjugate one."""


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
    """What is believed before the release; of a regression, with every column mapped to [-1, 1] unless named."""

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
        """Whether it says nothing of a regression, not even its law."""
        return not self.model_fields_set & set(PARTS["regression"])


LAWS: Mapping[str, type[Prior]] = {"conjugate": Prior, "independent": IndependentPrior}


def law_of(stated: PriorSpec, sampler: str) -> str:
    """The law that is stated; else independent where nothing is, as the sampler takes it.

    Priors that state a part are from before there was a choice.
    """
    if stated.law is not None:
        return stated.law
    return "independent" if stated.unstated and sampler in INDEPENDENT_SAMPLERS else "conjugate"


def law_words(stated: PriorSpec) -> str | None:
    """That the conjugate law is used with its units, where a regression's prior states parts and no law; else None."""
    if stated.law is not None or stated.unstated:
        return None
    return (
        "no law is stated, so the conjugate law is used with its units: sds of coefficients that are not named are "
        "multiples of the residual sd (docs/priors.md). State law: conjugate, or law: independent"
    )


def regression_prior(
    stated: PriorSpec,
    schema: "RegressionSchema",
    sampler: str = AUTO,
    expected: "Mapping[str, Expected]" = NOTHING,
) -> Prior:
    """The prior of a regression: a part that is not stated is its law's own default.

    Where nothing is, and the law is independent, the default is in units of what is expected, if the response's sd is.
    """
    law = law_of(stated, sampler)
    if stated.unstated and law == "independent" and schema.response.name in expected:
        return expected_prior(schema, expected)
    choices: dict[str, Any] = stated.model_dump(
        include=set(PARTS["regression"]) - {"law"}, exclude_unset=True, exclude_none=True
    )
    return LAWS[law].from_user(choices, schema)


def prior_flaws(prior: PriorSpec, release: "ReleaseSpec", file: "StudyFile", place: Place) -> Iterator[Flaw]:
    """Parts that belong to another kind of release, and names that are no coefficients."""
    parts = PARTS.get(release.kind, ())
    for part in sorted(prior.model_fields_set - set(parts)):
        what = f"it is no part of the prior of a {release.kind} release"
        yield Flaw((*place, part), what, f"Choose from {', '.join(parts)}" if parts else "Delete it")
    if release.kind == "regression" and not any(release.flaws(file, ())):
        names = release.regression(file).coefficients
        for name in prior.named:
            if name not in names:
                what = f"{shown(name)} is no coefficient of {release.formula}"
                yield Flaw((*place, "named", name), what, nearest(name, names, "The names are"))
        if set(prior.named) <= set(names):
            yield from _extremes(prior, release.regression(file), place)


def _extremes(prior: PriorSpec, schema: "RegressionSchema", place: Place) -> Iterator[Flaw]:
    """What is too large or small for arithmetic once it is told on the standardised scale."""
    try:
        regression_prior(prior, schema)
    except StudyInvalid as error:
        what, _, remedy = str(error).removeprefix("cannot use the prior: ").rpartition(". ")
        yield Flaw((*place, "named" if prior.named else "noise"), what, remedy.removesuffix("."))
