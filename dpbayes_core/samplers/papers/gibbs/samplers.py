"""The samplers of Bernstein and Sheldon (2019) as entries of `SAMPLERS`; the state of a chain is the latent statistic.

The covariates are normal with unknown mean and covariance, or have given moments, declared or released with noise.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.labels import latent_draws, regression_draws
from dpbayes_core.samplers.papers.gibbs.arrays import (
    DENSE,
    MomentProblem,
    NormalProblem,
    gradients_for,
    kinds_in,
    noisy_of,
    refusal_of,
    row_for,
    work_for,
)
from dpbayes_core.sampling.protocol import Block, ChainGenerator, ChainState
from dpbayes_core.sampling.streams import from_words, stream, to_words

Problem = NormalProblem | MomentProblem

HARDLY_MOVES = (
    "Where privacy noise dominates the chains hardly move: believe only draws that are said to have converged."
)
NO_JOINT_LAW = (
    "The statistic is drawn from a normal approximation and the parameters from their exact law given it, conditionals "
    "of no joint law: intervals miss their nominal coverage with few rows."
)


@dataclass(frozen=True)
class Gibbs(ABC):
    """Base of the Gibbs samplers: start, blocks and names; `_advance` moves the statistic."""

    takes: tuple[str, ...] = ("regression",)
    compared_with: str | None = None
    calibrated: bool = False
    warmups: tuple[int, int] = (500, 1000)

    def refusal(self, evidence: Evidence) -> str | None:
        """Why no Gibbs sampler takes this evidence, or None."""
        return refusal_of(evidence)

    def warmup(self, attempt: int) -> int:
        """The number of iterations that are dropped."""
        return self.warmups[attempt]

    def start(self, problem: Problem, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """Over-dispersed: the noisy statistic with noise added once more."""
        from dpbayes_core.samplers.papers.gibbs.parameters import disperse  # numba

        generator, noisy = stream(seed, chain, attempt), problem.noisy
        numbers = np.zeros(noisy.values.size)
        disperse(generator, noisy, work_for(noisy, dense=False), numbers)
        words = to_words(generator)
        return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=numbers, generator=words)

    def run_block(self, problem: Problem, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """Run `iterations`: parameters, then the noise's variances, then the statistic."""
        warmup = min(iterations, max(0, self.warmup(state.attempt) - state.iteration))
        generator, statistic = from_words(state.generator), state.numbers.copy()
        parameters = np.zeros((iterations - warmup, len(problem.noisy.prior)))
        latent = np.zeros((iterations - warmup, np.count_nonzero(problem.noisy.scales)))
        self._advance(generator, problem, statistic, warmup, draws=(parameters, latent))
        numbers, words = statistic, to_words(generator)
        after = replace(state, iteration=state.iteration + iterations, numbers=numbers, generator=words)
        return after, Block(parameters=parameters, latent=latent, divergences=0, gradients=0)

    def draws(self, release: Release, parameters: Floats) -> Mapping[str, Floats]:
        """Coefficients and sigma."""
        return regression_draws(release, parameters)

    def monitors(self, release: Release, latent: Floats) -> Mapping[str, Floats]:
        """The latent statistic."""
        return latent_draws(release, latent)

    @abstractmethod
    def _advance(
        self,
        generator: ChainGenerator,
        problem: Problem,
        statistic: Floats,
        warmup: int,
        *,
        draws: tuple[Floats, Floats],
    ) -> None:
        """Run `warmup` iterations from `statistic`, in place, then one for each row of the draws."""


@dataclass(frozen=True)
class GibbsPrior(Gibbs):
    """Moments of the covariates from the law that their default prior declares for one row."""

    name: str = "gibbs-ss-prior"
    target: str = "Gibbs steps with rows of covariates drawn from their prior; the statistic from its limit law"
    caveat: str = (
        "Takes every row of covariates as drawn from the prior, whatever the noisy statistics say of them: the more "
        f"rows, the worse it fits. {NO_JOINT_LAW} {HARDLY_MOVES}"
    )
    cost: str = "m^6 an iteration, free of n"

    def prepare(self, release: Release, prior: Prior) -> MomentProblem:
        """The declared law's moments, and the arrays."""
        from dpbayes_core.samplers.papers.gibbs.laws import declared_moments  # numba

        noisy = noisy_of(release, prior, squares_known=False)
        return MomentProblem(noisy, declared_moments(release.schema, prior))

    def _advance(
        self, generator: ChainGenerator, problem: Any, statistic: Floats, warmup: int, *, draws: tuple[Floats, Floats]
    ) -> None:
        advance_moments(generator, problem, statistic, warmup, draws=draws)


@dataclass(frozen=True)
class GibbsNoisy(Gibbs):
    """Moments of the covariates from the release itself: noisy second, third and fourth moments, repaired."""

    name: str = "gibbs-ss-noisy"
    target: str = "Gibbs steps with the noisy moments of covariates taken as theirs; the statistic from its limit law"
    caveat: str = (
        "Takes the noisy moments of the covariates for exact: where their noise is not small, slopes are far too sure "
        f"or not sure enough. {NO_JOINT_LAW} {HARDLY_MOVES}"
    )
    cost: str = "m^6 an iteration, free of n"

    def refusal(self, evidence: Evidence) -> str | None:
        """As the base's, and a refusal of releases without fourth moments."""
        if refusal := super().refusal(evidence):
            return refusal
        if isinstance(evidence, Release) and evidence.fourth is None:
            return "it takes releases of fourth moments only: say moments: fourth before anything is released"
        return None

    def prepare(self, release: Release, prior: Prior) -> MomentProblem:
        """The released moments, and the arrays."""
        from dpbayes_core.samplers.papers.gibbs.laws import noisy_moments  # numba

        places, rows, higher = release.schema.d + 1, release.count, release.fourth
        found = {} if higher is None else dict(zip(higher.entries, higher.moments / rows, strict=True))
        law = noisy_moments(release.schema, release.matrix()[:places, :places] / rows, found)
        return MomentProblem(noisy_of(release, prior, squares_known=False), law)

    def _advance(
        self, generator: ChainGenerator, problem: Any, statistic: Floats, warmup: int, *, draws: tuple[Floats, Floats]
    ) -> None:
        advance_moments(generator, problem, statistic, warmup, draws=draws)


def advance_moments(
    generator: ChainGenerator,
    problem: MomentProblem,
    statistic: Floats,
    warmup: int,
    *,
    draws: tuple[Floats, Floats],
) -> None:
    """Run a chain whose covariates have given moments."""
    from dpbayes_core.samplers.papers.gibbs.moment_chain import MomentChain, Space, advance  # numba

    noisy, law = problem.noisy, problem.law
    places, pairs = len(law.second), len(law.mean)
    last = places + 1
    sizes = (max(pairs, places), pairs, places, (last, pairs), (last, last), last)
    space = Space(*(np.zeros(size) for size in sizes))
    advance(generator, MomentChain(noisy, law, work_for(noisy, dense=True), space, statistic), warmup, *draws)


MOST_DENSE = 135  # entries; above, conjugate gradients are faster


@dataclass(frozen=True)
class CovariateLaw:
    """x ~ N(mu, Sigma), mu | Sigma ~ N(0, Sigma / mean_weight), Sigma ~ InvWishart(d + extra_degrees, scatter I)."""

    mean_weight: float = 0.01
    scatter: float = 0.01
    extra_degrees: float = 2.0


@dataclass(frozen=True)
class GibbsUpdate(Gibbs):
    """Rows are normal, mean and covariance of the covariates among the parameters; the statistic's limit law."""

    name: str = "gibbs-ss-update"
    target: str = "Gibbs steps with normal covariates; the statistic from its limit law given every parameter"
    caveat: str = f"{NO_JOINT_LAW} {HARDLY_MOVES}"
    cost: str = "m^6 an iteration up to 14 variables, then m^3 for each of a few conjugate gradient steps; free of n"
    law: CovariateLaw = CovariateLaw()
    exact: bool = False

    def refusal(self, evidence: Evidence) -> str | None:
        """As the base's, and a refusal of factors of three levels or more, whose products cannot be normal."""
        if refusal := super().refusal(evidence):
            return refusal
        if "indicator" in kinds_in(evidence.schema):
            return "it takes factors of two levels only: a normal law would contradict the products of the others"
        return None

    def prepare(self, release: Release, prior: Prior) -> NormalProblem:
        """The arrays of the kernels."""
        noisy = noisy_of(release, prior, squares_known=True)
        law, dense = self.law, len(noisy.values) <= MOST_DENSE
        degrees = release.schema.d + law.extra_degrees + release.count
        return NormalProblem(noisy, np.array([law.mean_weight, degrees, law.scatter, self.exact, dense]))

    def _advance(
        self, generator: ChainGenerator, problem: Any, statistic: Floats, warmup: int, *, draws: tuple[Floats, Floats]
    ) -> None:
        from dpbayes_core.samplers.papers.gibbs.normal_chain import NormalChain, advance  # numba

        noisy, numbers = problem.noisy, problem.numbers
        chain = NormalChain(
            noisy,
            row_for(noisy, numbers),
            work_for(noisy, dense=bool(numbers[DENSE])),
            gradients_for(noisy),
            statistic,
            statistic.copy(),
        )
        advance(generator, chain, warmup, *draws)


@dataclass(frozen=True)
class GibbsExact(GibbsUpdate):
    """The same steps as proposals for the exact law of the statistic of normal rows."""

    name: str = "gibbs-ss-exact"
    target: str = (
        "posterior of the parameters given the noisy statistics, covariates normal with a normal-inverse-Wishart prior"
    )
    calibrated: bool = True
    caveat: str = (
        "Exact for normal covariates under a normal-inverse-Wishart prior of its own, which is not that of collapsed; "
        f"with fewer than about 10 rows for each covariate most proposals are refused. {HARDLY_MOVES}"
    )
    exact: bool = True

    def refusal(self, evidence: Evidence) -> str | None:
        """As the base's, and a refusal of factors, for which no normal law is exact."""
        if refusal := super().refusal(evidence):
            return refusal
        if kinds_in(evidence.schema) - {"continuous"}:
            return "it takes continuous covariates only: no normal law is exact for a factor"
        return None


GIBBS_SAMPLERS = (GibbsNoisy(), GibbsPrior(), GibbsUpdate(), GibbsExact())
