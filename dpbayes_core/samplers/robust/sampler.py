"""The sampler for heteroscedastic residuals: the default's draws of statistics, the sandwich's coefficients.

The chains are `collapsed`'s. Each draw of the statistics then gets coefficients whose covariance is the sandwich
R_x^-1 M R_x^-1, M drawn given its noisy release. See docs/methods.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms.noise_law import unread
from dpbayes_core.regression.pool import Evidence
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.collapsed.sampler import LAWS, Collapsed, CollapsedProblem
from dpbayes_core.sampling.protocol import Block, ChainState, SamplerUnsuitable

if TYPE_CHECKING:
    from dpbayes_core.samplers.robust.sandwich import Sandwich


KEY = 4  # numbers of a state before the chain's own: 32 bits each of the key for draws of M and coefficients


@dataclass(frozen=True)
class RobustProblem:
    """The problem of `collapsed`, and the law of the scores' covariance."""

    chain: CollapsedProblem
    sandwich: "Sandwich"


@dataclass(frozen=True)
class Robust:
    """`collapsed` with the sandwich covariance; for one release made with `robust: true`."""

    name: str = "robust"
    takes: tuple[str, ...] = ("regression",)
    compared_with: str | None = "naive"
    target: str = (
        "posterior of the coefficients given the noisy statistics, latent statistics and the scores' covariance "
        "integrated out; normal scores of any covariance in the place of equally spread residuals"
    )
    calibrated: bool = True
    caveat: str = (
        "Residuals may be spread differently at different values of the covariates: intervals of the coefficients are "
        "the sandwich's, made for many rows of which no few hold much of the residual variance. Sigma is the spread "
        "over all rows, and its own interval still takes residuals to be normal and equally spread."
    )
    cost: str = "a gradient takes O(d^3), a draw O(d^4), whatever the number of rows"
    chains: Collapsed = field(default_factory=Collapsed)

    def refusal(self, evidence: Evidence) -> str | None:
        """Why it cannot take the evidence: it needs one release with a second step."""
        if not isinstance(evidence, Release) or evidence.residuals is None:
            return "it needs one release that was made with robust: true"
        return self.chains.refusal(evidence) or unread(evidence.residuals.mechanism, LAWS)

    def prepare(self, evidence: Evidence, prior: Prior) -> RobustProblem:
        """The problem of `collapsed`, and the law of the scores' covariance."""
        from dpbayes_core.samplers.robust.sandwich import sandwich_of

        if not isinstance(evidence, Release) or evidence.residuals is None:
            raise SamplerUnsuitable(
                f"cannot analyse with sampler {self.name}: {self.refusal(evidence)}. Choose another."
            )
        return RobustProblem(self.chains.prepare(evidence, prior), sandwich_of(evidence, evidence.residuals, prior))

    def warmup(self, attempt: int) -> int:
        """As for `collapsed`."""
        return self.chains.warmup(attempt)

    def start(self, problem: RobustProblem, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """The chain's start, with a key for the draws given its statistics."""
        own = self.chains.start(problem.chain, seed, chain, attempt=attempt)
        key = np.random.SeedSequence(seed, spawn_key=(chain, attempt, 1)).generate_state(KEY).astype(np.float64)
        return replace(own, numbers=np.concatenate([key, own.numbers]))

    def run_block(self, problem: RobustProblem, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """The block of `collapsed`, with redrawn coefficients."""
        key, numbers = state.numbers[:KEY], state.numbers[KEY:]
        after, block = self.chains.run_block(problem.chain, replace(state, numbers=numbers), iterations)
        first = after.iteration - len(block.parameters)
        made = redrawn(problem.sandwich, block, key, first)
        return replace(after, numbers=np.concatenate([key, after.numbers])), made

    def draws(self, evidence: Evidence, parameters: Floats) -> Mapping[str, Floats]:
        """Coefficients and sigma."""
        return self.chains.draws(evidence, parameters)

    def monitors(self, evidence: Evidence, latent: Floats) -> Mapping[str, Floats]:
        """The latent statistics."""
        return self.chains.monitors(evidence, latent)


def redrawn(sandwich: "Sandwich", block: Block, key: Floats, first: int) -> Block:
    """A block with the sandwich's coefficients; the draws of iteration t follow from the key and t alone."""
    from dpbayes_core.samplers.robust.draws import Meat, draw_all  # numba

    draws, size = len(block.parameters), len(sandwich.precision)
    counts = [np.full((draws, 1), sandwich.rows)] if sandwich.rows else []
    latent = np.concatenate([*counts, block.latent, np.zeros((draws, 1))], axis=1)
    normals = _normals(key, first, (draws, len(sandwich.middle) + size))
    parameters, expected = block.parameters.copy(), block.expected.copy()
    meat: dict[str, Any] = {name: getattr(sandwich, name) for name in Meat._fields}
    draw_all(Meat(**meat), latent, normals, parameters, expected)
    return replace(block, parameters=parameters, expected=expected)


def _normals(key: Floats, first: int, shape: tuple[int, int]) -> Floats:
    """A row of normal numbers for each iteration; a row depends on the key and the iteration alone."""
    low, high = key[::2].astype(np.uint64), key[1::2].astype(np.uint64) << np.uint64(32)
    found = np.empty(shape)
    for row in range(shape[0]):
        bits = np.random.Philox(key=low | high, counter=np.array([0, 0, 0, first + row], dtype=np.uint64))
        np.random.Generator(bits).standard_normal(out=found[row])
    return found
