"""The default sampler: the exact posterior of the noisy statistic, all parameters integrated out of the chain.

Chains move in the latent statistic only; every parameter is then drawn exactly given it. See docs/methods.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.priors import Prior
from dpbayes_core.release import Release
from dpbayes_core.samplers.interface import Block, ChainState, Floats
from dpbayes_core.samplers.labels import latent_draws, regression_draws
from dpbayes_core.samplers.streams import from_words, stream, to_words

if TYPE_CHECKING:
    from dpbayes_core.samplers.collapsed_chain import Chain

NOISES = ("gaussian", "laplace")


@dataclass(frozen=True)
class CollapsedProblem:
    """Target and whitening as arrays; see samplers/flat.py for the places in the first four."""

    numbers: Floats
    matrices: Floats
    weights: Floats
    blocks: Floats
    centre: Floats
    stretch: Floats
    places: NDArray[np.int64]  # position of each released entry in the coordinates' order
    order: NDArray[np.int64]  # variable of the schema at each position


@dataclass(frozen=True)
class Collapsed:
    """NUTS on the latent statistic under its exact law, then exact conjugate draws of every parameter."""

    name: str = "collapsed"
    takes: tuple[str, ...] = ("regression",)
    beside: str | None = "naive"
    target: str = "posterior of the parameters given the noisy statistics, noise and latent statistics integrated out"
    calibrated: bool = True
    caveat: str = (
        "Coverage is exact for normal covariates and was within a few points of nominal for others. "
        "Values clipped at their bounds are taken as they were clipped: choose wide bounds for the response."
    )
    acceptance: tuple[float, float] = (0.9, 0.95)  # aimed at, by attempt
    warmups: tuple[int, int] = (400, 800)

    def refusal(self, release: Release) -> str | None:
        """It needs replace-one releases with known noise and more rows than variables."""
        if release.rows is None:
            return "it takes releases whose number of rows is public only: replace-one, one row of each person"
        if release.mechanism.name not in NOISES:
            return f"it knows the noise of these mechanisms only: {', '.join(NOISES)}"
        if release.rows <= release.schema.m:
            return f"it needs more than {release.schema.m} rows, the number of encoded variables"
        return None

    def prepare(self, release: Release, prior: Prior) -> CollapsedProblem:
        """Find the mode and curvature that the chains are whitened with."""
        from dpbayes_core.samplers.target import Layout, build_target  # numba
        from dpbayes_core.samplers.whitening import whiten

        layout = Layout.of(release.schema)
        target, whitening = whiten(build_target(release, prior, layout), layout)
        places = np.stack(layout.places(release.schema), axis=1)
        return CollapsedProblem(*target, whitening.centre, whitening.stretch, places, layout.order)

    def warmup(self, attempt: int) -> int:
        """Iterations that adapt step size and metric."""
        return self.warmups[attempt]

    def start(self, problem: CollapsedProblem, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """Over-dispersed: standard normal in whitened units."""
        from dpbayes_core.samplers.adaptation import fresh

        generator, size = stream(seed, chain, attempt), problem.centre.size
        numbers = np.concatenate([generator.standard_normal(size), fresh(size)])
        words = to_words(generator)
        return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=numbers, generator=words)

    def run_block(self, problem: CollapsedProblem, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """Warm up, then draw; adaptation is part of the state and freezes when warm-up ends."""
        from dpbayes_core.samplers.collapsed_chain import Record, advance

        generator, numbers = from_words(state.generator), state.numbers.copy()
        chain = self._chain(problem, numbers, state.attempt)
        kept = iterations - min(iterations, max(0, self.warmup(state.attempt) - state.iteration))
        draws = np.zeros((kept, len(problem.places))), np.zeros((kept, len(problem.order)))
        record = Record(*draws, problem.places, problem.order)
        divergences, gradients = advance(generator, chain, record, state.iteration, iterations)
        numbers[: problem.centre.size] = chain.tree.chosen.position
        after = replace(state, iteration=state.iteration + iterations, numbers=numbers, generator=to_words(generator))
        block = Block(parameters=draws[1], latent=draws[0], divergences=divergences, gradients=gradients)
        return after, block

    def draws(self, release: Release, parameters: Floats) -> Mapping[str, Floats]:
        """Coefficients and sigma."""
        return regression_draws(release, parameters)

    def monitors(self, release: Release, latent: Floats) -> Mapping[str, Floats]:
        """The latent statistic."""
        return latent_draws(release, latent)

    def _chain(self, problem: CollapsedProblem, numbers: Floats, attempt: int) -> "Chain":
        """The chain's arrays; its adaptation is a view of `numbers`."""
        from dpbayes_core.samplers.adaptation import schedule_for, view
        from dpbayes_core.samplers.collapsed_chain import Chain
        from dpbayes_core.samplers.flat import Target, work_for
        from dpbayes_core.samplers.nuts import Space, new_tree

        size = problem.centre.size
        target = Target(problem.numbers, problem.matrices, problem.weights, problem.blocks)
        adaptation = view(numbers[size:])
        transposed = np.ascontiguousarray(problem.stretch.T)
        scratch = np.zeros((2, size))
        space = Space(
            target, work_for(target), problem.centre, problem.stretch, transposed, adaptation.metric, *scratch
        )
        tree = new_tree(size)
        tree.chosen.position[:] = numbers[:size]
        return Chain(space, tree, adaptation, schedule_for(self.warmup(attempt)), self.acceptance[attempt])
