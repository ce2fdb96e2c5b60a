"""The sandwich's coefficients against dense algebra, at both ends of the noise, and beside the default sampler's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import GaussianMechanism, gaussian_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.regression.sensitivity.residual import residual_sensitivity
from dpbayes_core.samplers.driver import choose, sample
from dpbayes_core.samplers.labels import unit_matrix
from dpbayes_core.samplers.robust.draws import diagonalise
from dpbayes_core.samplers.robust.sampler import redrawn
from dpbayes_core.samplers.robust.sandwich import Sandwich, sandwich_of
from dpbayes_core.sampling.protocol import Block, SamplerUnsuitable
from tests.support.regressions import JOB, SEX, example, example_with_residuals, schema_of

SCHEMA = schema_of("x", SEX, JOB, "w")
KEY = np.array([1.0, 2.0, 3.0, 4.0])
PRIORS = [Prior(), IndependentPrior()]


def sandwich(release: Release, prior: Prior) -> Sandwich:
    assert release.residuals is not None
    return sandwich_of(release, release.residuals, prior)


def noised(scale: float, **more: Any) -> Release:
    return example_with_residuals(SCHEMA, 3000, scale=scale, **more)


def drawn_at(release: Release, prior: Prior, draws: int, sigma: float = 0.25) -> Block:
    """Draws at one latent statistic, the noisy one itself."""
    latent, size = np.tile(release.values, (draws, 1)), SCHEMA.m
    given = Block(
        parameters=np.full((draws, size + 1), sigma),
        latent=latent,
        expected=np.zeros((draws, 2 * size)),
        divergences=0,
        gradients=0,
    )
    return redrawn(sandwich(release, prior), given, KEY, 0)


@pytest.mark.parametrize("prior", PRIORS, ids=["conjugate", "independent"])
def test_coefficients_have_the_mean_and_covariance_of_the_normal_posterior_by_dense_algebra(prior: Prior) -> None:
    release, draws, sigma = noised(0.01, spread=1.0), 40_000, 0.25
    assert release.residuals is not None
    whole, meat = release.matrix(), release.residuals.matrix() * 3000 / (3000 - SCHEMA.m)
    moments, cross = whole[:-1, :-1], whole[:-1, -1]
    matrix = prior.response_matrix(SCHEMA) / float(prior.scaling(np.array([sigma**2]))[0])
    bread = moments @ np.linalg.inv(meat)
    covariance = np.linalg.inv(bread @ moments + matrix[:-1, :-1])
    mean = covariance @ (bread @ cross + matrix[:-1, -1])
    block = drawn_at(release, prior, draws, sigma)
    theta, error = block.parameters[:, :-1], np.sqrt(np.diag(covariance) / draws)
    assert np.all(np.abs(theta.mean(axis=0) - mean) < 5 * error)
    found = np.cov(theta.T)
    scaled = (found - covariance) / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.abs(scaled).max() < 5 * np.sqrt(2 / draws)
    assert np.all(block.parameters[:, -1] == sigma)
    units = unit_matrix(SCHEMA)
    assert block.expected[0, : SCHEMA.m] == pytest.approx(units @ mean, rel=1e-3, abs=1e-4)
    assert block.expected[0, SCHEMA.m :] == pytest.approx(np.diag(units @ covariance @ units.T), rel=2e-3)


@pytest.mark.parametrize("prior", PRIORS, ids=["conjugate", "independent"])
def test_where_noise_hides_the_spread_it_is_taken_to_be_equal_but_for_as_much_again(prior: Prior) -> None:
    release = noised(0.01)
    assert release.residuals is not None
    hidden = replace(release.residuals, mechanism=GaussianMechanism(
        rho=0.5, sensitivity=1e9, weights=(1.0,) * len(release.residuals.values), grid=30
    ))  # fmt: skip
    law = sandwich_of(release, hidden, prior)
    first, second = np.array(hidden.entries).T
    expected = hidden.fit.sigma**2 * release.matrix()[:-1, :-1]
    assert law.middle == pytest.approx(expected[first, second], rel=1e-3, abs=1e-3 * expected[0, 0])
    sds = np.linalg.norm(law.root, axis=1)
    assert sds[0] == pytest.approx(expected[0, 0], rel=1e-3)  # of the sum of all squares, (0, 0)


def test_where_noise_is_small_the_noisy_numbers_are_believed_with_their_noise() -> None:
    release = noised(0.01, spread=1.0)
    assert release.residuals is not None
    law, limit = sandwich(release, Prior()), release.residuals.fit.limit
    assert law.middle == pytest.approx(np.array(release.residuals.values) * limit**2, abs=0.01 * limit**2)
    assert np.linalg.norm(law.root, axis=1) == pytest.approx(release.residuals.scales, rel=0.01)


def test_the_law_of_the_spread_is_what_conditioning_gives() -> None:
    release = noised(8.0, spread=1.0)
    assert release.residuals is not None
    law, found = sandwich(release, Prior()), release.residuals
    exact = sandwich_of(release, replace(found, mechanism=replace(found.mechanism, sensitivity=1e9)), Prior())
    prior, noise = exact.root @ exact.root.T, np.diag(found.scales**2)
    gain = prior @ np.linalg.inv(prior + noise)
    values = np.array(found.values) * found.fit.limit**2
    assert law.middle == pytest.approx(exact.middle + gain @ (values - exact.middle), rel=1e-3, abs=0.05)
    assert law.root @ law.root.T == pytest.approx(prior - gain @ prior, rel=1e-3, abs=1e-3 * prior.max())


def test_eigenvalues_are_those_of_lapack() -> None:
    generator = np.random.default_rng(1)
    for size in (1, 2, 5, 30):
        half = generator.normal(size=(size, size))
        matrix = half + half.T
        values, vectors = matrix.copy(), np.zeros((size, size))
        diagonalise(values, vectors)
        assert np.sort(np.diag(values)) == pytest.approx(np.linalg.eigvalsh(matrix), abs=1e-10)
        assert vectors @ np.diag(np.diag(values)) @ vectors.T == pytest.approx(matrix, abs=1e-10)


def widths(posterior: Any) -> Floats:
    values = np.stack([np.ravel(posterior.draws[name]) for name in SCHEMA.coefficients])
    low, high = np.quantile(values, (0.025, 0.975), axis=1)
    return high - low


def test_under_equal_spread_intervals_are_the_default_samplers_and_else_as_wide_as_the_spread_asks() -> None:
    ratios: dict[float, Floats] = {}
    for spread in (0.0, 1.0):
        release = noised(3.0, spread=spread)
        made = {name: sample(release, Prior(), sampler=name, draws=500, seed=3) for name in ("robust", "collapsed")}
        assert made["robust"].converged
        ratios[spread] = widths(made["robust"]) / widths(made["collapsed"])
    assert ratios[0.0] == pytest.approx(np.ones(SCHEMA.m), abs=0.12)
    assert ratios[1.0][1] > 1.3  # the covariate that the spread grows with


def test_a_release_made_in_two_steps_is_analysed_by_it_unless_told_otherwise_and_no_other_is() -> None:
    release = noised(3.0)
    assert choose(release).sampler.name == "robust"
    assert choose(release, "collapsed").sampler.name == "collapsed"
    assert choose(example(SCHEMA, 3000)).sampler.name == "collapsed"
    both = Pool((release, noised(3.0, seed=2)))
    assert choose(both).sampler.name == "collapsed"
    for other in (both, example(SCHEMA, 3000)):
        with pytest.raises(SamplerUnsuitable, match="it needs one release that was made with robust: true"):
            choose(other, "robust")


@pytest.mark.parametrize(("neighbours", "rows"), [("add-remove", 1), ("replace-one", 3)])
def test_where_the_count_is_noisy_it_is_latent_in_the_sandwich_too(neighbours: str, rows: int) -> None:
    generator, count = np.random.default_rng(5), 4000
    people = (neighbours, rows)
    own, other = regression_sensitivity(SCHEMA, *people), residual_sensitivity(SCHEMA, *people)
    both = replace(gaussian_for(own, grid=30, rho=4.0), beside=gaussian_for(other, grid=30, rho=1.0))
    design = RegressionDesign(
        schema=SCHEMA, mechanism=both, neighbours=neighbours, max_rows_per_unit=rows, besides="residuals"
    )
    table = {name: generator.normal(0.1, 0.3, count) for name in ("x", "w")}
    table |= {"sex": generator.integers(0, 2, count), "job": generator.integers(0, 3, count)}
    table["y"] = 0.2 * table["x"] + 0.1 * np.exp(2 * table["x"]) * generator.normal(size=count)
    exact = design.statistic().sum(design.statistic().encode(table))
    release = design.release(SeededNoise(1, i_know_this_is_not_private=True), exact)
    assert release.rows is None
    assert release.protected
    law = sandwich(release, Prior())
    assert law.rows == 0.0
    latent = np.array([[*release.values, 0.0]])
    moments = latent[0][law.moments]
    assert moments == pytest.approx(release.matrix()[:-1])
    posterior = sample(release, IndependentPrior(), draws=500, seed=3)
    assert posterior.sampler == "robust"
    assert posterior.converged
    plain = sample(release, IndependentPrior(), sampler="collapsed", draws=500, seed=3)
    assert 1.1 < widths(posterior)[1] / widths(plain)[1] < 3


@pytest.mark.parametrize(("rows", "scale"), [(40, 1e-3), (40, 100.0), (3000, 1e4), (10_000, 1e-4)])
def test_whatever_was_released_draws_are_finite(rows: int, scale: float) -> None:
    release, generator = example_with_residuals(SCHEMA, rows, scale=scale), np.random.default_rng(4)
    assert release.residuals is not None
    noise = (scale * generator.normal(size=len(release.residuals.values))).tolist()
    for values in (release.residuals.values, tuple(noise), (0.0,) * len(noise), (-1e6,) * len(noise)):
        odd = replace(release, residuals=replace(release.residuals, values=values))
        posterior = sample(odd, IndependentPrior(), chains=2, draws=20, seed=1)
        assert posterior.sampler == "robust"
        assert all(np.isfinite(drawn).all() for drawn in posterior.draws.values())
        assert all(np.isfinite(mean).all() and (variance > 0).all() for mean, variance in posterior.expected.values())
