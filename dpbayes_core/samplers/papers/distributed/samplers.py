"""The paper's samplers as entries of `SAMPLERS`, with their caveats."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.labels import regression_draws
from dpbayes_core.samplers.papers.distributed.arrays import (
    FIXED,
    SOLVE,
    WALK,
    Problem,
    Record,
    Span,
    State,
    latent_names,
    plugged_in,
    problem_of,
    refusal_of,
    scattered_starts,
)
from dpbayes_core.sampling.independent import IndependentDraws
from dpbayes_core.sampling.protocol import Block, ChainState
from dpbayes_core.sampling.streams import from_words, stream, to_words

FIRST_TUNING = (-2.3, -1.0, 3.0)
FIRST_DEGREES = 5.0  # log


@dataclass(frozen=True, kw_only=True)
class _Distributed:
    """Base of the paper's samplers: the releases that they take, and labels."""

    name: str
    target: str
    caveat: str
    cost: str  # of an iteration: d columns, J holders; none depends on the number of rows
    takes: tuple[str, ...] = ("regression",)
    compared_with: str | None = None
    calibrated: bool = False
    levels: bool = False  # whether columns with levels are taken
    warmups: tuple[int, int] = (2000, 4000)

    def refusal(self, release: Evidence) -> str | None:
        """Gaussian noise, a public number of rows, and an intercept."""
        return refusal_of(release, levels=self.levels)

    def prepare(self, release: Evidence, prior: Prior) -> Problem:
        """Every holder's noisy moments as arrays."""
        return problem_of(release, prior)

    def warmup(self, attempt: int) -> int:
        """The number of iterations that adapt and are dropped."""
        return self.warmups[attempt]

    def draws(self, release: Evidence, parameters: Floats) -> Mapping[str, Floats]:
        """Coefficients and sigma."""
        return regression_draws(release, parameters)

    def monitors(self, release: Evidence, latent: Floats) -> Mapping[str, Floats]:
        """Every holder's latent moments."""
        return {}

    def _recorded(self, state: ChainState, iterations: int) -> int:
        return iterations - min(iterations, max(0, self.warmup(state.attempt) - state.iteration))


@dataclass(frozen=True, kw_only=True)
class MomentsSampler(_Distributed):
    """Metropolis moves of theta, sigma and every holder's moments S of (1, x); X'y and y'y are integrated out."""

    proposal: int

    def start(self, problem: Problem, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """Over-dispersed moments, coefficients and variance; or the plugged-in moments."""
        generator, size = stream(seed, chain, attempt), problem.prior.shape[0] - 1
        fixed = self.proposal == FIXED
        moments = plugged_in(problem, size) if fixed else scattered_starts(problem, size, generator)
        level, step, reach = FIRST_TUNING
        numbers = np.concatenate(
            [
                moments.ravel(),
                np.zeros(size),  # drawn before it is used
                [level + generator.standard_normal(), step, reach],
                np.full(len(moments), FIRST_DEGREES),
            ]
        )
        words = to_words(generator)
        return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=numbers, generator=words)

    def run_block(self, problem: Problem, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """Warm up, then draw; the proposals' sizes are part of the state and fixed when warm-up ends."""
        from dpbayes_core.samplers.papers.distributed.chain import advance  # numba

        generator, numbers = from_words(state.generator), state.numbers.copy()
        holders, size = len(problem.noisy), problem.prior.shape[0] - 1
        split = holders * size * size
        recorded, entries = self._recorded(state, iterations), holders * (size * (size + 1) // 2 - 1)
        record = Record(np.zeros((recorded, size + 1)), np.zeros((recorded, 0 if self.proposal == FIXED else entries)))
        moments, rest = numbers[:split].reshape(holders, size, size), numbers[split:]
        span = Span(self.proposal, state.iteration, self.warmup(state.attempt), iterations)
        advance(generator, problem, State(moments, rest[:size], rest[size:]), span, record)
        after = replace(state, iteration=state.iteration + iterations, numbers=numbers, generator=to_words(generator))
        return after, Block(parameters=record.parameters, latent=record.latent, divergences=0, gradients=0)

    def monitors(self, release: Evidence, latent: Floats) -> Mapping[str, Floats]:
        """Every holder's moments of the covariates; empty where they are plugged in."""
        if not latent.shape[-1]:
            return {}
        names = latent_names(release, release.schema.d)
        return {name: latent[..., place] for place, name in enumerate(names)}


@dataclass(frozen=True, kw_only=True)
class WholeSampler(_Distributed):
    """Gibbs on every holder's moments of (1, x, y) by their limit law, all parameters conjugate given their sum."""

    def start(self, problem: Problem, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """Over-dispersed moments."""
        generator = stream(seed, chain, attempt)
        numbers = scattered_starts(problem, problem.prior.shape[0], generator).ravel()
        words = to_words(generator)
        return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=numbers, generator=words)

    def run_block(self, problem: Problem, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """Warm up, then draw."""
        from dpbayes_core.samplers.papers.distributed.chain import advance_whole  # numba

        generator, numbers = from_words(state.generator), state.numbers.copy()
        holders, size = problem.noisy.shape[:2]
        recorded = self._recorded(state, iterations)
        record = Record(np.zeros((recorded, size)), np.zeros((recorded, holders * (size * (size + 1) // 2 - 1))))
        span = Span(FIXED, state.iteration, self.warmup(state.attempt), iterations)
        advance_whole(generator, problem, numbers.reshape(problem.noisy.shape), span, record)
        after = replace(state, iteration=state.iteration + iterations, numbers=numbers, generator=to_words(generator))
        return after, Block(parameters=record.parameters, latent=record.latent, divergences=0, gradients=0)

    def monitors(self, release: Evidence, latent: Floats) -> Mapping[str, Floats]:
        """Every holder's moments, the response's among them."""
        names = latent_names(release, release.schema.m)
        return {name: latent[..., place] for place, name in enumerate(names)}


@dataclass(frozen=True, kw_only=True)
class PlugInSampler(IndependentDraws, _Distributed):
    """Independent draws: moments and residual plugged in, theta in closed form given the noisy X'y."""

    def draw(self, problem: Problem, generator: np.random.Generator, count: int) -> Floats:
        """Coefficients and the variance, (count, parameters)."""
        from dpbayes_core.samplers.papers.distributed.chain import draw_plugged  # numba

        size = problem.prior.shape[0] - 1
        whole = problem.prior + plugged_in(problem, size + 1).sum(axis=0)
        plain = whole[size, size] - whole[size, :size] @ np.linalg.solve(whole[:size, :size], whole[:size, size])
        scaled = problem._replace(shape=problem.shape + problem.noisy[:, 0, 0].sum() / 2)
        parameters = np.zeros((count, size + 1))
        draw_plugged(generator, scaled, plugged_in(problem, size), float(plain), parameters)
        return parameters


_EXACT = "posterior given the noisy statistics for normal covariates, y'y normal given their moments"
_UNCERTIFIED = "Its intervals are not calibrated. "

NORMAL_X = MomentsSampler(
    name="normal-x",
    proposal=WALK,
    target=_EXACT,
    cost="O(J d^3) an iteration",
    caveat=_UNCERTIFIED + "A random walk over the moments rarely converges from five covariates on, and the "
    "coefficients can look converged while it has not: believe it only where the latent statistic passes, too.",
)
NORMAL_X_SOLVE = MomentsSampler(
    name="normal-x-solve",
    proposal=SOLVE,
    target=_EXACT,
    cost="O(J d^6) an iteration",
    caveat=_UNCERTIFIED + "Moments are drawn given the covariates' law and that law given them: where noise dominates "
    "the two hardly move each other, as in every Gibbs sampler of this model.",
)
FIXED_S = MomentsSampler(
    name="fixed-s",
    proposal=FIXED,
    levels=True,
    target="posterior of the parameters as if the noisy moments of the covariates, repaired, were exact",
    cost="O(J d^3) an iteration",
    caveat=_UNCERTIFIED + "It takes the noisy moments of the covariates for exact: standard deviations were 1.5 "
    "to 3 times too small at five covariates. A fast point estimate.",
)
FIXED_S_FAST = PlugInSampler(
    name="fixed-s-fast",
    levels=True,
    target="coefficients given the noisy X'y, as if the noisy moments of the covariates and the residual were exact",
    cost="O(J d^3) a draw",
    caveat=_UNCERTIFIED + "It takes the noisy moments of the covariates and the noisy residual for exact: standard "
    "deviations were 1.5 to 3 times too small at five covariates. A fast point estimate.",
)
BS_DISTRIBUTED = WholeSampler(
    name="bs-distributed",
    target="stationary law of normal moments given the parameters and conjugate parameters given their repaired sum",
    cost="O(J d^6) an iteration",
    caveat=_UNCERTIFIED + "Its two steps are conditionals of no joint law, and it hardly mixes where noise dominates: "
    "believe it only where the latent statistic passes, too.",
)

DISTRIBUTED_SAMPLERS = (NORMAL_X, NORMAL_X_SOLVE, FIXED_S, FIXED_S_FAST, BS_DISTRIBUTED)
