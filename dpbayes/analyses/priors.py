"""The prior of an analysis, of the kind that its release needs."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dpbayes.study.prior import INDEPENDENT_SAMPLERS, NOTHING, PARTS, PriorSpec, regression_prior
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.privacy.release import AnyRelease
from dpbayes_core.regression.planning.expected_moments import Expected

Guesses = Mapping[str, Expected]
"""What columns are expected to be, by name."""


class AnyPrior(Protocol):
    """What an analysis believes before the release."""

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        ...


def prior_for(release: AnyRelease, stated: PriorSpec, sampler: str, expected: Guesses = NOTHING) -> AnyPrior:
    """The stated prior, or the default of that sampler; parts of other kinds are refused.

    A regression's default may be in units of what its columns are expected to be.
    """
    parts, make = PARTS.get(release.kind, ()), PRIORS[release.kind]
    for name in sorted(stated.model_fields_set - set(parts)):
        raise StudyInvalid(
            f"cannot use the prior: {name} is no part of a {release.kind} release's. "
            f"Choose from {', '.join(parts) or 'none'}."
        )
    return make(release, stated, sampler, expected)


def refuse_law(stated: PriorSpec, sampler: str) -> None:
    """Refuse the independent law where the chosen sampler would draw under another one."""
    if stated.law == "independent" and sampler not in INDEPENDENT_SAMPLERS:
        raise StudyInvalid(
            f"cannot analyse with sampler {sampler}: it takes no prior with law: independent. "
            "Choose sampler collapsed, or state law: conjugate."
        )


def _regression(release: Any, stated: PriorSpec, sampler: str, expected: Guesses) -> AnyPrior:
    return regression_prior(stated, release.schema, sampler, expected)


def _network(release: Any, stated: PriorSpec, sampler: str, expected: Guesses) -> AnyPrior:
    from dpbayes_core.networks.posterior.prior import NetworkPrior

    return NetworkPrior(concentration=stated.concentration)


def _unused(release: Any, stated: PriorSpec, sampler: str, expected: Guesses) -> AnyPrior:
    from dpbayes_core.regression.prior import Prior

    return Prior()


def _of_the_release(release: Any, stated: PriorSpec, sampler: str, expected: Guesses) -> AnyPrior:
    return release.terms.prior


PRIORS: Mapping[str, Callable[[Any, PriorSpec, str, Guesses], AnyPrior]] = {
    "regression": _regression,
    "bayes-net": _network,
    "posterior-probability": _of_the_release,
    "posterior-quantile": _of_the_release,
    "ridge": _unused,
}
