"""The default sampler: the exact posterior of the noisy statistic, all parameters integrated out of the chain.

Chains move in the latent statistic only; every parameter is then drawn exactly given it. See docs/methods.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.privacy.mechanisms.noise_law import GAUSSIAN, LAPLACE, unread
from dpbayes_core.regression.pool import Evidence, Pool, parts_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.labels import latent_draws, regression_draws, regression_moments, unit_matrix
from dpbayes_core.sampling.protocol import Block, ChainState
from dpbayes_core.sampling.streams import from_words, stream, to_words

if TYPE_CHECKING:
    from dpbayes_core.samplers.collapsed.chain import Chain


LAWS = (GAUSSIAN, LAPLACE)  # of noise, that the kernels implement


@dataclass(frozen=True)
class CollapsedProblem:
    """Target and whitening as arrays; arrays.py names the indices in the first six."""

    numbers: Floats
    response: Floats
    parts: Floats
    matrices: Floats
    weights: Floats
    blocks: Floats
    centre: Floats
    starts: Integers
    stretch: Floats
    cross: Floats
    directions: Floats
    scaling: Floats
    second: Floats
    places: Integers  # part, row and column in the coordinates' order of each released entry
    order: Integers  # coefficient at each position of the coordinates that has one
    units: Floats  # the user's coefficients from theta in that order


@dataclass(frozen=True)
class Collapsed:
    """NUTS on the latent statistic under its exact law, then exact conjugate draws of every parameter."""

    name: str = "collapsed"
    takes: tuple[str, ...] = ("regression",)
    compared_with: str | None = "naive"
    target: str = "posterior of the parameters given the noisy statistics, noise and latent statistics integrated out"
    calibrated: bool = True
    caveat: str = (
        "Calibrated over truths drawn from the prior, whatever the law of the covariates: at one truth 95% intervals "
        "may hold it more or less often."
    )
    cost: str = "a gradient takes O(J d^3) for J releases of d covariates, whatever the number of rows"
    acceptance: tuple[float, float] = (0.9, 0.99)  # target rate, by attempt
    kinked: float = 0.8  # target rate of the first attempt where parts differ: kinks of Laplace noise lower acceptance
    warmups: tuple[int, int] = (400, 800)

    def refusal(self, evidence: Evidence) -> str | None:
        """Why it cannot take the evidence: other noise, or too few rows (in every part where columns have levels)."""
        releases, m = parts_of(evidence), evidence.schema.m
        if refused := next(filter(None, (unread(release.mechanism, LAWS) for release in releases)), None):
            return refused
        rows = [release.rows for release in releases if release.rows is not None]
        if len(rows) == len(releases) and sum(rows) <= m:
            return f"it needs more than {m} rows, the number of encoded variables"
        levels = any(variable.kind != "continuous" for variable in evidence.schema.variables)
        if levels and any(n <= m for n in rows):
            return f"it needs more than {m} rows of every part, the number of encoded variables"
        return None

    def prepare(self, evidence: Evidence, prior: Prior) -> CollapsedProblem:
        """The target, and the whitening of the chains' coordinates by mode and curvature."""
        from dpbayes_core.samplers.collapsed.pool_start import whitened_pool
        from dpbayes_core.samplers.collapsed.rare import layout_for
        from dpbayes_core.samplers.collapsed.start import start_of, unshrunk
        from dpbayes_core.samplers.collapsed.target import build_target  # numba
        from dpbayes_core.samplers.collapsed.whitening import whiten

        layout, schema, releases = layout_for(evidence, prior), evidence.schema, parts_of(evidence)
        if isinstance(evidence, Pool) and evidence.differing:
            target, whitening = whitened_pool(evidence, prior, layout)
        else:
            target, start = start_of(build_target(evidence, prior, layout), layout, prior, schema)
            whitening = whiten(target, start, unshrunk(target, layout, prior, schema))
        places = [
            np.column_stack([np.full(len(release.entries), part), *layout.places(release)])
            for part, release in enumerate(releases)
        ]
        order = layout.order[:-1].copy() if schema.intercept else layout.order[1:-1] - 1
        units = unit_matrix(schema)[:, order].copy()
        return CollapsedProblem(*target, *whitening, np.concatenate(places), order, units)

    def warmup(self, attempt: int) -> int:
        """Iterations that adapt step size and metric."""
        return self.warmups[attempt]

    def start(self, problem: CollapsedProblem, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """Over-dispersed: standard normal in whitened units; every other chain at a second mode if there is one."""
        from dpbayes_core.samplers.collapsed.adaptation import fresh

        generator, size = stream(seed, chain, attempt), problem.centre.size
        position = generator.standard_normal(size)
        if chain % 2 and problem.second.size:
            position = problem.second
        numbers = np.concatenate([position, fresh(size)])
        words = to_words(generator)
        return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=numbers, generator=words)

    def run_block(self, problem: CollapsedProblem, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """Warm up, then draw; adaptation is part of the state and stops when warm-up ends."""
        from dpbayes_core.samplers.collapsed.chain import Record, advance

        generator, numbers = from_words(state.generator), state.numbers.copy()
        chain = self._chain(problem, numbers, state.attempt)
        recorded = iterations - min(iterations, max(0, self.warmup(state.attempt) - state.iteration))
        entries, size = len(problem.places), len(problem.order)
        latent, parameters, expected = (np.zeros((recorded, width)) for width in (entries, size + 1, 2 * size))
        record = Record(latent, parameters, expected, problem.places, problem.order, problem.units)
        divergences, gradients = advance(generator, chain, record, state.iteration, iterations)
        numbers[: problem.centre.size] = chain.tree.chosen.position
        after = replace(state, iteration=state.iteration + iterations, numbers=numbers, generator=to_words(generator))
        block = Block(
            parameters=parameters, latent=latent, expected=expected, divergences=divergences, gradients=gradients
        )
        return after, block

    def draws(self, evidence: Evidence, parameters: Floats) -> Mapping[str, Floats]:
        """Coefficients and sigma."""
        return regression_draws(evidence, parameters)

    def monitors(self, evidence: Evidence, latent: Floats) -> Mapping[str, Floats]:
        """The latent statistics."""
        return latent_draws(evidence, latent)

    def expected(self, evidence: Evidence, expected: Floats) -> Mapping[str, tuple[Floats, Floats]]:
        """Mean and variance of every coefficient given each draw of the statistics."""
        return regression_moments(evidence, expected)

    def _chain(self, problem: CollapsedProblem, numbers: Floats, attempt: int) -> "Chain":
        """The chain's arrays; its adaptation is a view of `numbers`."""
        from dpbayes_core.samplers.collapsed.adaptation import schedule_for, view
        from dpbayes_core.samplers.collapsed.arrays import DIFFERING, NOISE, REFERENCE, Target, work_for
        from dpbayes_core.samplers.collapsed.chain import Chain
        from dpbayes_core.samplers.collapsed.nuts import new_tree
        from dpbayes_core.samplers.collapsed.whitened_space import Stretch, space_of
        from dpbayes_core.sampling.work_limits import deepest

        size = problem.centre.size
        own = problem.parts.copy()  # where the number of rows is latent, each chain has its own
        target = Target(problem.numbers, problem.response, own, problem.matrices, problem.weights, problem.blocks)
        adaptation = view(numbers[size:])
        stretch = Stretch(
            starts=problem.starts,
            blocks=problem.stretch,
            transposed=problem.stretch.transpose(0, 2, 1).copy(),
            cross=problem.cross,
            reference=int(problem.numbers[REFERENCE]),
            directions=problem.directions,
            scaling=problem.scaling,
        )
        space = space_of(target, work_for(target), problem.centre, stretch, adaptation.metric)
        multiplied = problem.stretch.shape[-1] + 4 * len(problem.directions)
        tree = new_tree(size, deepest(size, multiplied, len(problem.response)))
        tree.chosen.position[:] = numbers[:size]
        kinks = problem.numbers[DIFFERING] > 0 and bool(np.any(problem.parts[:, NOISE] == LAPLACE.code))
        aim = self.kinked if kinks and attempt == 0 else self.acceptance[attempt]
        return Chain(space, tree, adaptation, schedule_for(self.warmup(attempt)), aim)
