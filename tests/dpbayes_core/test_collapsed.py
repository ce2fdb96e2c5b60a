"""The collapsed sampler against posteriors computed without it: quadrature, importance sampling, no noise at all."""

from dataclasses import replace
from math import lgamma

import numpy as np
import pytest
from scipy.stats import ks_2samp

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Evidence, parts_of, pooled
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.driver import sample
from dpbayes_core.sampling.posterior import Posterior
from tests.support.regressions import (
    JOB,
    SEX,
    URBAN,
    covariate_moments,
    encoded,
    entries_of,
    example,
    flat_factors,
    mechanism,
    moments_of,
    noise_log_density,
    prior_statistics,
    regressed,
    regression_draws,
    released,
    schema_of,
    split_statistics,
)

NAMES = ("gaussian", "laplace", "gaussian")

PRIOR = Prior(intercept_sd=1.5, coefficient_sd=1.5, noise_shape=3.0, noise_scale=0.3, correlation=1.5)

INDEPENDENT = IndependentPrior(intercept_sd=0.8, coefficient_sd=0.6, noise_scale=0.2, named=(("x", 0.3, 0.4),))


def weighed(evidence: Evidence, parameters: Floats, logs: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, sd and the Monte Carlo error of the mean of every parameter, in the user's units."""
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    theta, sigma = evidence.schema.to_user_units(parameters[:, :-1], parameters[:, -1])
    values = np.column_stack([theta, sigma])
    mean = weights @ values
    sd = np.sqrt(weights @ (values - mean) ** 2)
    return mean, sd, np.sqrt((weights**2) @ (values - mean) ** 2)


def noise_of(release: Release, statistics: Floats) -> Floats:
    """log p(release | statistics) of each."""
    rows, columns = np.array(release.entries).T
    if not release.schema.intercept:
        statistics = np.pad(statistics, ((0, 0), (1, 0), (1, 0)))
    return noise_log_density(release.mechanism, np.array(release.values) - statistics[:, rows, columns]).sum(axis=1)


def by_importance(
    release: Release, count: int, generator: np.random.Generator, prior: Prior = PRIOR
) -> tuple[Floats, Floats, Floats]:
    """The posterior by weighing draws from the prior."""
    assert release.rows is not None
    parameters, statistics = prior_statistics(prior, release.schema, release.rows, count, generator)
    return weighed(release, parameters, noise_of(release, statistics))


def agrees(posterior: Posterior, mean: Floats, sd: Floats, error: Floats) -> None:
    for line, m, s, e in zip(posterior.summary(), mean, sd, error, strict=True):
        both = np.hypot(e, line.sd / np.sqrt(line.ess_bulk))
        assert e < 0.05 * s, "the comparison is too coarse to mean anything"
        assert abs(line.mean - m) < 4.5 * both, line.name
        assert abs(line.sd - s) < 4.5 * 2 * both, line.name  # heavier tails than a normal's: twice its error


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "covariates",
    [
        pytest.param(("x",), id="x"),
        pytest.param(("x", "z"), id="x and z", marks=pytest.mark.slow),
        pytest.param((SEX,), id="two levels"),
        pytest.param((JOB,), id="factor", marks=pytest.mark.slow),
        pytest.param((SEX, "x"), id="both", marks=pytest.mark.slow),
        pytest.param((SEX, URBAN), id="two factors", marks=pytest.mark.slow),
    ],
)
def test_posteriors_agree_with_importance_sampling_from_the_prior(covariates: tuple[str], name: str) -> None:
    schema = schema_of(*covariates)
    release = example(schema, 30, name=name, scale=8.0, seed=5)
    mean, sd, error = by_importance(release, 400_000, np.random.default_rng(6))
    agrees(sample(release, PRIOR, draws=1500, seed=7), mean, sd, error)


@pytest.mark.parametrize("name", [pytest.param("laplace", marks=pytest.mark.slow), "gaussian"])
@pytest.mark.parametrize(
    "covariates", [("x", "z"), pytest.param((SEX, "x"), marks=pytest.mark.slow)], ids=["x and z", "two levels"]
)
def test_with_a_prior_that_does_not_depend_on_sigma_they_agree_too(covariates: tuple[str], name: str) -> None:
    schema = schema_of(*covariates)
    release = example(schema, 30, name=name, scale=8.0, seed=5)
    found = by_importance(release, 400_000, np.random.default_rng(6), INDEPENDENT)
    agrees(sample(release, INDEPENDENT, draws=1500, seed=7), *found)


def test_without_intercept_too() -> None:
    schema = replace(schema_of("x", "z"), intercept=False)
    release = example(schema, 30, scale=8.0, seed=5)
    mean, sd, error = by_importance(release, 400_000, np.random.default_rng(6))
    agrees(sample(release, PRIOR, draws=1500, seed=7), mean, sd, error)


@pytest.mark.parametrize(
    "prior", [PRIOR, replace(INDEPENDENT, intercept_sd=0.4)], ids=["in residual sds", "independent of sigma"]
)
@pytest.mark.parametrize("rows", [(15, 25), (30, 2), (25, 3, 1)], ids=["two", "a part of two rows", "one of one row"])
@pytest.mark.slow
def test_pooled_posteriors_agree_with_importance_sampling(rows: tuple[int, ...], prior: Prior) -> None:
    schema = schema_of("x", "z")
    each = [example(schema, n, scale=6.0, seed=5 + n, name=name) for n, name in zip(rows, NAMES, strict=False)]
    parts = pooled(each, alike=True)
    parameters, statistics = split_statistics(prior, schema, rows, 60_000, np.random.default_rng(6))
    logs = sum(noise_of(part, own) for part, own in zip(parts_of(parts), statistics, strict=True))
    agrees(sample(parts, prior, draws=1500, seed=7), *weighed(parts, parameters, np.asarray(logs)))


@pytest.mark.parametrize("prior", [PRIOR, INDEPENDENT], ids=["in residual sds", "independent of sigma"])
def test_with_a_noisy_number_of_rows_the_posterior_agrees_with_importance_sampling(prior: Prior) -> None:
    schema, count, generator = schema_of("x"), 400_000, np.random.default_rng(6)
    made = example(schema, 30, scale=6.0, seed=5)
    told = mechanism("gaussian", 6.0, 6)
    release = replace(made, rows=None, values=(27.0, *made.values), mechanism=told, neighbours="add-remove")
    rows = np.exp(generator.uniform(np.log(3.0), np.log(90.0), count))
    known = rows[:, None, None] * covariate_moments(prior, flat_factors(schema, count, generator), schema, generator)
    theta, sigma = regression_draws(prior, schema, count, generator)
    statistics = regressed(known, theta, sigma, rows, generator)
    found = weighed(release, np.column_stack([theta, sigma]), noise_of(release, statistics))
    agrees(sample(release, prior, draws=1500, seed=7), *found)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [PRIOR, IndependentPrior()], ids=["in residual sds", "independent of sigma"])
def test_with_noise_that_drowns_everything_the_posterior_is_the_prior(prior: Prior) -> None:
    schema = schema_of("x", "z")
    posterior = sample(example(schema, 50, scale=1e7, seed=5), prior, draws=2500, seed=7)
    theta, sigma = regression_draws(prior, schema, 100_000, np.random.default_rng(1))
    assert posterior.converged
    for name, exact in zip(posterior.draws, (*theta.T, sigma), strict=True):
        thinned = posterior.draws[name][:, ::5].ravel()
        assert ks_2samp(thinned, exact).pvalue > 1e-4, name


def test_the_comparison_with_importance_sampling_can_fail() -> None:
    release = example(schema_of("x"), 30, name="laplace", scale=8.0, seed=5)
    mean, sd, error = by_importance(release, 400_000, np.random.default_rng(6))
    wrong = replace(release, mechanism=mechanism("laplace", 12.0, len(release.values)))
    with pytest.raises(AssertionError):
        agrees(sample(wrong, PRIOR, draws=1500, seed=7), mean, sd, error)


def by_quadrature(release: Release, posterior: Posterior) -> tuple[Floats, Floats]:
    """Mean and sd of theta and sigma by the trapezoid rule over all five moments; the draws only place the grid."""
    assert release.rows is not None
    n, prior = release.rows, PRIOR
    draws = np.stack([values.ravel() for values in posterior.latent.values()], axis=1) / n
    centre, spread = rotated(draws).mean(axis=0), np.linalg.cholesky(np.cov(rotated(draws).T))
    steps = np.linspace(-6.0, 6.0, 17)
    grid = np.stack(np.meshgrid(*[steps] * 5, indexing="ij"), axis=-1).reshape(-1, 5)
    grid = grid[(grid**2).sum(axis=1) < 50]
    moments, jacobian = unrotated(centre + grid @ spread.T)
    residual = np.array(release.values) - n * moments[:, *np.array(release.schema.entries).T]
    full, m_zero = n * moments, prior.response_matrix(release.schema)
    mean, variance = moments[:, 0, 1], moments[:, 1, 1] - moments[:, 0, 1] ** 2
    logs = jacobian + noise_log_density(release.mechanism, residual).sum(axis=1)
    logs += -0.5 * (mean / prior.mean_sd) ** 2 - variance / prior.variance
    logs += (n - 4) / 2 * np.linalg.slogdet(moments)[1] - (n - 3) / 2 * np.log(variance)
    shape = prior.noise_shape + n / 2
    precision = m_zero[:2, :2] + full[:, :2, :2]
    logs += (shape - 0.5) * np.linalg.slogdet(precision)[1] - shape * np.linalg.slogdet(m_zero + full)[1]
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    theta = np.linalg.solve(precision, full[:, :2, 2:])[..., 0]
    scale = (np.linalg.det(m_zero + full) / np.linalg.det(precision)) / 2
    inside = scale[:, None] / (shape - 1) * np.diagonal(np.linalg.inv(precision), axis1=1, axis2=2)
    sigma = np.sqrt(scale) * np.exp(lgamma(shape - 0.5) - lgamma(shape))
    first = weights @ np.column_stack([theta, sigma])
    second = weights @ np.column_stack([inside + theta**2, scale / (shape - 1)])
    return first, np.sqrt(second - first**2)


def rotated(entries: Floats) -> Floats:
    """Means, log sds and slope of moments / n given as x, y, xx, xy, yy."""
    x, y, xx, xy, yy = entries.T
    slope = (xy - x * y) / (xx - x * x)
    rest = yy - y * y - slope * (xy - x * y)
    return np.column_stack([x, y, np.log(xx - x * x) / 2, slope, np.log(rest) / 2])


def unrotated(points: Floats) -> tuple[Floats, Floats]:
    """The inverse of `rotated`, with the log Jacobian of the centred moments."""
    x, y, first, slope, second = points.T
    xx, rest = np.exp(2 * first), np.exp(2 * second)
    full = np.ones((len(points), 3, 3))
    full[:, 0, 1] = full[:, 1, 0] = x
    full[:, 0, 2] = full[:, 2, 0] = y
    full[:, 1, 1] = xx + x * x
    full[:, 1, 2] = full[:, 2, 1] = slope * xx + x * y
    full[:, 2, 2] = slope**2 * xx + rest + y * y
    return full, 4 * first + 2 * second


def test_the_posterior_agrees_with_quadrature() -> None:
    release = example(schema_of("x"), 150, scale=4.0, seed=2)
    posterior = sample(release, PRIOR, draws=4000, seed=3)
    mean, sd = by_quadrature(release, posterior)
    for line, m, s in zip(posterior.summary(), mean, sd, strict=True):
        error = s / np.sqrt(line.ess_bulk)
        assert abs(line.mean - m) < 4 * error, line.name
        assert abs(line.sd - s) < 6 * error, line.name


def test_the_quadrature_check_can_fail() -> None:
    release = example(schema_of("x"), 150, scale=4.0, seed=2)
    posterior = sample(replace(release, mechanism=mechanism("gaussian", 6.0, 5)), PRIOR, draws=4000, seed=3)
    mean, sd = by_quadrature(release, posterior)
    lines = posterior.summary()
    assert any(abs(line.sd - s) > 6 * s / np.sqrt(line.ess_bulk) for line, s in zip(lines, sd, strict=True)), mean


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_without_noise_the_posterior_is_the_conjugate_one(name: str) -> None:
    schema = schema_of("x", SEX, "z", JOB)
    generator = np.random.default_rng(8)
    covariates = encoded(schema, 400, generator)
    moments = moments_of(covariates, 0.3 * generator.standard_normal(schema.m), 0.25, generator)
    release = released(schema, moments, mechanism(name, 1e-4, len(schema.entries)), generator)
    full = PRIOR.response_matrix(schema) + moments
    theta = np.linalg.solve(full[:-1, :-1], full[:-1, -1])
    shape, scale = PRIOR.noise_shape + 200, (full[-1, -1] - full[-1, :-1] @ theta) / 2
    sd = np.sqrt(scale / (shape - 1) * np.diag(np.linalg.inv(full[:-1, :-1])))
    draws = sample(release, PRIOR, draws=2500, seed=9, sampler="collapsed")
    user, sigma = schema.to_user_units(theta, np.sqrt(scale) * np.exp(lgamma(shape - 0.5) - lgamma(shape)))
    assert draws.converged
    for line, expected in zip(draws.summary(), [*user, sigma], strict=True):
        assert abs(line.mean - expected) < 4.5 * line.sd / np.sqrt(line.ess_bulk), line.name
    slopes = [line for line in draws.summary() if line.name in ("x", "z")]
    for line, expected in zip(slopes, sd[[1, 3]], strict=True):
        assert line.sd == pytest.approx(expected, rel=0.05)
    exact = entries_of(schema, moments)
    for place, values in enumerate(draws.latent.values()):
        assert abs(values.mean() - exact[place]) < 0.01


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_averages_given_the_statistics_have_no_error_of_their_own(name: str) -> None:
    schema = schema_of("x", "z")
    generator = np.random.default_rng(8)
    moments = moments_of(encoded(schema, 400, generator), (0.1, 0.2, -0.3), 0.25, generator)
    release = released(schema, moments, mechanism(name, 1e-7, len(schema.entries)), generator)
    full = PRIOR.response_matrix(schema) + moments
    theta = np.linalg.solve(full[:-1, :-1], full[:-1, -1])
    shape, scale = PRIOR.noise_shape + 200, (full[-1, -1] - full[-1, :-1] @ theta) / 2
    found = sample(release, PRIOR, draws=500, seed=9).moments()
    sd = np.sqrt(scale / (shape - 1) * np.diag(np.linalg.inv(full[:-1, :-1])))
    for place, coefficient in enumerate(schema.coefficients):
        assert found[coefficient].mean == pytest.approx(theta[place], abs=1e-6 * sd[place])
        assert found[coefficient].sd == pytest.approx(sd[place], rel=1e-6)
