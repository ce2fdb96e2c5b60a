"""Gibbs samplers whose covariates are normal, their mean and covariance among the parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.papers.gibbs.base import HARDLY_MOVES, NO_JOINT_LAW, Gibbs
from dpbayes_core.samplers.papers.gibbs.flat import DENSE, gradients_for, row_for, work_for
from dpbayes_core.samplers.papers.gibbs.problem import NormalProblem, kinds_in, noisy_of
from dpbayes_core.sampling.protocol import ChainGenerator

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
        """Besides: factors of three levels or more, whose products a normal law contradicts."""
        if refusal := super().refusal(evidence):
            return refusal
        if "indicator" in kinds_in(evidence.schema):
            return "it takes factors of two levels only: a normal law would contradict the products of the others"
        return None

    def prepare(self, release: Release, prior: Prior) -> NormalProblem:
        """The arrays; nothing is fitted."""
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
        """Besides: factors, for which no normal law is exact."""
        if refusal := super().refusal(evidence):
            return refusal
        if kinds_in(evidence.schema) - {"continuous"}:
            return "it takes continuous covariates only: no normal law is exact for a factor"
        return None
