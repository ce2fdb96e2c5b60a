"""The prior of an analysis, of the kind that its release needs."""

from collections.abc import Mapping

from dpbayes.kinds.prior import NOTHING, AnyPrior, PriorSpec
from dpbayes.kinds.registry import KINDS
from dpbayes.kinds.regression.samplers import INDEPENDENT_SAMPLERS
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.privacy.release import AnyRelease
from dpbayes_core.regression.planning.expected_moments import Expected

Guesses = Mapping[str, Expected]
"""What columns are expected to be, by name."""


def prior_for(release: AnyRelease, stated: PriorSpec, sampler: str, expected: Guesses = NOTHING) -> AnyPrior:
    """The stated prior, or the default of that sampler; parts of other kinds are refused.

    A regression's default may be in units of what its columns are expected to be.
    """
    taken = KINDS[release.kind].prior
    assert taken is not None
    for name in taken.others(stated):
        raise StudyInvalid(
            f"cannot use the prior: {name} is no part of a {release.kind} release's. "
            f"Choose from {', '.join(taken.parts) or 'none'}."
        )
    return taken.prior(release, stated, sampler, expected)


def refuse_law(stated: PriorSpec, sampler: str) -> None:
    """Refuse the independent law where the chosen sampler would draw under another one."""
    if stated.law == "independent" and sampler not in INDEPENDENT_SAMPLERS:
        raise StudyInvalid(
            f"cannot analyse with sampler {sampler}: it takes no prior with law: independent. "
            "Choose sampler collapsed, or state law: conjugate."
        )
