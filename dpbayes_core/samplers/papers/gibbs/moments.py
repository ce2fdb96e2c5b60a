"""Gibbs samplers that are given the moments of the covariates: declared, or released with noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.papers.gibbs.base import HARDLY_MOVES, NO_JOINT_LAW, Gibbs
from dpbayes_core.samplers.papers.gibbs.flat import work_for
from dpbayes_core.samplers.papers.gibbs.problem import MomentProblem, noisy_of
from dpbayes_core.sampling.protocol import ChainGenerator


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
        """Besides: releases without fourth moments."""
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
