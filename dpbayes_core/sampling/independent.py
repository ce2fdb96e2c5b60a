"""The base of samplers whose draws are independent: no warm-up, no latent quantities."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.sampling.protocol import Block, ChainState
from dpbayes_core.sampling.streams import from_words, stream, to_words


class IndependentDraws(ABC):
    """Base of samplers of independent draws: the state of a chain is its random generator alone."""

    @abstractmethod
    def draw(self, problem: Any, generator: np.random.Generator, count: int) -> Floats:
        """`count` draws, (count, parameters), made one after the other: the block size changes no draw."""

    def warmup(self, attempt: int) -> int:
        """0: the draws are independent."""
        return 0

    def start(self, problem: Any, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """A chain before its first draw."""
        words = to_words(stream(seed, chain, attempt))
        return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=np.zeros(0), generator=words)

    def run_block(self, problem: Any, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """Draw `iterations` times."""
        generator = from_words(state.generator)
        draws = self.draw(problem, generator, iterations)
        after = replace(state, iteration=state.iteration + iterations, generator=to_words(generator))
        return after, Block(parameters=draws, latent=np.zeros((iterations, 0)), divergences=0, gradients=0)

    def monitors(self, release: Any, latent: Floats) -> Mapping[str, Floats]:
        """Empty: there are no latent quantities."""
        return {}
