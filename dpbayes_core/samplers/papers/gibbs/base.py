"""What the Gibbs samplers share: the chain stands at a value of the latent statistic."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpbayes_core.regression.pool import Evidence
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.labels import latent_draws, regression_draws
from dpbayes_core.samplers.papers.gibbs.flat import work_for
from dpbayes_core.samplers.papers.gibbs.problem import (
    Floats,
    MomentProblem,
    NormalProblem,
    refusal_of,
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
    """Start, blocks and names; how the statistic moves is said by each sampler."""

    takes: tuple[str, ...] = ("regression",)
    beside: str | None = None
    calibrated: bool = False
    warmups: tuple[int, int] = (500, 1000)

    def refusal(self, evidence: Evidence) -> str | None:
        """What none of them takes."""
        return refusal_of(evidence)

    def warmup(self, attempt: int) -> int:
        """Iterations that are not kept."""
        return self.warmups[attempt]

    def start(self, problem: Problem, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """Over-dispersed: the noisy statistic with its noise once more."""
        from dpbayes_core.samplers.papers.gibbs.start import disperse  # numba

        generator, noisy = stream(seed, chain, attempt), problem.noisy
        numbers = np.zeros(noisy.values.size)
        disperse(generator, noisy, work_for(noisy, dense=False), numbers)
        words = to_words(generator)
        return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=numbers, generator=words)

    def run_block(self, problem: Problem, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """Parameters, then the noise's variances, then the statistic, `iterations` times."""
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
        """Move `statistic` on: `warmup` iterations, then one for each row of the draws."""
