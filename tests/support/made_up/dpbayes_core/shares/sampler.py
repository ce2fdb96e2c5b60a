"""`latent-shares`: counts that the noise may hide, then shares given these counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms.tulap import TulapMechanism
from dpbayes_core.sampling.independent import IndependentDraws
from dpbayes_core.shares.release import SharesRelease


@dataclass(frozen=True)
class LatentShares(IndependentDraws):
    """Independent draws: noise is drawn anew and taken off the counts, and shares are Dirichlet given what remains."""

    name: str = "latent-shares"
    takes: tuple[str, ...] = ("shares",)
    compared_with: str | None = None
    target: str = "shares under a uniform prior, given counts from which noise of the known law was taken off"
    calibrated: bool = False
    cost: str = "a draw takes time in proportion to the number of levels"
    caveat: str = "Counts below zero are taken for zero, so that rare levels are drawn up a little."

    def refusal(self, release: SharesRelease) -> str | None:
        """It draws noise of one law only."""
        return None if isinstance(release.mechanism, TulapMechanism) else "it knows tulap noise only"

    def prepare(self, release: SharesRelease, prior: Any) -> SharesRelease:
        """The release is the problem."""
        return release

    def draw(self, problem: SharesRelease, generator: np.random.Generator, count: int) -> Floats:
        """Counts without the noise, then shares, one draw after the other."""
        mechanism, drawn = problem.mechanism, np.empty((count, len(problem.values)))
        assert isinstance(mechanism, TulapMechanism)
        for place in range(count):
            counts = np.maximum(np.array(problem.values) - mechanism.drawn(generator, 1)[0], 0.0)
            drawn[place] = generator.dirichlet(counts + 1.0)
        return drawn

    def draws(self, release: SharesRelease, parameters: Floats) -> Mapping[str, Floats]:
        """The share of each level, by its name."""
        return {level: parameters[..., place] for place, level in enumerate(release.column.levels)}
