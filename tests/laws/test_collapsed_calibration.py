"""Simulation-based calibration of the collapsed sampler: truths from the prior rank uniformly among its draws."""

from dataclasses import dataclass

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from numpy.typing import NDArray
from scipy.stats import kstest

from dpbayes_core.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.priors import Prior
from dpbayes_core.samplers import SAMPLERS
from dpbayes_core.schema import Covariate, RegressionSchema
from dpbayes_core.sensitivity import regression_sensitivity
from tests.support.regressions import JOB, SEX, encoded, entries_of, moments_of, prior_statistics, released, schema_of

Floats = NDArray[np.float64]

KEPT, THIN = 100, 2
REJECT = 0.001


@dataclass(frozen=True)
class Cell:
    """A simulated study: so many rows, this noise at epsilon 1, told to the sampler as it is or not."""

    rows: int
    noise: str
    wrong: float = 1.0  # true scale over the told one
    trials: int = 200
    covariates: tuple[Covariate | str, ...] = ("x",)

    @property
    def schema(self) -> RegressionSchema:
        return schema_of(*self.covariates)

    def mechanism(self) -> Mechanism:
        sensitivity = regression_sensitivity(self.schema)
        if self.noise == "laplace":
            return laplace_for(sensitivity, epsilon=1.0, grid=20, entries=len(self.schema.entries))
        return gaussian_for(sensitivity, epsilon=1.0, delta=1e-6, grid=20)

    def ranks(self) -> Floats:
        """For each trial the place of every true parameter, then of every true moment, among the draws: in (0, 1)."""
        generator, prior, schema = np.random.default_rng(20261118), Prior(), self.schema
        truths, moments = prior_statistics(prior, schema, self.rows, self.trials, generator)
        sampler, told, found = SAMPLERS["collapsed"], self.mechanism(), []
        for trial in range(self.trials):
            made = released(schema, moments[trial], told, generator, wrong=self.wrong)
            problem = sampler.prepare(made, prior)
            state = sampler.start(problem, trial, 0)
            _, block = sampler.run_block(problem, state, sampler.warmup(0) + KEPT * THIN)
            draws = np.column_stack([block.parameters, block.latent])[::THIN]
            truth = np.append(truths[trial], entries_of(schema, moments[trial]))
            found.append(((draws < truth).sum(axis=0) + generator.random(truth.size)) / (KEPT + 1))
        return np.array(found)


def worst(ranks: Floats) -> float:
    """The smallest p-value over quantities: of their ranks, and of how far from the middle these are."""
    folded = np.abs(2 * ranks - 1)
    return min(kstest(column, "uniform").pvalue for column in np.hstack([ranks, folded]).T)


def parameters(cell: Cell, ranks: Floats) -> Floats:
    return ranks[:, : cell.schema.d + 2]


def case(name: str, cell: Cell, *, slow: bool = True) -> ParameterSet:
    return pytest.param(cell, id=name, marks=[pytest.mark.slow] if slow else [])


CELLS = [
    case("100 rows, Gaussian", Cell(100, "gaussian"), slow=False),
    case("100 rows, Laplace", Cell(100, "laplace")),
    case("10000 rows, Laplace", Cell(10_000, "laplace")),
    case("10000 rows, Gaussian", Cell(10_000, "gaussian")),
    case("10 rows, Laplace", Cell(10, "laplace")),
    case("two covariates, Laplace", Cell(1000, "laplace", covariates=("x", "z"))),
    case("two levels, Laplace", Cell(100, "laplace", covariates=(SEX,))),
    case("a factor and x, Gaussian", Cell(1000, "gaussian", covariates=(JOB, "x"))),
    case("two factors, Laplace", Cell(300, "laplace", trials=120, covariates=(SEX, JOB))),
]
TWINS = [
    case("100 rows, Gaussian, more noise than told", Cell(100, "gaussian", wrong=1.5), slow=False),
    case("100 rows, Gaussian, less noise", Cell(100, "gaussian", wrong=1 / 1.5)),
    case("100 rows, Laplace, more noise", Cell(100, "laplace", wrong=1.5, trials=400)),
    case("100 rows, Laplace, less noise", Cell(100, "laplace", wrong=1 / 1.5, trials=400)),
    case("10000 rows, Laplace, more noise", Cell(10_000, "laplace", wrong=1.5, trials=400)),
    case("two levels, Laplace, more noise", Cell(100, "laplace", wrong=1.5, trials=400, covariates=(SEX,))),
]


@pytest.mark.parametrize("cell", CELLS)
def test_true_parameters_and_moments_rank_uniformly_among_the_draws(cell: Cell) -> None:
    ranks = cell.ranks()
    for column in ranks[:, : cell.schema.d + 2].T:
        assert kstest(column, "uniform").pvalue > REJECT
    assert worst(ranks) > REJECT / (2 * ranks.shape[1])


@pytest.mark.parametrize("cell", TWINS)
def test_a_twin_told_the_wrong_noise_is_rejected(cell: Cell) -> None:
    ranks = cell.ranks()
    assert worst(ranks) < REJECT / (2 * ranks.shape[1])


def covered(noise: str, *, wrong: float, trials: int = 120) -> Floats:
    """How many 95% intervals hold the truth, for each parameter: fixed coefficients, one factor of each kind."""
    cell = Cell(20_000, noise, covariates=("x", SEX, JOB))
    generator, told, sampler = np.random.default_rng(7), cell.mechanism(), SAMPLERS["collapsed"]
    inside = np.zeros(cell.schema.d + 2)
    for trial in range(trials):
        known = encoded(cell.schema, cell.rows, generator)
        truth = np.array([*(0.3 * generator.standard_normal(cell.schema.d + 1)), 0.25])
        moments = moments_of(known, truth[:-1], truth[-1], generator)
        problem = sampler.prepare(released(cell.schema, moments, told, generator, wrong=wrong), Prior())
        _, made = sampler.run_block(problem, sampler.start(problem, trial, 0), sampler.warmup(0) + 800)
        low, high = np.quantile(made.parameters, (0.025, 0.975), axis=0)
        inside += (low <= truth) & (truth <= high)
    return inside


LEAST_INSIDE = 103  # of 120: a binomial(120, .95) is below with probability 5e-5


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_intervals_cover_the_truth_with_levels_among_the_covariates(noise: str) -> None:
    inside = covered(noise, wrong=1.0)
    assert np.all(inside >= LEAST_INSIDE)
    assert inside.sum() < 0.99 * 120 * inside.size, "nor do they cover more than they say"


@pytest.mark.slow
def test_the_coverage_check_can_fail() -> None:
    assert np.any(covered("gaussian", wrong=2.0) < LEAST_INSIDE)
