"""The collapsed density against an independent one in plain numpy, complex steps and simulation."""

from dataclasses import replace
from math import log, pi

import numpy as np
import pytest
from scipy.stats import gamma

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Evidence, pooled
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.collapsed.arrays import Target, work_for
from dpbayes_core.samplers.collapsed.density import log_density
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.start import start_of
from dpbayes_core.samplers.collapsed.target import build_target
from tests.support.collapsed_oracle import Oracle, complex_steps
from tests.support.regressions import (
    JOB,
    REGION,
    SEX,
    covariate_moments,
    example,
    flat_factors,
    mechanism,
    regression_draws,
    schema_of,
)

PRIOR = Prior(intercept_sd=2.0, noise_shape=1.5, noise_scale=0.3, mean_sd=0.7, variance=0.3, correlation=1.7)
INDEPENDENT = IndependentPrior(
    intercept_sd=1.5, coefficient_sd=0.8, noise_shape=1.7, mean_sd=0.7, variance=0.3, correlation=1.7
)
PRIORS = {"in residual sds": PRIOR, "independent of sigma": INDEPENDENT}
SCHEMAS = {
    "one covariate": schema_of("x"),
    "no covariate": schema_of(),
    "five covariates": schema_of("a", "b", "c", "d", "e"),
    "two levels": schema_of("x", SEX),
    "a factor": schema_of(JOB),
    "three factors": schema_of(SEX, "x", REGION, JOB, "z"),
    "no intercept": replace(schema_of("a", "b", "c"), intercept=False),
}
LARGEST = "three factors"
EACH_SCHEMA = pytest.mark.parametrize(
    "schema",
    [pytest.param(schema, id=n, marks=[pytest.mark.slow] if n == LARGEST else []) for n, schema in SCHEMAS.items()],
)


def counted(release: Release) -> Release:
    """The same with a noisy number of rows."""
    assert release.rows is not None
    told = mechanism(release.mechanism.name, 4.0, len(release.values) + 1)
    values = (release.rows + 2.5, *release.values)
    return replace(release, rows=None, values=values, mechanism=told, neighbours="add-remove")


def evidence(schema: RegressionSchema, name: str, form: str) -> Evidence:
    """One release, one with a noisy count, two with the same noise, or several of all kinds."""
    one = example(schema, 60, name=name, scale=4.0)
    if form == "one":
        return one
    if form == "counted":
        return counted(one)
    if form == "two alike":
        return pooled([one, example(schema, 80, name=name, scale=4.0, seed=2)])
    other = example(schema, 80, name="gaussian", scale=2.0, seed=2)
    return pooled([one, other, counted(example(schema, 50, name=name, scale=4.0, seed=3))])


FORMS = ("one", "counted", "two alike", "three parts")


def case(schema: RegressionSchema, name: str, form: str, prior: Prior = PRIOR) -> tuple[Oracle, Target, Floats]:
    """The independent density, the target, and where to look."""
    made, layout = evidence(schema, name, form), Layout.of(schema)
    target, start = start_of(build_target(made, prior, layout), layout, prior, schema)
    return Oracle(made, prior, target), target, start


def evaluated(target: Target, position: Floats) -> tuple[float, Floats]:
    gradient = np.zeros(position.size)
    return log_density(position, target, work_for(target), gradient), gradient


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
@EACH_SCHEMA
def test_the_gradient_is_that_of_an_independent_density(
    schema: RegressionSchema, name: str, form: str, prior: Prior
) -> None:
    oracle, target, start = case(schema, name, form, prior)
    generator = np.random.default_rng(3)
    for spread in (0.1, 0.4 if prior is PRIOR else 0.2):  # farther out the second is too small for any digits
        position = start + spread * generator.standard_normal(start.size)
        _, gradient = evaluated(target, position)
        expected = complex_steps(oracle.density, position)
        assert np.max(np.abs(gradient - expected) / (1 + np.abs(expected))) <= 1e-8


@pytest.mark.parametrize("named", [(), (("(intercept)", 0.2, 0.4), ("x", -0.3, 0.2))], ids=["none named", "named"])
def test_given_sigma_the_law_of_the_response_is_the_integral_over_coefficients(
    named: tuple[tuple[str, float, float], ...],
) -> None:
    schema, prior = schema_of("x"), replace(INDEPENDENT, named=named)
    generator = np.random.default_rng(2)
    x = np.column_stack([np.ones(7), 0.6 * generator.standard_normal(7)])
    y = 0.5 * generator.standard_normal(7) + 0.1
    rows = np.column_stack([x, y])
    oracle = Oracle(example(schema, 7), prior, None)  # type: ignore[arg-type]
    means, sds, basis = prior.laws(schema)
    grid = np.linspace(-9, 9, 601)
    normal = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    theta = (means + sds * normal) @ np.linalg.inv(basis)
    for sigma in (0.15, 0.4, 2.0):
        logs = -7 / 2 * log(2 * pi * sigma**2) - ((y - theta @ x.T) ** 2).sum(axis=1) / (2 * sigma**2)
        weights = np.exp(logs - (normal**2).sum(axis=1) / 2) / (2 * pi) * (grid[1] - grid[0]) ** 2
        own = gamma(prior.noise_shape, scale=prior.noise_scale).logpdf(sigma) + log(sigma)
        found = oracle.given(rows.T @ rows + 0j, 7, np.complex128(sigma)).real
        assert found == pytest.approx(log(weights.sum()) + own, abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
@pytest.mark.parametrize("form", FORMS)
@EACH_SCHEMA
def test_the_density_is_that_of_an_independent_one(schema: RegressionSchema, form: str, prior: Prior) -> None:
    oracle, target, start = case(schema, "laplace", form, prior)
    generator, apart = np.random.default_rng(4), []
    for _ in range(4):
        position = start + 0.3 * generator.standard_normal(start.size)
        apart.append(evaluated(target, position)[0] - oracle.density(position).real)
    assert np.ptp(apart) <= 1e-7
    if not oracle.blocks():  # with levels the constant is not known
        assert apart[0] == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
@pytest.mark.parametrize("form", ["one", "three parts"])
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
@EACH_SCHEMA
def test_the_jacobian_is_the_one_that_complex_steps_find(
    schema: RegressionSchema, name: str, form: str, prior: Prior
) -> None:
    oracle, _, start = case(schema, name, form, prior)
    generator, apart = np.random.default_rng(5), []
    for _ in range(3):
        position = start + 0.4 * generator.standard_normal(start.size)
        apart.append(_determinant(oracle, position) - sum(p.jacobian for p in oracle.places(position)).real)
    assert np.ptp(apart) <= 1e-7


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_the_jacobian_check_can_fail(prior: Prior) -> None:
    oracle, _, start = case(SCHEMAS["three factors"], "gaussian", "one", prior)
    generator, apart = np.random.default_rng(5), []
    for _ in range(4):
        position = start + 0.4 * generator.standard_normal(start.size)
        jacobian = sum(p.jacobian for p in oracle.places(position)).real
        apart.append(_determinant(oracle, position) - jacobian + position[0])
    assert np.ptp(apart) > 1e-3


def _determinant(oracle: Oracle, position: Floats) -> float:
    return float(np.linalg.slogdet(complex_steps(oracle.free_entries, position))[1])


@pytest.mark.parametrize(("d", "rows"), [(1, 6), (2, 8)])
def test_the_law_of_the_response_is_the_average_over_the_prior(d: int, rows: int) -> None:
    prior = Prior(intercept_sd=1.0, coefficient_sd=1.0, noise_shape=2.0, noise_scale=1.0)
    generator = np.random.default_rng(11)
    schema = schema_of(*"ab"[:d])
    x = np.column_stack([np.ones(rows), 0.8 * generator.standard_normal((rows, d))])
    y = 0.8 * generator.standard_normal(rows) + 0.2
    full = np.column_stack([x, y])
    exact = Oracle(example(schema, rows), prior, None).response(full.T @ full + 0j, rows).real  # type: ignore[arg-type]
    theta, sigma = regression_draws(prior, schema, 400_000, generator)
    logs = -rows / 2 * np.log(2 * pi * sigma**2) - ((y - theta @ x.T) ** 2).sum(axis=1) / (2 * sigma**2)
    weights = np.exp(logs - logs.max())
    error = weights.std() / weights.mean() / np.sqrt(logs.size)
    assert error < 0.06
    assert abs(log(weights.mean()) + logs.max() - exact) < 4 * error


@pytest.mark.parametrize(
    ("covariates", "other"),
    [
        (("a", "b", "c"), replace(PRIOR, mean_sd=0.6, variance=0.25, correlation=2.0)),
        ((SEX, "a", "b"), replace(PRIOR, mean_sd=0.6, variance=0.25)),  # with levels the constant is not known
    ],
    ids=["numbers", "levels"],
)
def test_moments_drawn_from_the_prior_have_its_density(covariates: tuple[str, ...], other: Prior) -> None:
    schema = schema_of(*covariates)
    generator = np.random.default_rng(12)
    full = covariate_moments(PRIOR, flat_factors(schema, 20_000, generator), schema, generator)
    here, there = (Oracle(example(schema, 60), prior, None) for prior in (PRIOR, other))  # type: ignore[arg-type]
    mean = full[:, 0, 1:]
    scatter = full[:, 1:, 1:] - mean[:, :, None] * mean[:, None, :] + 0j
    pairs = zip(mean, scatter, strict=True)
    ratios = np.exp([(there.covariates(*pair) - here.covariates(*pair)).real for pair in pairs])
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(ratios.size)
    assert ratios.std() > 0.2
