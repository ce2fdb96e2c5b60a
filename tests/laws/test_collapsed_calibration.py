"""Simulation-based calibration of the collapsed sampler: truths from the prior rank uniformly among its draws."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations, islice

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from scipy.stats import kstest

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Evidence, pooled
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import Cases, Covariate, RegressionSchema
from dpbayes_core.regression.sensitivity.box import count_is_public, regression_sensitivity
from dpbayes_core.samplers.registry import SAMPLERS
from tests.support.regressions import (
    JOB,
    SEX,
    covariate_moments,
    encoded,
    entries_of,
    flat_factors,
    moments_of,
    prior_statistics,
    regressed,
    regression_draws,
    released,
    schema_of,
    split_statistics,
)

KEPT, THIN = 60, 5
SEARCHED = 100  # truths for each that has a rare level
CHEAP = 1500  # trials where they take a minute or two
FAMILY = 0.01  # the chance that any quantity of any cell below is rejected although all are right
COUNTED = (100, 3000)  # numbers of rows where they are noisy, uniform in the logarithm
WHOLE = 0.8  # of the rows without a missing value, where only these count
NUMBERS = tuple("abcdefghij")


@dataclass(frozen=True)
class Cell:
    """A simulated study: rows of each part, noise at an epsilon, told to the sampler as it is or not."""

    rows: tuple[int, ...]
    noise: str
    covariates: tuple[Covariate | str, ...] = ("x",)
    epsilon: float = 1.0
    trials: int = 300
    wrong: float = 1.0  # true noise over the told one
    told_rows: float = 1.0  # told rows over the true ones
    neighbours: str = "replace-one"
    cases: Cases = "all"  # complete: every row weighs 0 or 1, whatever its values are
    prior: Prior = field(default_factory=Prior)
    told: Prior | None = None  # the prior that the sampler is told, where it is not the true one
    rarest: float = 1.0  # only studies are looked at that release a smaller share of one level of their factor

    @property
    def schema(self) -> RegressionSchema:
        return replace(schema_of(*self.covariates), cases=self.cases)

    def mechanism(self) -> Mechanism:
        sensitivity = regression_sensitivity(self.schema, self.neighbours)
        if self.noise == "laplace":
            return laplace_for(sensitivity, epsilon=self.epsilon, grid=20, entries=len(sensitivity.weights))
        return gaussian_for(sensitivity, epsilon=self.epsilon, delta=1e-6, grid=20)

    def studies(self, generator: np.random.Generator) -> Iterator[tuple[Floats, Evidence]]:
        """Truths (theta, sigma) and what is released of them."""
        prior, schema, told = self.prior, self.schema, self.mechanism()
        if not count_is_public(self.neighbours, 1, self.cases):
            yield from self._counted(told, generator)
        elif len(self.rows) == 1:
            count = self.trials if self.rarest == 1.0 else SEARCHED * self.trials
            truths, moments = prior_statistics(prior, schema, self.rows[0], count, generator)
            for truth, exact in zip(truths, moments, strict=True):
                made = released(schema, exact, told, generator, wrong=self.wrong)
                assert made.rows is not None
                if self.rarest < 1.0 and least_share(made) >= self.rarest:
                    continue
                rows = round(self.told_rows * made.rows)
                yield np.append(truth, entries_of(schema, exact)), replace(made, rows=rows)
        else:
            truths, parts = split_statistics(prior, schema, self.rows, self.trials, generator)
            for trial, truth in enumerate(truths):
                made = [released(schema, part[trial], told, generator, wrong=self.wrong) for part in parts]
                exact = [entries_of(schema, part[trial]) for part in parts]
                yield np.concatenate([truth, *exact]), pooled(made, alike=True)

    def _counted(self, told: Mechanism, generator: np.random.Generator) -> Iterator[tuple[Floats, Evidence]]:
        prior, schema = self.prior, self.schema
        rows = np.exp(generator.uniform(*np.log(COUNTED), self.trials)).round()
        if self.cases == "complete":
            rows = generator.binomial(rows.astype(int), WHOLE).astype(float)
        known = covariate_moments(prior, flat_factors(schema, self.trials, generator), schema, generator)
        theta, sigma = regression_draws(prior, schema, self.trials, generator)
        moments = regressed(rows[:, None, None] * known, theta, sigma, rows, generator)
        draw = generator.laplace if told.name == "laplace" else generator.normal
        for trial in range(self.trials):
            exact = np.append(rows[trial], entries_of(schema, moments[trial]))
            noisy = exact + self.wrong * told.scales * draw(size=exact.size)
            values = tuple(float(value) for value in noisy)
            release = Release(schema=schema, neighbours=self.neighbours, rows=None, mechanism=told, values=values)
            assert release.protected
            yield np.concatenate([theta[trial], [sigma[trial]], exact]), release

    def ranks(self) -> Floats:
        """For each trial the place of every true parameter, then of every true moment, among the draws: in (0, 1)."""
        generator, sampler, found = np.random.default_rng(20261118), SAMPLERS["collapsed"], list[Floats]()
        for trial, (truth, evidence) in enumerate(islice(self.studies(generator), self.trials)):
            problem = sampler.prepare(evidence, self.told or self.prior)
            state = sampler.start(problem, trial, 0)
            _, block = sampler.run_block(problem, state, sampler.warmup(0) + KEPT * THIN)
            draws = np.column_stack([block.parameters, block.latent])[::THIN]
            found.append(((draws < truth).sum(axis=0) + generator.random(truth.size)) / (KEPT + 1))
        assert len(found) == self.trials
        return np.array(found)


def least_share(release: Release) -> float:
    """The smallest noisy share of a level, of studies with one factor."""
    levels = [place for place, v in enumerate(release.schema.variables, start=1) if v.kind == "indicator"]
    shares = release.matrix()[0, levels] / release.count
    return float(min(shares.min(), 1 - shares.sum()))


def case(name: str, cell: Cell, *, slow: bool = True) -> ParameterSet:
    return pytest.param(cell, id=name, marks=[pytest.mark.slow] if slow else [])


SMALL_SIGMA = Prior(noise_shape=5.0, noise_scale=0.5)  # seldom above 1: far larger ones take five parts minutes each

QUICK = [
    case("d=1, n=100, Gaussian, few", Cell((100,), "gaussian", trials=25), slow=False),
    case("d=1, n=100, Gaussian", Cell((100,), "gaussian", trials=150)),
    case("d=1, n=100, Laplace, two parts", Cell((70, 30), "laplace", trials=100)),
]
CELLS = [
    case("d=1, n=10, Laplace", Cell((10,), "laplace", trials=CHEAP)),
    case("d=1, n=10, Gaussian, epsilon 0.1", Cell((10,), "gaussian", epsilon=0.1, trials=CHEAP)),
    case("d=1, n=10, Gaussian, epsilon 5", Cell((10,), "gaussian", epsilon=5.0, trials=CHEAP)),
    case("d=5, n=10, Gaussian", Cell((10,), "gaussian", NUMBERS[:5])),
    case("d=1, n=100, Laplace, epsilon 0.1", Cell((100,), "laplace", epsilon=0.1, trials=CHEAP)),
    case("d=1, n=100, Gaussian, epsilon 5", Cell((100,), "gaussian", epsilon=5.0, trials=CHEAP)),
    case("d=5, n=100, Laplace", Cell((100,), "laplace", NUMBERS[:5])),
    case("d=10, n=100, Gaussian, epsilon 5", Cell((100,), "gaussian", NUMBERS, epsilon=5.0)),
    case("d=1, n=1000, Gaussian, epsilon 0.1", Cell((1000,), "gaussian", epsilon=0.1, trials=CHEAP)),
    case("d=5, n=1000, Gaussian", Cell((1000,), "gaussian", NUMBERS[:5])),
    case("d=5, n=1000, Laplace, epsilon 0.1", Cell((1000,), "laplace", NUMBERS[:5], epsilon=0.1)),
    case("d=10, n=1000, Gaussian", Cell((1000,), "gaussian", NUMBERS)),
    case("d=10, n=1000, Laplace, epsilon 5", Cell((1000,), "laplace", NUMBERS, epsilon=5.0)),
    case("d=1, n=100000, Laplace", Cell((100_000,), "laplace", trials=CHEAP)),
    case("d=5, n=100000, Laplace, epsilon 0.1", Cell((100_000,), "laplace", NUMBERS[:5], epsilon=0.1)),
    case("d=5, n=100000, Gaussian, epsilon 5", Cell((100_000,), "gaussian", NUMBERS[:5], epsilon=5.0)),
    case("d=10, n=100000, Gaussian, epsilon 0.1", Cell((100_000,), "gaussian", NUMBERS, epsilon=0.1)),
    case("d=10, n=100000, Laplace", Cell((100_000,), "laplace", NUMBERS)),
    case("five parts, d=1, n=100, Gaussian", Cell((40, 30, 20, 8, 2), "gaussian")),
    case("five parts, d=1, n=1000, Laplace, epsilon 0.1", Cell((500, 300, 150, 40, 10), "laplace", epsilon=0.1)),
    case("five parts, d=5, n=1000, Gaussian", Cell((400, 300, 200, 90, 10), "gaussian", NUMBERS[:5])),
    case(
        "five parts, d=10, n=100000, Gaussian, epsilon 5",
        Cell((40_000, 30_000, 20_000, 7000, 3000), "gaussian", NUMBERS, epsilon=5.0, prior=SMALL_SIGMA),
    ),
    case("five parts, d=5, n=100000, Laplace", Cell((50_000, 30_000, 15_000, 4000, 1000), "laplace", NUMBERS[:5])),
    case("noisy count, d=1, Gaussian", Cell((), "gaussian", neighbours="add-remove")),
    case(
        "noisy count, d=5, Laplace, epsilon 5", Cell((), "laplace", NUMBERS[:5], epsilon=5.0, neighbours="add-remove")
    ),
    case("complete cases, d=1, Gaussian", Cell((), "gaussian", cases="complete")),
    case("complete cases, a factor and x, Laplace", Cell((), "laplace", (JOB, "x"), epsilon=5.0, cases="complete")),
    case("two levels, n=100, Laplace", Cell((100,), "laplace", (SEX,))),
    case("a factor and x, n=1000, Gaussian", Cell((1000,), "gaussian", (JOB, "x"))),
    case("two factors, n=300, Laplace", Cell((300,), "laplace", (SEX, JOB))),
    case("three parts, a factor and x, n=600, Gaussian", Cell((300, 200, 100), "gaussian", (JOB, "x"))),
]
TWINS = [
    case("d=1, n=100, Gaussian, noise x 3, few", Cell((100,), "gaussian", wrong=3.0, trials=25), slow=False),
    case("d=1, n=100, Gaussian, noise x 1.5", Cell((100,), "gaussian", wrong=1.5, trials=200)),
    case("d=1, n=100, Laplace, noise / 1.5", Cell((100,), "laplace", wrong=1 / 1.5, trials=800)),
    case("d=5, n=1000, Gaussian, noise x 1.5", Cell((1000,), "gaussian", NUMBERS[:5], wrong=1.5)),
    case("d=5, n=100000, Laplace, noise x 1.5", Cell((100_000,), "laplace", NUMBERS[:5], wrong=1.5)),
    case("five parts, d=1, noise x 1.5", Cell((40, 30, 20, 8, 2), "gaussian", wrong=1.5)),
    case("noisy count, d=1, noise x 1.5", Cell((), "gaussian", neighbours="add-remove", wrong=1.5)),
    case("complete cases, d=1, noise x 1.5", Cell((), "gaussian", cases="complete", wrong=1.5)),
    case("d=1, n=1000, Gaussian, n told 1.3 times", Cell((1000,), "gaussian", told_rows=1.3)),
    case("d=5, n=1000, Gaussian, n told 1.3 times", Cell((1000,), "gaussian", NUMBERS[:5], told_rows=1.3)),
]
DEFAULT = IndependentPrior()
NAMED = IndependentPrior(named=(("(intercept)", 0.3, 0.5), ("b", 0.5, 0.1)))
INDEPENDENT = [
    case("d=1, n=37, Laplace", Cell((37,), "laplace", prior=DEFAULT)),
    case("d=1, n=500, Gaussian, epsilon 5", Cell((500,), "gaussian", epsilon=5.0, prior=DEFAULT)),
    case("d=3, n=4321, Gaussian", Cell((4321,), "gaussian", NUMBERS[:3], prior=DEFAULT)),
    case("d=3, n=700, Laplace, epsilon 5", Cell((700,), "laplace", NUMBERS[:3], epsilon=5.0, prior=DEFAULT)),
    case("d=7, n=2000, Gaussian", Cell((2000,), "gaussian", NUMBERS[:7], prior=DEFAULT)),
    case("d=7, n=50000, Laplace", Cell((50_000,), "laplace", NUMBERS[:7], prior=DEFAULT)),
    case("a factor and x, n=1000, Gaussian", Cell((1000,), "gaussian", (JOB, "x"), prior=DEFAULT)),
    case("two factors, x and z, n=3000, Laplace", Cell((3000,), "laplace", (SEX, JOB, "x", "z"), prior=DEFAULT)),
    case("a factor and d=5, n=20000, Gaussian", Cell((20_000,), "gaussian", (JOB, *NUMBERS[:5]), prior=DEFAULT)),
    case(
        "a factor with a rare level and d=3, n=20000, Gaussian",
        Cell((20_000,), "gaussian", (JOB, *NUMBERS[:3]), prior=DEFAULT, rarest=0.005),
    ),
    case("noisy count, d=1, Gaussian", Cell((), "gaussian", neighbours="add-remove", prior=DEFAULT)),
    case("noisy count, d=3, Laplace", Cell((), "laplace", NUMBERS[:3], neighbours="add-remove", prior=DEFAULT)),
    case("complete cases, d=5, Gaussian", Cell((), "gaussian", NUMBERS[:5], cases="complete", prior=DEFAULT)),
    case("two parts, d=1, Laplace", Cell((70, 30), "laplace", prior=DEFAULT)),
    case("three parts, a factor and x, Gaussian", Cell((300, 200, 100), "gaussian", (JOB, "x"), prior=DEFAULT)),
    case("five parts, d=3, Gaussian", Cell((4000, 3000, 2000, 900, 100), "gaussian", NUMBERS[:3], prior=DEFAULT)),
    case("named coefficients, d=3, n=700, Gaussian", Cell((700,), "gaussian", NUMBERS[:3], prior=NAMED)),
]
"""Under a prior whose coefficients do not depend on sigma, which is then sampled, too."""
WRONG = [
    case("a power of sigma too many", Cell((500,), "gaussian", prior=DEFAULT, told=IndependentPrior(noise_shape=3.0))),
    case("no exponential term", Cell((500,), "gaussian", prior=DEFAULT, told=IndependentPrior(noise_scale=1e3))),
    case("sds too small", Cell((500,), "gaussian", prior=DEFAULT, told=IndependentPrior(coefficient_sd=0.3))),
    case("in residual sds", Cell((500,), "gaussian", prior=DEFAULT, told=Prior(coefficient_sd=1.0, intercept_sd=2.0))),
]


GRID = {
    "covariates": (1, 5, 10),
    "rows": (10, 100, 1000, 100_000),
    "epsilon": (0.1, 1.0, 5.0),
    "noise": ("laplace", "gaussian"),
    "parts": (1, 5),
}
IMPOSSIBLE = {(("covariates", 10), ("rows", 10)), (("rows", 10), ("parts", 5))}  # no density; asked of one part only


def quantities() -> int:
    """Parameters over all cells: the size of the family."""
    return sum(cell.values[0].schema.d + 2 for cell in [*QUICK, *CELLS, *INDEPENDENT])  # type: ignore[union-attr]


def p_values(cell: Cell, ranks: Floats) -> Floats:
    """Of each parameter, and of the worst moment, whose number is paid for."""
    parameters = cell.schema.d + 2
    found = np.array([kstest(column, "uniform").pvalue for column in ranks.T])
    moments = found[parameters:]
    return np.append(found[:parameters], min(1.0, moments.min() * len(moments)))


def test_any_two_settings_of_the_grid_meet_in_a_cell() -> None:
    met = set[object]()
    for cell in (each.values[0] for each in CELLS):
        assert isinstance(cell, Cell)
        if cell.neighbours == "replace-one" and all(isinstance(covariate, str) for covariate in cell.covariates):
            place = (cell.schema.d, sum(cell.rows), cell.epsilon, cell.noise, len(cell.rows))
            met |= set(combinations(zip(GRID, place, strict=True), 2))
    wanted = {
        ((one, first), (other, second))
        for one, other in combinations(GRID, 2)
        for first in GRID[one]
        for second in GRID[other]
    }
    assert wanted - met == IMPOSSIBLE


@pytest.mark.parametrize("cell", [*QUICK, *CELLS, *INDEPENDENT])
def test_true_parameters_and_moments_rank_uniformly_among_the_draws(cell: Cell) -> None:
    found = p_values(cell, cell.ranks())
    assert found.min() > FAMILY / (quantities() + len(QUICK) + len(CELLS) + len(INDEPENDENT)), found


@pytest.mark.parametrize("cell", [*TWINS, *WRONG])
def test_a_twin_told_the_wrong_noise_number_of_rows_or_prior_is_rejected(cell: Cell) -> None:
    ranks = cell.ranks()
    folded = np.abs(2 * ranks - 1)
    least = min(kstest(column, "uniform").pvalue for column in folded.T) * folded.shape[1]
    both = min(least, p_values(cell, ranks).min())
    assert both < FAMILY / (quantities() + len(QUICK) + len(CELLS) + len(INDEPENDENT))


def covered(noise: str, *, wrong: float, trials: int = 120) -> Floats:
    """How many 95% intervals hold the truth, for each parameter: fixed coefficients, one factor of each kind."""
    cell = Cell((20_000,), noise, ("x", SEX, JOB))
    generator, told, sampler = np.random.default_rng(7), cell.mechanism(), SAMPLERS["collapsed"]
    inside = np.zeros(cell.schema.d + 2)
    for trial in range(trials):
        known = encoded(cell.schema, cell.rows[0], generator)
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
