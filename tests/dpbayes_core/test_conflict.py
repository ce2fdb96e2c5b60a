"""Prior and release: what the prior decided, and a surprise that is calibrated where the prior is true."""

import json

import numpy as np
import pytest
from scipy import stats

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.mechanisms import gaussian_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.moments import SecondMoments, grid_for
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.prior_conflict import UNLIKELY, PriorConflict, normal_scores, prior_conflict
from dpbayes_core.regression.release import RegressionDesign
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.samplers.driver import sample
from tests.support.regressions import REGION, SEX, encoded, example, mechanism, moments_of, released, schema_of

ENCODED = schema_of("x", SEX, REGION)
FIRM = Prior(coefficient_sd=0.2, intercept_sd=0.3, noise_shape=2.0, noise_scale=0.1, named=(("x", 1.0, 0.1),))


def prior_parameters(
    prior: Prior, schema: RegressionSchema, count: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Exact draws of standardised (theta, sigma)."""
    matrix = prior.response_matrix(schema)
    root = np.linalg.cholesky(np.linalg.inv(matrix[:-1, :-1]))
    mean = np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1])
    sigma = np.sqrt(prior.noise_scale / generator.gamma(prior.noise_shape, size=count))
    return mean + sigma[:, None] * (generator.standard_normal((count, len(mean))) @ root.T), sigma


@pytest.mark.slow
@pytest.mark.parametrize("noise", [3.0, 30.0])
def test_noise_makes_it_cry_no_more_often(noise: float) -> None:
    schema, generator, prior = schema_of("x"), np.random.default_rng(20261118), Prior()
    found: list[float] = []
    for seed in range(120):
        (theta,), (sigma,) = prior_parameters(prior, schema, 1, generator)
        moments = moments_of(encoded(schema, 100, generator), theta, sigma, generator)
        release = released(schema, moments, mechanism("gaussian", noise, len(schema.entries)), generator)
        posterior = sample(release, prior, sampler="collapsed", chains=2, draws=500, seed=seed)
        found.append(prior_conflict(prior, schema, posterior.draws).probability)
    for level in (UNLIKELY, 0.05, 0.1):
        often = sum(one < level for one in found)
        assert stats.binomtest(often, len(found), level, alternative="greater").pvalue > 0.001, level


def conflicts(prior: Prior, rows: int, repeats: int, *, farther: float = 1.0, loud: float = 1.0) -> list[PriorConflict]:
    """Of posteriors whose truths come from the prior, or `farther` from its mean, or with more noise, `loud`."""
    generator = np.random.default_rng(20261118)
    centre = np.linalg.solve(prior.response_matrix(ENCODED)[:-1, :-1], prior.response_matrix(ENCODED)[:-1, -1])
    found: list[PriorConflict] = []
    for seed in range(repeats):
        (theta,), (sigma,) = prior_parameters(prior, ENCODED, 1, generator)
        covariates = encoded(ENCODED, rows, generator)
        moments = moments_of(covariates, centre + farther * (theta - centre), loud * sigma, generator)
        release = released(ENCODED, moments, mechanism("gaussian", 1e-6, len(ENCODED.entries)), generator)
        posterior = sample(release, prior, sampler="naive", chains=2, draws=500, seed=seed)
        found.append(prior_conflict(prior, ENCODED, posterior.draws))
    return found


def test_draws_from_the_prior_are_independent_standard_normal_scores() -> None:
    columns = (Continuous("age", Bounds(16.0, 80.0)), SEX, Continuous("year", Bounds(2000.0, 2020.0)))
    schema = RegressionSchema(Continuous("pay", Bounds(0.0, 90.0)), columns)
    choices = {"named": {"(intercept)": {"mean": 30.0, "sd": 9.0}, "age": {"mean": 0.4, "sd": 0.1}}}
    for prior in (Prior(), Prior.from_user(choices, schema)):
        theta, sigma = prior_parameters(prior, schema, 40_000, np.random.default_rng(3))
        user, user_sigma = schema.to_user_units(theta, sigma)
        draws = dict(zip((*schema.coefficients, "sigma"), [*user.T, user_sigma], strict=True))
        for given in (draws, prior.draws(schema, 40_000, np.random.default_rng(4))):
            scores = normal_scores(prior, schema, given)
            for score in scores:
                assert stats.kstest(score, "norm").pvalue > 1e-4
            assert np.abs(np.corrcoef(scores) - np.eye(5)).max() < 5 / np.sqrt(40_000)


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "rows"), [(Prior(), 40), (FIRM, 30)], ids=["default", "firm"])
def test_the_tail_probability_is_uniform_where_the_prior_is_true(prior: Prior, rows: int) -> None:
    found = conflicts(prior, rows, 120)
    assert stats.kstest([one.probability for one in found], "uniform").pvalue > 0.001
    flagged = sum(one.conflict for one in found)
    assert stats.binomtest(flagged, len(found), UNLIKELY).pvalue > 0.001


def test_a_prior_that_the_release_contradicts_is_flagged_by_name() -> None:
    far = conflicts(FIRM, 30, 30, farther=15.0)
    assert sum(one.conflict for one in far) > 25
    loud = conflicts(FIRM, 300, 10, loud=30.0)
    for one in loud:
        worst = min(one.parameters, key=lambda parameter: parameter.probability)
        assert one.conflict
        assert worst.name == "sigma"


def test_the_pull_is_how_far_the_prior_moved_a_normal_posterior() -> None:
    schema, prior = schema_of(), Prior(intercept_sd=0.5, noise_shape=1e6, noise_scale=1e6)  # sigma is 1
    likelihood, rows = 3.0, 9  # theta ~ N(0, .25), mean of 9 rows ~ N(theta, 1/9)
    precision = rows + 4.0
    mean, sd = rows * likelihood / precision, precision**-0.5
    draws = {"(intercept)": mean + sd * np.random.default_rng(1).standard_normal(200_000), "sigma": np.ones(200_000)}
    intercept, sigma = prior_conflict(prior, schema, draws).parameters
    assert intercept.pull == pytest.approx((likelihood - mean) / sd, rel=0.01)
    assert intercept.left == pytest.approx(4 / 13, rel=0.01)
    distance = likelihood / np.sqrt(0.25 + 1 / 9)  # exact: the prior predictive of the rows' mean
    assert intercept.probability == pytest.approx(2 * stats.norm.sf(distance), rel=0.1)
    assert sigma.probability > 0.5


def normal_posterior(prior_sd: float, likelihood: Floats, precision: Floats) -> tuple[dict[str, Floats], Floats]:
    """Draws of an intercept and two slopes at sigma 1, prior N(0, prior_sd^2) each; how far all would move without."""
    covariance = np.linalg.inv(precision + np.eye(3) / prior_sd**2)
    mean = covariance @ precision @ likelihood
    draws = np.random.default_rng(7).multivariate_normal(mean, covariance, 100_000).T
    named = {**dict(zip(("(intercept)", "x", "u"), draws, strict=True)), "sigma": np.ones(100_000)}
    return named, np.abs(likelihood - mean) / np.sqrt(np.diag(covariance))


def test_what_two_collinear_slopes_owe_to_the_prior_is_seen_of_both_together() -> None:
    across = np.array([0.0, 1.0, -1.0]) / np.sqrt(2)
    precision = np.diag([400.0, 400.0, 400.0]) - 399.0 * np.outer(across, across)  # their difference is hardly told
    draws, moved = normal_posterior(1.0, np.array([0.1, 6.0, -5.0]), precision)
    prior = Prior(intercept_sd=1.0, coefficient_sd=1.0, noise_shape=1e6, noise_scale=1e6)  # sigma is 1
    found = prior_conflict(prior, schema_of("x", "u"), draws)
    assert [one.pull for one in found.parameters[:3]] == pytest.approx(moved, rel=0.05, abs=0.05)
    assert found.decides
    assert found.weakest.left == pytest.approx(0.5, abs=0.02)
    weights = dict(found.weakest.combination)
    assert abs(weights["x"]) == pytest.approx(2**-0.5, abs=0.02)
    assert weights["x"] * weights["u"] < 0


def one_at_a_time(prior: Prior, schema: RegressionSchema, draws: dict[str, Floats]) -> Floats:
    """The pull as it would be if every score stood alone."""
    scores = normal_scores(prior, schema, draws)
    mean, left = scores.mean(axis=1), scores.var(axis=1, ddof=1)
    return np.abs(mean) * np.sqrt(left) / np.maximum(1 - left, 0.05)


def test_age_and_age_squared_are_said_to_be_the_priors() -> None:
    schema = RegressionSchema(
        Continuous("log_wage", Bounds(0.0, 5.0)),
        (Continuous("age", Bounds(16.0, 80.0)), Continuous("age_squared", Bounds(256.0, 6400.0)), SEX),
    )
    generator, rows = np.random.default_rng(2), 50_000
    age, sex = generator.uniform(18, 65, rows), generator.integers(0, 2, rows)
    wage = 0.6 + 0.09 * age - 0.0009 * age**2 - 0.2 * sex + 0.4 * generator.standard_normal(rows)
    columns = {"age": age, "age_squared": age**2, "sex": sex.astype(np.int32), "log_wage": np.clip(wage, 0.0, 5.0)}
    told = gaussian_for(regression_sensitivity(schema), grid=grid_for(rows), epsilon=1.0, delta=1e-6)
    statistic = SecondMoments(schema)
    sums = statistic.sum(statistic.encode(columns))
    noise = SeededNoise(2, i_know_this_is_not_private=True)
    release = RegressionDesign(schema=schema, mechanism=told).release(noise, sums)
    posterior = sample(release, Prior(), sampler="collapsed", chains=2, draws=500, seed=1)
    found = prior_conflict(Prior(), schema, posterior.draws)
    pulls = {one.name: one.pull for one in found.parameters}
    assert one_at_a_time(Prior(), schema, dict(posterior.draws)).max() < 1.1
    assert np.quantile(posterior.draws["age"], 0.999) < 0.09  # it misses what made the table
    assert min(pulls["age"], pulls["age_squared"]) > 2
    assert pulls["sex[m]"] < 1
    assert found.decides
    assert found.weakest.left > 0.3
    assert {name for name, weight in found.weakest.combination if abs(weight) > 0.3} == {"age", "age_squared"}


def test_a_release_that_tells_nothing_conflicts_with_nothing_and_leaves_all_to_the_prior() -> None:
    generator = np.random.default_rng(2)
    for count in (200, 1000, 4000):  # draws have eigenvalues above 1
        theta, sigma = prior_parameters(Prior(), schema_of("x"), count, generator)
        draws = {"(intercept)": theta[:, 0], "x": theta[:, 1], "sigma": sigma}
        found = prior_conflict(Prior(), schema_of("x"), draws)
        assert found.probability > 0.5
        assert found.weakest.left > 0.95
        assert found.decides
        assert all(one.pull < 2 for one in found.parameters)


def test_a_posterior_wider_than_its_prior_is_no_surprise_for_being_wide() -> None:
    """Skewed posteriors of a release that noise drowns: 1 - V is negative along an axis on which the mean moved."""
    generator = np.random.default_rng(3)
    theta, sigma = prior_parameters(Prior(), schema_of("x"), 2000, generator)
    draws = {"(intercept)": theta[:, 0], "x": 1.3 * theta[:, 1] + 1.3 * 1.5 * sigma, "sigma": sigma}
    found = prior_conflict(Prior(), schema_of("x"), draws)
    assert found.weakest.left > 1.5
    assert not found.conflict


def test_a_firm_prior_that_holds_against_the_release_is_a_conflict() -> None:
    firm = Prior(named=(("x", 3.0, 0.05),))
    release = example(schema_of("x"), 500, scale=1.0)
    found = prior_conflict(firm, release.schema, sample(release, firm, sampler="naive", draws=300, seed=1).draws)
    slope = found.parameters[1]
    assert slope.left > 0.8  # hardly narrower than the prior, and yet far from it
    assert slope.probability < 1e-6
    assert found.conflict


def test_a_residual_sd_beyond_any_tail_is_a_conflict_and_a_number() -> None:
    for sigma in (1e-6, 1e6):
        draws = {"(intercept)": np.linspace(-0.1, 0.1, 99) * sigma, "sigma": np.full(99, sigma)}
        found = prior_conflict(Prior(), schema_of(), draws)
        assert found.conflict
        record = json.loads(canonical_json(found.to_record()))
        assert record["conflict"] is True
        assert record["parameters"][-1]["name"] == "sigma"
