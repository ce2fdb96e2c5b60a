"""The default sampler on statistics that no good table gives: a sensible posterior or one sentence, never a hang."""

from dataclasses import replace
from math import lgamma

import numpy as np
import pytest
from scipy.stats import ks_2samp

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.pool import Evidence, pooled
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.samplers.driver import sample
from dpbayes_core.sampling.posterior import Posterior
from dpbayes_core.sampling.protocol import SamplerUnsuitable
from tests.support.regressions import REGION, SEX, UNIT, mechanism, moments_of, regression_draws, released, schema_of

TWO = schema_of("x", "z")
PRIOR = Prior(noise_scale=0.04)
THETA = (0.1, 0.2, -0.3)
LAPLACE = pytest.param("laplace", marks=pytest.mark.slow)
BOTH = pytest.mark.parametrize("name", ["gaussian", "laplace"])
GAUSSIAN_FIRST = pytest.mark.parametrize("name", ["gaussian", LAPLACE])


def rows_of(count: int, *, seed: int = 2) -> Floats:
    """Rows of (1, x, z)."""
    generator = np.random.default_rng(seed)
    return np.column_stack([np.ones(count), generator.normal(0.1, 0.35, (count, 2))])


def made(rows: Floats, *, sigma: float = 0.25, theta: tuple[float, ...] = THETA, seed: int = 1) -> Floats:
    """Their second moments with a response."""
    return moments_of(rows, theta, sigma, np.random.default_rng(seed))


def told(moments: Floats, name: str, scale: float, *, schema: RegressionSchema = TWO, seed: int = 1) -> Release:
    """A release of the moments."""
    return released(schema, moments, mechanism(name, scale, len(schema.entries)), np.random.default_rng(seed))


def believed(evidence: Evidence, *, draws: int = 500) -> Posterior:
    """A posterior that is finite throughout, and honest where it has not converged."""
    found = sample(evidence, PRIOR, draws=draws, seed=3, sampler="collapsed")
    assert all(np.isfinite(values).all() for values in (*found.draws.values(), *found.latent.values()))
    assert all(np.isfinite(values).all() for pair in found.expected.values() for values in pair)
    assert found.converged or found.why_not
    return found


def converged(evidence: Evidence, *, draws: int = 500) -> Posterior:
    """The same where the chains are known to pass."""
    found = believed(evidence, draws=draws)
    assert found.converged, found.why_not
    return found


def is_conjugate(posterior: Posterior, moments: Floats) -> None:
    """Means within a tenth of a posterior sd and sds within 15% of those without noise."""
    full = PRIOR.response_matrix(TWO) + moments
    theta = np.linalg.solve(full[:-1, :-1], full[:-1, -1])
    shape, scale = PRIOR.noise_shape + moments[0, 0] / 2, (full[-1, -1] - full[-1, :-1] @ theta) / 2
    sd = np.sqrt(scale / (shape - 1) * np.diag(np.linalg.inv(full[:-1, :-1])))
    for place, name in enumerate(TWO.coefficients):
        found = posterior.moments()[name]
        assert abs(found.mean - theta[place]) < 0.1 * sd[place], name
        assert found.sd == pytest.approx(sd[place], rel=0.15), name
    sigma = np.sqrt(scale) * np.exp(lgamma(shape - 0.5) - lgamma(shape))
    assert posterior.draws["sigma"].mean() == pytest.approx(sigma, rel=0.02)


@BOTH
@pytest.mark.parametrize("squares", [-80.0, -1e6, 0.0], ids=["negative", "far below 0", "0"])
def test_squares_that_no_rows_have_still_give_a_posterior(squares: float, name: str) -> None:
    release = told(made(rows_of(50)), name, 5.0)
    values = (squares if i == j else v for (i, j), v in zip(release.entries, release.values, strict=True))
    converged(replace(release, values=tuple(values)))


@pytest.mark.slow
@GAUSSIAN_FIRST
@pytest.mark.parametrize(("rows", "scale"), [(50, 1e9), (1000, 1e8)])
def test_where_noise_drowns_everything_the_posterior_is_the_prior(rows: int, scale: float, name: str) -> None:
    posterior = believed(told(made(rows_of(rows)), name, scale), draws=1000)
    theta, sigma = regression_draws(PRIOR, TWO, 100_000, np.random.default_rng(1))
    for place, exact in zip(posterior.draws, (*theta.T, sigma), strict=True):
        assert ks_2samp(posterior.draws[place][:, ::10].ravel(), exact).pvalue > 1e-4, place


def test_as_many_rows_as_variables_are_refused_and_one_more_is_not() -> None:
    with pytest.raises(SamplerUnsuitable, match="it needs more than 3 rows, the number of encoded variables"):
        sample(told(made(rows_of(3)), "gaussian", 1e-3), PRIOR, seed=1, sampler="collapsed")
    moments = made(rows_of(4))
    is_conjugate(converged(told(moments, "gaussian", 1e-4)), moments)


@pytest.mark.slow
@GAUSSIAN_FIRST
def test_one_row_more_than_variables_under_noise_has_a_posterior_too(name: str) -> None:
    converged(told(made(rows_of(4)), name, 5.0))


@GAUSSIAN_FIRST
@pytest.mark.parametrize("twice", [False, True], ids=["constant", "twice the same"])
def test_covariates_that_tell_nothing_new_leave_the_others_as_they_were(twice: bool, name: str) -> None:
    rows = rows_of(200)
    rows[:, 1] = rows[:, 2] if twice else 0.3
    moments = made(rows)
    posterior = converged(told(moments, name, 1.0))
    together = posterior.contrast({"x": 1.0, "z": 1.0}) if twice else posterior.draws["z"]
    assert abs(together.mean() - (THETA[2] + THETA[1] * twice)) < 4 * together.std()
    assert together.std() < 0.15
    assert posterior.draws["x"].std() > 0.15, "nothing but the prior and noise tell of it"


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("twice", [False, True], ids=["constant", "twice the same"])
def test_without_noise_such_covariates_end_in_the_conjugate_posterior_converged_or_not(twice: bool, name: str) -> None:
    rows = rows_of(200)
    rows[:, 1] = rows[:, 2] if twice else 0.3
    moments = made(rows)
    is_conjugate(believed(told(moments, name, 1e-6), draws=250), moments)


def unseen() -> tuple[RegressionSchema, Floats]:
    """All of one sex, and two regions of four that nobody is from."""
    schema, generator = schema_of(SEX, REGION, "x"), np.random.default_rng(4)
    rows = np.column_stack([np.ones(300), -np.ones(300), np.zeros((300, 3)), generator.normal(0.1, 0.35, 300)])
    rows[:100, 2] = 1
    return schema, made(rows, theta=(0.1, 0.2, 0.3, 0.0, 0.0, 0.2))


@GAUSSIAN_FIRST
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_levels_that_nobody_has_are_known_from_the_prior_alone(scale: float, name: str) -> None:
    schema, moments = unseen()
    posterior = converged(told(moments, name, scale, schema=schema))
    assert posterior.draws["sex[m]"].std() > 0.1
    if scale == 1.0:
        assert posterior.draws["x"].std() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-4, 1e-2])
def test_levels_that_nobody_has_and_no_noise_end_in_an_honest_answer(scale: float) -> None:
    schema, moments = unseen()
    posterior = believed(told(moments, "gaussian", scale, schema=schema), draws=250)
    assert posterior.draws["x"].mean() == pytest.approx(0.2, abs=0.15)


def narrow(*, covariate: float, response: float, middle: float) -> Floats:
    """Moments of a million rows whose x and y take so much of their bounds, x around `middle`."""
    generator = np.random.default_rng(3)
    rows = np.column_stack([np.ones(100_000), generator.standard_normal((100_000, 2))])
    rows[:, 1] = middle + covariate * rows[:, 1]
    rows[:, 2] = 0.1 + 0.35 * rows[:, 2]
    slope = 0.2 * min(1.0, response / covariate)
    return 10 * made(rows, theta=(0.1 - slope * middle, slope, -0.3 * response), sigma=0.25 * response)


@pytest.mark.slow
@GAUSSIAN_FIRST
@pytest.mark.parametrize("middle", [0.0, 0.7])
def test_columns_that_take_a_ten_thousandth_of_their_bounds_have_a_posterior(middle: float, name: str) -> None:
    moments = narrow(covariate=1e-4, response=1e-4, middle=middle)
    tight = converged(told(moments, name, 1e-3))
    assert tight.draws["z"].mean() == pytest.approx(-0.3e-4, rel=0.5)
    assert tight.draws["sigma"].max() < 0.01
    loose = believed(told(moments, name, 1.0), draws=100)
    assert loose.draws["sigma"].max() < 0.05


@pytest.mark.slow
@BOTH
def test_a_slope_of_thousands_of_half_widths_ends_in_an_honest_answer(name: str) -> None:
    moments = narrow(covariate=1e-4, response=1.0, middle=0.0)
    moments[1, 3] = moments[3, 1] = 2000 * moments[1, 1]  # far beyond the prior
    assert believed(told(moments, name, 1e-3), draws=250).why_not


@pytest.mark.parametrize("bounds", [Bounds(0.0, 1e-9), Bounds(0.0, 1e12), Bounds(1e9, 1e9 + 1)])
def test_units_change_nothing_but_units(bounds: Bounds) -> None:
    columns = (Continuous("x", bounds), Continuous("z", bounds))
    moments = made(rows_of(300))
    other = told(moments, "laplace", 1.0, schema=RegressionSchema(Continuous("y", bounds), columns))
    here, there = sample(told(moments, "laplace", 1.0), PRIOR, seed=1), sample(other, PRIOR, seed=1)
    half = (bounds.high - bounds.low) / 2
    assert np.allclose(there.draws["x"], here.draws["x"], rtol=1e-6, atol=1e-9)
    assert np.allclose(there.draws["sigma"], half * here.draws["sigma"], rtol=1e-6)
    assert there.converged == here.converged


@BOTH
@pytest.mark.parametrize("scale", [1e-4, 5.0])
def test_two_thousand_million_rows_without_noise_to_speak_of_give_the_conjugate_posterior(
    scale: float, name: str
) -> None:
    moments = 1e6 * made(rows_of(2000))
    is_conjugate(converged(told(moments, name, scale)), moments)


@GAUSSIAN_FIRST
@pytest.mark.parametrize("scale", [1e6, 1e12])
def test_two_thousand_million_rows_under_more_noise_than_rows_have_a_posterior(scale: float, name: str) -> None:
    believed(told(1e6 * made(rows_of(2000)), name, scale))


@GAUSSIAN_FIRST
@pytest.mark.parametrize(
    ("counts", "scales"),
    [((500, 400), (1e-3, 1e3)), ((500, 1), (1.0, 1.0)), ((500, 1), (1e3, 1e-3)), ((1,) * 6, (1e-3,) * 6)],
    ids=["exact and drowned", "a single row", "an exact single row", "single rows"],
)
@pytest.mark.slow
def test_pools_of_very_unlike_parts_have_a_posterior(
    counts: tuple[int, ...], scales: tuple[float, ...], name: str
) -> None:
    parts = [
        told(made(rows_of(count, seed=place), seed=place), name, scale, seed=place)
        for place, (count, scale) in enumerate(zip(counts, scales, strict=True))
    ]
    posterior = believed(pooled(parts))
    if scales[0] == 1e-3 and counts[0] == 500:
        alone = sample(parts[0], PRIOR, seed=4, draws=500, sampler="collapsed")
        for name_ in TWO.coefficients:
            assert abs(posterior.draws[name_].mean() - alone.draws[name_].mean()) < 0.2 * alone.draws[name_].std()


@GAUSSIAN_FIRST
@pytest.mark.parametrize("count", [pytest.param(-500.0, marks=pytest.mark.slow), -3.0, 2.0, 4.0, 300.0])
def test_noisy_counts_below_0_or_far_from_the_sums_have_a_posterior(count: float, name: str) -> None:
    whole = told(made(rows_of(30)), name, 6.0)
    noise = mechanism(name, 6.0, len(whole.values) + 1)
    values = (count, *whole.values)
    release = replace(whole, rows=None, values=values, mechanism=noise, neighbours="add-remove")
    rows = believed(release).latent["rows"]
    assert rows.min() > TWO.m + 1


@BOTH
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("rows", "scale"), [(2, 5.0), (100, 1e-6), (1_000_000, 1e6)])
def test_without_covariates_the_mean_and_sigma_have_a_posterior(
    rows: int, scale: float, intercept: bool, name: str
) -> None:
    schema = replace(RegressionSchema(Continuous("y", UNIT), ()), intercept=intercept)
    square, total = 0.07 * rows, 0.1 * rows * intercept
    values = (total, square) if intercept else (square,)
    noise = mechanism(name, scale, len(values))
    release = Release(schema=schema, neighbours="replace-one", rows=rows, mechanism=noise, values=values)
    posterior = believed(release)
    if rows == 100:
        assert posterior.draws["sigma"].mean() == pytest.approx(0.25 if intercept else 0.265, rel=0.05)
