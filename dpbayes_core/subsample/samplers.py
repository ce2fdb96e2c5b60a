"""Exact independent draws given a released aggregate: noise-aware, or as if it were exact, for comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms.exponential import ExponentialMechanism
from dpbayes_core.regression.prior import Prior
from dpbayes_core.sampling.independent import IndependentDraws
from dpbayes_core.subsample.aggregates import ZetaLaw, laws
from dpbayes_core.subsample.probability import ProbabilityRelease
from dpbayes_core.subsample.quantile import QuantileRelease
from dpbayes_core.subsample.quantile_laws import CentreScaleLaw, MediansLaw, centre_scale_law, medians_law

AggregateRelease = ProbabilityRelease | QuantileRelease


@dataclass(frozen=True, eq=False)
class ProbabilityProblem:
    """The laws of the released probabilities."""

    laws: tuple[ZetaLaw, ...]

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """(count, queries) probabilities."""
        uniform = generator.random((count, len(self.laws)))
        return np.stack([law.quantile(uniform[:, place]) for place, law in enumerate(self.laws)], axis=1)


@dataclass(frozen=True, eq=False)
class QuantileProblem:
    """The law of location and spread, and the released quantiles."""

    law: CentreScaleLaw | MediansLaw
    steps: Floats  # standard normal quantiles of the probabilities

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """(count, 1 + quantiles): the coefficient itself, then its posterior's quantiles."""
        location, spread = self.law.draw(generator, count)
        coefficient = location + spread * generator.standard_normal(count)
        return np.concatenate([coefficient[:, None], location[:, None] + spread[:, None] * self.steps], axis=1)


@dataclass(frozen=True)
class AggregateSampler(IndependentDraws):
    """Draws by inversion, noise-aware or, where `plain`, as if the aggregate were exact."""

    name: str
    target: str
    calibrated: bool
    caveat: str
    plain: bool
    takes: tuple[str, ...] = ("posterior-probability", "posterior-quantile")
    compared_with: str | None = None
    cost: str = "a draw takes the same time whatever the number of rows"

    def refusal(self, release: Any) -> str | None:
        """Why it cannot take this release, or None."""
        if not isinstance(release, ProbabilityRelease | QuantileRelease):
            return "it takes posterior probabilities and quantiles only"
        if isinstance(release, QuantileRelease) and isinstance(release.mechanism, ExponentialMechanism):
            if len(release.values) < 2:
                return "one released median says nothing of its own spread"
            if self.plain:
                return "released medians taken for exact leave nothing to draw"
        return None

    def names(self, release: AggregateRelease) -> tuple[str, ...]:
        """The parameters, in the order of a block's columns."""
        if isinstance(release, ProbabilityRelease):
            return release.terms.names
        quantiles = () if self.plain else release.terms.names  # taken as exact, they have no distribution
        return (release.terms.coefficient, *quantiles)

    def prepare(self, release: AggregateRelease, prior: Prior | None = None) -> ProbabilityProblem | QuantileProblem:
        """The tabulated law; `prior` is ignored, since subsets were fitted with the release's prior."""
        if isinstance(release, ProbabilityRelease):
            return ProbabilityProblem(tuple(laws(release, plain=self.plain)))
        from scipy.special import ndtri

        if isinstance(release.mechanism, ExponentialMechanism):
            return QuantileProblem(medians_law(release), ndtri(np.array(release.terms.probabilities)))
        steps = np.zeros(0) if self.plain else ndtri(np.array(release.terms.probabilities))
        return QuantileProblem(centre_scale_law(release, plain=self.plain), steps)

    def draws(self, release: AggregateRelease, parameters: Floats) -> Mapping[str, Floats]:
        """The answers by name."""
        return {name: parameters[..., place] for place, name in enumerate(self.names(release))}

    def draw(self, problem: Any, generator: np.random.Generator, count: int) -> Floats:
        """The answers, (count, parameters)."""
        return np.concatenate([problem.draw(generator, 1) for _ in range(count)])


AGGREGATE_SAMPLERS: Mapping[str, AggregateSampler] = {
    sampler.name: sampler
    for sampler in (
        AggregateSampler(
            name="aggregate-noise-aware",
            target="posterior of the whole table's answer given the released aggregate, its noise included",
            calibrated=True,
            caveat="Assumes that subset answers scatter as those of a well-behaved regression do; where all subsets "
            "agree on an extreme answer, intervals stay wide.",
            plain=False,
            compared_with="aggregate-plain",
        ),
        AggregateSampler(
            name="aggregate-plain",
            target="posterior of the whole table's answer, as if the released aggregate were exact",
            calibrated=False,
            caveat="Takes the released aggregate for exact: the intervals leave out the privacy noise.",
            plain=True,
        ),
    )
}
