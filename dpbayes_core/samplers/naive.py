"""The conjugate posterior that takes the noisy statistic, repaired, for the exact one: for comparison only."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.priors import Prior
from dpbayes_core.release import Release
from dpbayes_core.samplers.interface import Block, ChainState
from dpbayes_core.samplers.labels import latent_draws, regression_draws
from dpbayes_core.samplers.streams import from_words, stream, to_words

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NaiveProblem:
    """The posterior's sufficient numbers."""

    moments: Floats  # (M0 + R) / n with R repaired
    rows: float
    shape: float


@dataclass(frozen=True)
class Naive:
    """Independent draws from the normal-inverse-gamma posterior of the repaired noisy statistic."""

    name: str = "naive"
    takes: tuple[str, ...] = ("regression",)
    beside: str | None = None
    target: str = "conjugate posterior, as if the noisy statistic were exact"
    calibrated: bool = False
    caveat: str = (
        "Takes the noisy statistics for exact: the intervals leave out the privacy noise and are too narrow, "
        "and the coefficients can be biased."
    )

    def refusal(self, release: Release) -> str | None:
        """It takes any release of at least one row."""
        return None if release.count >= 1 else "it needs at least 1 row, and the noisy count says less"

    def prepare(self, release: Release, prior: Prior) -> NaiveProblem:
        """Repair the noisy statistic and add the prior."""
        n = release.count
        moments = (prior.response_matrix(release.schema) + repaired(release.matrix())) / n
        return NaiveProblem(moments, n, prior.noise_shape + n / 2)

    def warmup(self, attempt: int) -> int:
        """None: the draws are independent."""
        return 0

    def start(self, problem: NaiveProblem, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """The chain's stream is its whole state."""
        words = to_words(stream(seed, chain, attempt))
        return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=np.zeros(0), generator=words)

    def run_block(self, problem: NaiveProblem, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """Draw `iterations` times."""
        from dpbayes_core.samplers.conjugate import draw_many  # numba

        generator = from_words(state.generator)
        draws = np.zeros((iterations, len(problem.moments)))
        draw_many(generator, problem.moments, problem.rows, problem.shape, draws)
        after = ChainState(
            chain=state.chain,
            attempt=state.attempt,
            iteration=state.iteration + iterations,
            numbers=state.numbers,
            generator=to_words(generator),
        )
        return after, Block(parameters=draws, latent=np.zeros((iterations, 0)), divergences=0, gradients=0)

    def draws(self, release: Release, parameters: Floats) -> Mapping[str, Floats]:
        """Coefficients and sigma."""
        return regression_draws(release, parameters)

    def monitors(self, release: Release, latent: Floats) -> Mapping[str, Floats]:
        """The latent statistic."""
        return latent_draws(release, latent)


def repaired(noisy: Floats) -> Floats:
    """The noisy second moments with their centred scatter positive semidefinite; untouched where it already is."""
    mean = noisy[0] / noisy[0, 0]
    scatter = noisy - noisy[0, 0] * np.outer(mean, mean)
    try:
        np.linalg.cholesky(scatter[1:, 1:])
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scatter[1:, 1:])
        scatter[1:, 1:] = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return scatter + noisy[0, 0] * np.outer(mean, mean)
    return noisy
