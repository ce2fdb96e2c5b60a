"""`ada-ssp` as an entry of the registry: independent draws around the point estimate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.ridge.estimate import RidgeEstimate, ridge_estimate
from dpbayes_core.ridge.release import RidgeRelease
from dpbayes_core.sampling.protocol import Block, ChainState
from dpbayes_core.sampling.streams import from_words, stream, to_words


@dataclass(frozen=True)
class AdaSSP:
    """The estimate, and normal draws around it with the spread of the privacy noise."""

    name: str = "ada-ssp"
    takes: tuple[str, ...] = ("ridge",)
    beside: str | None = None
    target: str = "ridge estimate, with the spread that the privacy noise gives it to first order"
    calibrated: bool = False
    cost: str = "O(d^3) once, O(d^2) a draw"
    caveat: str = (
        "A point estimate, drawn towards zero where noise dominates: its spread knows the privacy noise alone, "
        "neither the penalty's bias nor the sampling error, and is no posterior."
    )

    def refusal(self, release: RidgeRelease) -> str | None:
        """It takes every release of its kind."""
        return None

    def prepare(self, release: RidgeRelease, prior: Any) -> RidgeEstimate:
        """The estimate; a prior plays no part."""
        return ridge_estimate((release,))

    def warmup(self, attempt: int) -> int:
        """None: the draws are independent."""
        return 0

    def start(self, problem: RidgeEstimate, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """The chain's stream is its whole state."""
        words = to_words(stream(seed, chain, attempt))
        return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=np.zeros(0), generator=words)

    def run_block(self, problem: RidgeEstimate, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """Draw `iterations` times."""
        generator, size = from_words(state.generator), len(problem.theta)
        root = np.linalg.cholesky(problem.covariance)
        draws = problem.theta + np.stack([root @ one for one in generator.standard_normal((iterations, size))])
        after = replace(state, iteration=state.iteration + iterations, generator=to_words(generator))
        return after, Block(parameters=draws, latent=np.zeros((iterations, 0)), divergences=0, gradients=0)

    def draws(self, release: RidgeRelease, parameters: Floats) -> Mapping[str, Floats]:
        """Coefficients; what it is given holds nothing on sigma."""
        theta, _ = release.schema.to_user_units(parameters, np.zeros(parameters.shape[:-1]))
        return {name: theta[..., place] for place, name in enumerate(release.schema.coefficients)}

    def monitors(self, release: RidgeRelease, latent: Floats) -> Mapping[str, Floats]:
        """Nothing is latent."""
        return {}
