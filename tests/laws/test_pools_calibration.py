"""Pools whose parts differ: truths drawn with their common parameters rank uniformly among the sampler's draws."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import Covariate
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.samplers.collapsed.arrays import BETWEEN, Target
from dpbayes_core.samplers.collapsed.pool_target import SPREAD
from dpbayes_core.samplers.collapsed.sampler import Collapsed, CollapsedProblem
from dpbayes_core.samplers.collapsed.whitened_space import Stretch, stretched
from tests.support.independent_parts import drawn_apart, parts_apart
from tests.support.pools import common_of, drawn_pool
from tests.support.regressions import JOB, entries_of, released, schema_of

KEPT, THIN = 60, 6
FIVE = ("x", "u", "v", "w", "z")
SLOW = 60  # trials of cells that take ten seconds each: 200 were tried once, and not rejected
FAMILY = 0.01  # the chance that any quantity of any cell below is rejected although all are right
SAMPLER = Collapsed()


@dataclass(frozen=True)
class Cell:
    """A simulated pool: rows of each part, noise, and what the sampler is told of it."""

    rows: tuple[int, ...] = (300, 1000, 4000)
    noise: str = "gaussian"
    covariates: tuple[Covariate | str, ...] = ("x",)
    epsilon: float = 1.0
    trials: int = 200
    prior: Prior = field(default_factory=Prior)
    alike: bool = False
    apart: float = SPREAD  # scale of the half-normal priors of tau and t that the sampler is given

    def mechanism(self) -> Mechanism:
        sensitivity = regression_sensitivity(schema_of(*self.covariates), "replace-one")
        if self.noise == "laplace":
            return laplace_for(sensitivity, epsilon=self.epsilon, grid=20, entries=len(sensitivity.weights))
        return gaussian_for(sensitivity, epsilon=self.epsilon, delta=1e-6, grid=20)

    def ranks(self) -> Floats:
        """For each trial the place of every true parameter, moment and common parameter among the draws: in (0, 1)."""
        schema, told, found = schema_of(*self.covariates), self.mechanism(), list[Floats]()
        for trial in range(self.trials):
            generator = np.random.default_rng((20261120, trial))
            drawn = drawn_pool(self.prior, schema, self.rows, generator)
            parts = [released(schema, part, told, generator) for part in drawn.parts]
            truth = np.concatenate([drawn.parameters, *(entries_of(schema, part) for part in drawn.parts)])
            draws, common = self.sampled(tuple(parts), trial)
            if not self.alike:
                truth, draws = np.append(truth, drawn.common), np.column_stack([draws, common])
            found.append(((draws < truth).sum(axis=0) + generator.random(truth.size)) / (KEPT + 1))
        return np.array(found)

    def sampled(self, parts: tuple[Release, ...], seed: int) -> tuple[Floats, Floats]:
        """Thinned draws of one chain: parameters and moments; and of what parts share, where they differ."""
        problem = SAMPLER.prepare(Pool(parts, alike=self.alike), self.prior)
        problem.numbers[BETWEEN] = self.apart
        state, _ = SAMPLER.run_block(problem, SAMPLER.start(problem, seed, 0), SAMPLER.warmup(0))
        draws, common = list[Floats](), list[Floats]()
        for _ in range(KEPT):
            state, block = SAMPLER.run_block(problem, state, THIN)
            draws.append(np.append(block.parameters[-1], block.latent[-1]))
            common.append(np.zeros(0) if self.alike else common_of(*coordinates_of(problem, state.numbers)))
        return np.array(draws), np.array(common)


def coordinates_of(problem: CollapsedProblem, numbers: Floats) -> tuple[Target, Floats]:
    """The target, and the coordinates of a chain's position."""
    stretch = Stretch(
        problem.starts,
        problem.stretch,
        problem.stretch.transpose(0, 2, 1).copy(),
        problem.cross,
        len(problem.parts),
        problem.directions,
        problem.scaling,
    )
    coordinates = problem.centre.copy()
    stretched(stretch, numbers[: coordinates.size], coordinates)
    parts = problem.parts.copy()
    target = Target(problem.numbers, problem.response, parts, problem.matrices, problem.weights, problem.blocks)
    return target, coordinates


CELLS = {
    "three parts": Cell(),
    "two parts, two numbers": Cell(rows=(300, 1000), covariates=("x", "u")),
    "laplace": Cell(noise="laplace", epsilon=2.0),
    "drowned": Cell(epsilon=0.2),
    "a factor": Cell(covariates=(JOB, "x"), rows=(400, 900, 2000)),
    "parts of two and three rows": Cell(covariates=("x", "u"), rows=(200, 3, 2), epsilon=20.0),
    "independent of sigma": Cell(covariates=("x", "u"), prior=IndependentPrior()),
    "twelve parts": Cell(rows=(300, 500, 700, 1000) * 3, epsilon=0.5, prior=IndependentPrior()),
    "three parts, five numbers": Cell(covariates=FIVE, epsilon=2.0, prior=IndependentPrior(), trials=SLOW),
    "two parts, five numbers, laplace": Cell(
        rows=(400, 1500), noise="laplace", epsilon=5.0, covariates=FIVE, prior=IndependentPrior(), trials=SLOW
    ),
}


CROWD = Cell(rows=(400,) * 100, epsilon=0.1, trials=120, prior=IndependentPrior(intercept_sd=0.5))
"""Many parts that noise drowns: one part's error is small, all have the same sign."""


def ranks_by_parts_apart(cell: Cell, drawn: Callable[..., tuple[Any, ...]]) -> Floats:
    """The same of theta and sigma among draws that take each part's covariate moments as independent of the others'."""
    schema, told, found = schema_of(*cell.covariates), cell.mechanism(), list[Floats]()
    for trial in range(cell.trials):
        generator = np.random.default_rng((20261121, trial))
        truth, exact = drawn(cell.prior, schema, cell.rows, generator)[:2]
        posterior = parts_apart([released(schema, part, told, generator) for part in exact], cell.prior)
        draws = posterior.draws(KEPT, generator)
        found.append(((draws < truth).sum(axis=0) + generator.random(truth.size)) / (KEPT + 1))
    return np.array(found)


def worst(ranks: Floats) -> float:
    """The smallest p of a test of uniform ranks, and of one of their distance from the middle, times their number."""
    columns: list[Callable[[Floats], Floats]] = [lambda r: r, lambda r: 2 * np.abs(r - 0.5)]
    return min(float(kstest(of(rank), "uniform").pvalue) for rank in ranks.T for of in columns) * 2 * ranks.shape[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_truths_drawn_with_what_the_parts_share_rank_uniformly(name: str) -> None:
    assert worst(CELLS[name].ranks()) > FAMILY / len(CELLS)


@pytest.mark.slow
def test_the_law_of_people_who_are_dealt_out_is_rejected_where_parts_differ() -> None:
    assert worst(Cell(trials=60, alike=True).ranks()) < 1e-6


@pytest.mark.slow
def test_a_prior_under_which_parts_hardly_tell_of_each_other_is_rejected() -> None:
    """By what is shared: of slopes it is hardly seen where three parts tell how far they are apart."""
    assert worst(Cell(trials=60, apart=20.0).ranks()) < 1e-6


@pytest.mark.slow
def test_truths_of_parts_that_share_nothing_rank_uniformly_by_that_law() -> None:
    assert worst(ranks_by_parts_apart(CROWD, drawn_apart)) > FAMILY / len(CELLS)


@pytest.mark.slow
def test_independent_priors_of_the_parts_are_rejected_by_the_slope_where_many_drown() -> None:
    """A hundred parts: of twenty with a thousand rows each, 60 trials do not yet see it."""
    assert worst(ranks_by_parts_apart(CROWD, drawn_pool)[:, [1]]) < 1e-6
