"""The prior of a regression: which law a stated one has, and what it must agree with in its release."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.prior import NOTHING, OF_REGRESSIONS, AnyPrior, PriorOfKind, PriorSpec
from dpbayes.kinds.regression.samplers import AUTO, INDEPENDENT_SAMPLERS
from dpbayes.kinds.regression.section import RegressionSpec
from dpbayes.kinds.section import refused
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.regression.expected_prior import expected_prior
from dpbayes_core.regression.independent_prior import IndependentPrior, prior_from_record
from dpbayes_core.regression.prior import Prior
from dpbayes_core.text import nearest, shown

if TYPE_CHECKING:
    from dpbayes_core.regression.planning.expected_moments import Expected
    from dpbayes_core.regression.schema import RegressionSchema


PARTS = {"intercept_sd": "intercept", "coefficient_sd": "coefficients", "noise_shape": "noise", "noise_scale": "noise"}
"""The part of a stated prior that decides each field of the law."""

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
        include=set(OF_REGRESSIONS) - {"law"}, exclude_unset=True, exclude_none=True
    )
    return LAWS[law].from_user(choices, schema)


class PriorOfRegressions(PriorOfKind):
    """Of one of two laws, stated or by default."""

    parts = OF_REGRESSIONS
    example = "coefficients: {sd: 0.5}"

    def prior(self, release: Any, stated: PriorSpec, sampler: str, expected: "Mapping[str, Expected]") -> AnyPrior:
        """A regression's; its default may be in units of what its columns are expected to be."""
        return regression_prior(stated, release.schema, sampler, expected)

    def from_record(self, release: Any, record: Mapping[str, Any]) -> AnyPrior:
        """Of the law that the record names."""
        return prior_from_record(record)

    def problems(
        self, stated: PriorSpec, section: RegressionSpec, context: ReleaseContext, place: Place
    ) -> Iterator[Problem]:
        """Names that are no coefficients, and numbers that arithmetic does not take."""
        if any(section.problems(context, ())):
            return
        schema = section.regression(context)
        for name in stated.named:
            if name not in schema.coefficients:
                what = f"{shown(name)} is no coefficient of {section.formula}"
                yield Problem((*place, "named", name), what, nearest(name, schema.coefficients, "The names are"))
        if set(stated.named) <= set(schema.coefficients):
            yield from _extremes(stated, schema, place)


def _extremes(prior: PriorSpec, schema: "RegressionSchema", place: Place) -> Iterator[Problem]:
    """What is too large or small for arithmetic once it is told on the standardised scale."""
    yield from refused(lambda: regression_prior(prior, schema), place, PARTS)


PRIOR = PriorOfRegressions()
