"""The prior of a regression: its law, its defaults, and whether it fits the release."""

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
    """The stated law; without one `independent` if nothing is stated and the sampler supports it, else `conjugate`."""
    if stated.law is not None:
        return stated.law
    return "independent" if stated.unstated and sampler in INDEPENDENT_SAMPLERS else "conjugate"


def law_words(stated: PriorSpec) -> str | None:
    """A note that the conjugate law applies, where a prior states parts but no law; None otherwise."""
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
    """The prior of a regression; parts that are not stated have the defaults of its law.

    If nothing is stated, the law is independent and the response's sd is expected, the default is in units of that.
    """
    law = law_of(stated, sampler)
    if stated.unstated and law == "independent" and schema.response.name in expected:
        return expected_prior(schema, expected)
    choices: dict[str, Any] = stated.model_dump(
        include=set(OF_REGRESSIONS) - {"law"}, exclude_unset=True, exclude_none=True
    )
    return LAWS[law].from_user(choices, schema)


class PriorOfRegressions(PriorOfKind):
    """A prior under one of two laws, stated or by default."""

    parts = OF_REGRESSIONS
    example = "coefficients: {sd: 0.5}"

    def prior(self, release: Any, stated: PriorSpec, sampler: str, expected: "Mapping[str, Expected]") -> AnyPrior:
        """The stated prior; the default may be in units of what columns are expected to be."""
        return regression_prior(stated, release.schema, sampler, expected)

    def from_record(self, release: Any, record: Mapping[str, Any]) -> AnyPrior:
        """The prior under the law that the record names."""
        return prior_from_record(record)

    def problems(
        self, stated: PriorSpec, section: RegressionSpec, context: ReleaseContext, place: Place
    ) -> Iterator[Problem]:
        """Names that are not coefficients, and numbers outside the range of the arithmetic."""
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
    """Stated numbers that are too large or too small on the standardised scale."""
    yield from refused(lambda: regression_prior(prior, schema), place, PARTS)


PRIOR = PriorOfRegressions()
