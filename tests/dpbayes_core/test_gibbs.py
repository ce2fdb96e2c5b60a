"""The Gibbs samplers' kernels: covariances, solves, variances and repairs, each against what defines it."""

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from scipy.stats import invgauss, kstest, multivariate_normal, wishart

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.papers.gibbs.arrays import Moments, gradients_for, row_for, work_for
from dpbayes_core.samplers.papers.gibbs.laws import declared_moments, moments_of, noisy_moments
from dpbayes_core.samplers.papers.gibbs.moment_chain import MomentChain, Space
from dpbayes_core.samplers.papers.gibbs.moment_chain import draw_start as draw_start_given_moments
from dpbayes_core.samplers.papers.gibbs.moment_chain import write_covariance as write_given_moments
from dpbayes_core.samplers.papers.gibbs.normal_chain import log_exact_over_limit
from dpbayes_core.samplers.papers.gibbs.parameters import draw_variance
from dpbayes_core.samplers.papers.gibbs.repair import diagonalise, repair
from dpbayes_core.samplers.papers.gibbs.samplers import GIBBS_SAMPLERS
from dpbayes_core.samplers.papers.gibbs.statistic import (
    apply_covariance,
    draw_start,
    solve_by_gradients,
    solve_dense,
    write_covariance,
)
from dpbayes_core.samplers.registry import SAMPLERS
from tests.support.regressions import JOB, SEX, encoded, example, example_with_fourth, schema_of

BY_NAME = {sampler.name: sampler for sampler in GIBBS_SAMPLERS}


def normal_setting(d: int, rows: int = 2000) -> Any:
    """A release of d covariates and an arbitrary law of a normal row, with space."""
    problem: Any = BY_NAME["gibbs-ss-update"].prepare(example(schema_of(*(f"x{i}" for i in range(d))), rows), Prior())
    row, random = row_for(problem.noisy, problem.numbers), np.random.default_rng(1)
    base = random.normal(size=(d + 1, d + 1))
    row.root[:] = np.linalg.cholesky(base @ base.T + np.eye(d + 1))
    row.mean[:] = [1.0, *random.normal(size=d + 1)]
    row.second[:] = np.outer(row.mean, row.mean)
    row.second[1:, 1:] += row.root @ row.root.T
    return problem.noisy, row, work_for(problem.noisy, dense=True), gradients_for(problem.noisy)


def symmetric(upper: Floats) -> Floats:
    whole = np.triu(upper[:, :-1])
    return whole + np.triu(whole, 1).T


def test_the_covariance_is_that_of_products_of_normal_rows() -> None:
    noisy, row, work, _ = normal_setting(2, rows=1)
    write_covariance(row, noisy, work)
    random = np.random.default_rng(2)
    rows = np.concatenate([np.ones((400_000, 1)), row.mean[1:] + random.normal(size=(400_000, 3)) @ row.root.T], axis=1)
    products = rows[:, noisy.entries[:, 0]] * rows[:, noisy.entries[:, 1]]
    exact, found = symmetric(work.covariance), np.cov(products.T)
    sd = np.sqrt(np.diag(exact))
    assert np.abs((found - exact) / np.outer(sd, sd)).max() < 0.03  # fourth moments of products have heavy tails


def test_draws_of_the_statistic_have_that_mean_and_covariance() -> None:
    noisy, row, work, _ = normal_setting(2)
    write_covariance(row, noisy, work)
    exact, random = symmetric(work.covariance), np.random.default_rng(3)
    draws = np.empty((40_000, len(exact)))
    for draw in draws:
        draw_start(random, row, noisy, work)
        draw[:] = work.start
    root = np.linalg.cholesky(exact)
    white = np.linalg.solve(root, (draws - 2000 * row.second[tuple(noisy.entries.T)]).T)
    assert np.abs(white.mean(axis=1)).max() < 4.5 / 200
    assert np.abs(np.cov(white) - np.eye(len(exact))).max() < 4.5 * np.sqrt(2) / 200


@pytest.mark.parametrize("d", [1, 5, 14])
def test_applying_the_covariance_is_multiplying_by_it(d: int) -> None:
    noisy, row, work, space = normal_setting(d)
    write_covariance(row, noisy, work)
    vector = np.random.default_rng(4).normal(size=noisy.values.size)
    image = np.empty_like(vector)
    apply_covariance(row, noisy, space, vector, image)
    assert np.allclose(image, symmetric(work.covariance) @ vector, rtol=1e-11, atol=1e-6)


@pytest.mark.parametrize("noise", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("d", [1, 5, 14])
def test_both_solves_give_the_conditional_statistic(d: int, noise: float) -> None:
    noisy, row, work, space = normal_setting(d)
    random = np.random.default_rng(5)
    work.variances[:] = noise * random.exponential(size=noisy.values.size)
    work.residual[:] = np.sqrt(noise) * random.normal(size=noisy.values.size)
    write_covariance(row, noisy, work)
    covariance = symmetric(work.covariance)
    expected = covariance @ np.linalg.solve(covariance + np.diag(work.variances), work.residual)
    found = np.empty_like(expected)
    solve_dense(noisy, work, found)
    scale = np.sqrt(np.minimum(np.diag(covariance), noise))
    assert np.abs((found - expected) / scale).max() < 1e-8
    solve_by_gradients(row, noisy, work, space, found)
    assert np.abs((found - expected) / scale).max() < 1e-5


def test_a_direction_without_variance_does_not_move() -> None:
    noisy, row, work, _ = normal_setting(2)
    write_covariance(row, noisy, work)
    work.covariance[3, :] = 0.0
    work.covariance[:, 3] = 0.0
    work.residual[:], work.variances[:], work.start[:] = 1.0, 0.0, 7.0
    found = np.empty(noisy.values.size)
    solve_dense(noisy, work, found)
    assert np.isfinite(found).all()
    assert np.allclose(np.delete(found, 3), 8.0)


def test_the_ratio_of_the_exact_law_to_its_limit_is_that_of_their_densities() -> None:
    noisy, row, work, _ = normal_setting(1, rows=40)
    write_covariance(row, noisy, work)
    centre, covariance = 40 * row.second[tuple(noisy.entries.T)], symmetric(work.covariance)
    random, mean = np.random.default_rng(6), row.mean[1:]
    scale, found, expected = row.root @ row.root.T, [], []
    for _ in range(20):
        rows = mean + random.normal(size=(40, 2)) @ row.root.T
        average, sums = rows.mean(axis=0), rows.T @ rows
        scatter = sums - 40 * np.outer(average, average)
        statistic = np.array([*(40 * average), sums[0, 0], sums[0, 1], sums[1, 1]])
        exact = multivariate_normal(mean, scale / 40).logpdf(average) + wishart(39, scale).logpdf(scatter)
        expected.append(exact - multivariate_normal(centre, covariance).logpdf(statistic))
        found.append(log_exact_over_limit(statistic, row, noisy, work))
    assert np.ptp(np.array(found) - expected) < 1e-8


def test_a_statistic_that_no_data_could_have_is_refused() -> None:
    noisy, row, work, _ = normal_setting(1, rows=40)
    statistic = 40 * row.second[tuple(noisy.entries.T)]
    assert np.isfinite(log_exact_over_limit(statistic, row, noisy, work))
    statistic[2] = statistic[0] ** 2 / 40 - 1e-3  # sum x^2 below n times the squared mean
    assert log_exact_over_limit(statistic, row, noisy, work) == -np.inf


@pytest.mark.parametrize("size", [1e-12, 0.3, 3.0, 500.0])
def test_variances_of_laplace_noise_have_their_conditional_law(size: float) -> None:
    random, scale = np.random.default_rng(7), 2.0
    draws = np.array([draw_variance(random, size, scale) for _ in range(20_000)])
    assert (draws > 0).all()
    mean, shape = 1 / (scale * size), 1 / scale**2
    if size < 1e-6:  # 1 / variance is then the reciprocal of scale^2 times a chi square
        assert kstest(draws / scale**2, "chi2", (1,)).pvalue > 0.001
    else:
        assert kstest(1 / draws, invgauss(mean / shape, scale=shape).cdf).pvalue > 0.001


def test_variances_leave_the_mixture_of_laplace_noise_invariant() -> None:
    random, scale = np.random.default_rng(8), 2.0
    noise = random.laplace(scale=scale, size=20_000)
    variances = np.array([draw_variance(random, abs(value), scale) for value in noise])
    assert kstest(variances, "expon", (0, 2 * scale**2)).pvalue > 0.001
    wrong = np.array([draw_variance(random, abs(value), 1.1 * scale) for value in noise])
    assert kstest(wrong, "expon", (0, 2 * scale**2)).pvalue < 0.001, "the check can fail"


def test_nothing_is_drawn_as_zero_where_noise_is_exactly_zero() -> None:
    random = np.random.default_rng(9)
    assert all(draw_variance(random, 0.0, 1e8) > 0 for _ in range(1000))


def test_rotations_find_eigenvalues_and_vectors() -> None:
    base = np.random.default_rng(10).normal(size=(30, 30))
    matrix = base + base.T
    values, vectors = matrix.copy(), np.zeros_like(matrix)
    diagonalise(values, vectors)
    assert np.allclose(np.sort(np.diag(values)), np.linalg.eigvalsh(matrix), atol=1e-9)
    assert np.allclose(vectors.T @ np.diag(np.diag(values)) @ vectors, matrix, atol=1e-9)


def test_repair_moves_the_centred_scatter_alone_and_only_where_it_must() -> None:
    moments = example(schema_of("x", "z"), 30, scale=40.0, seed=3).matrix()
    scatter, vectors, factor = np.zeros((3, 3, 3))
    before = moments.copy()
    repair(moments, scatter, vectors, factor, 0.0)
    assert np.array_equal(moments[0], before[0]), "neither count nor mean"
    values = np.linalg.eigvalsh((before - np.outer(before[0], before[0]) / 30)[1:, 1:])
    assert values[0] < 0
    assert np.allclose(np.linalg.eigvalsh(scatter), np.maximum(values, 0), atol=1e-9)
    sound = example(schema_of("x", "z"), 3000, scale=0.1).matrix()
    kept = sound.copy()
    repair(sound, scatter, vectors, factor, 0.0)
    assert np.array_equal(sound, kept)


def given(law: Moments, schema: RegressionSchema, theta: Floats, sigma: float) -> MomentChain:
    problem: Any = BY_NAME["gibbs-ss-prior"].prepare(example(schema, 1), Prior())
    work, pairs, places = work_for(problem.noisy, dense=True), len(law.mean), len(law.second)
    work.draw[:] = [*theta, sigma]
    space = Space(
        *(np.zeros(size) for size in (pairs, pairs, places, (places + 1, pairs), (places + 1, places + 1), places + 1))
    )
    return MomentChain(problem.noisy, law, work, space, problem.noisy.values.copy())


def test_with_the_moments_of_any_rows_the_covariance_is_theirs() -> None:
    schema, random, sigma = schema_of("x", SEX, JOB), np.random.default_rng(11), 0.4
    covariates, theta = encoded(schema, 60, random), random.normal(size=5)
    law = moments_of(schema, lambda places: float(np.mean(np.prod(covariates[:, list(places)], axis=1))))
    chain = given(law, schema, theta, sigma)
    write_given_moments(chain)
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)  # exact for y^4
    weights = np.tile(weights / weights.sum(), len(covariates)) / len(covariates)
    repeated = np.repeat(covariates, len(nodes), axis=0)
    rows = np.column_stack([repeated, repeated @ theta + sigma * np.tile(nodes, len(covariates))])
    products = rows[:, chain.noisy.entries[:, 0]] * rows[:, chain.noisy.entries[:, 1]]
    centred = products - weights @ products
    assert np.allclose(symmetric(chain.work.covariance), (centred * weights[:, None]).T @ centred, atol=1e-10)


def test_draws_given_moments_have_that_covariance() -> None:
    schema, random = schema_of("x", SEX), np.random.default_rng(12)
    covariates = encoded(schema, 60, random)
    law = moments_of(schema, lambda places: float(np.mean(np.prod(covariates[:, list(places)], axis=1))))
    chain = given(law, schema, random.normal(size=3), 0.4)
    chain.noisy.numbers[0] = 400.0
    write_given_moments(chain)
    draws = np.empty((40_000, chain.noisy.values.size))
    for draw in draws:
        draw_start_given_moments(random, chain)
        draw[:] = chain.work.start
    white = np.linalg.solve(np.linalg.cholesky(symmetric(chain.work.covariance)), (draws - draws.mean(axis=0)).T)
    assert np.abs(np.cov(white) - np.eye(len(white))).max() < 4.5 * np.sqrt(2) / 200


def test_the_declared_law_has_the_moments_of_rows_drawn_from_the_prior() -> None:
    random, prior, many = np.random.default_rng(13), Prior(), 1_000_000
    law = declared_moments(schema_of("x", "z"), prior)
    spread = np.sqrt(prior.variance * random.standard_exponential((many, 2)))
    correlation = random.uniform(-1, 1, many)  # LKJ with shape 1 in two dimensions
    noise = random.normal(size=(many, 2))
    noise[:, 1] = correlation * noise[:, 0] + np.sqrt(1 - correlation**2) * noise[:, 1]
    rows = np.column_stack([np.ones(many), random.normal(0, prior.mean_sd, (many, 2)) + spread * noise])
    products = np.stack([rows[:, i] * rows[:, j] for i, j in combinations_with_replacement(range(3), 2)], axis=1)
    assert np.allclose(products.mean(axis=0), law.mean, atol=0.005)
    assert np.allclose(np.cov(products.T), law.covariance, atol=0.03)


def test_levels_are_declared_alike_and_their_known_products_kept() -> None:
    law = declared_moments(schema_of("x", SEX, JOB), Prior())
    assert np.allclose(law.second[2], [0, 0, 1, 0, 0], atol=1e-12)
    assert np.allclose(law.second[3], [1 / 3, 0, 0, 1 / 3, 0], atol=1e-12)
    square = law.pair[2, 2]
    assert np.abs(law.covariance[square]).max() < 1e-12
    assert np.allclose(law.covariance[law.pair[3, 3]], law.covariance[law.pair[0, 3]], atol=1e-12)


def test_noisy_moments_are_made_those_of_a_law() -> None:
    schema, random = schema_of("x", "z"), np.random.default_rng(14)
    second = np.array([[1.0, 0.2, 0.1], [0.2, 0.3, 0.5], [0.1, 0.5, 0.2]])  # no rows have these
    places = [(0, *p) for p in combinations_with_replacement((1, 2), 3)] + [*combinations_with_replacement((1, 2), 4)]
    law = noisy_moments(schema, second, {p: float(random.normal(0, 0.3)) for p in places})
    assert np.linalg.eigvalsh(law.covariance)[0] > -1e-12
    assert np.allclose(law.across.T @ law.across, law.covariance, atol=1e-12)
    assert np.linalg.eigvalsh(law.second)[0] > -1e-12
    assert np.allclose(law.second_root @ law.second_root.T, law.second, atol=1e-12)
    assert np.allclose(law.second[0], second[0])


@pytest.mark.parametrize("name", BY_NAME)
def test_what_they_cannot_take_is_refused_in_one_sentence(name: str) -> None:
    sampler, one = BY_NAME[name], example_with_fourth(schema_of("x"), 300)
    assert sampler.refusal(one) is None
    assert sampler.refusal(Pool((one, example(schema_of("x"), 300, seed=2)))) == "it takes one release at a time"
    assert "more than 2 rows" in str(sampler.refusal(example(schema_of("x"), 2)))
    factors = sampler.refusal(example_with_fourth(schema_of("x", JOB), 300))
    assert (factors is None) == (name in ("gibbs-ss-prior", "gibbs-ss-noisy"))
    plain = sampler.refusal(example(schema_of("x"), 300))
    assert (plain is not None) == (name == "gibbs-ss-noisy")
    assert SAMPLERS[name].calibrated == (name == "gibbs-ss-exact")
    assert "hardly move" in sampler.caveat


def test_a_known_square_stays_known() -> None:
    release = example(schema_of("x", SEX), 500, name="laplace", scale=3.0)
    sampler = BY_NAME["gibbs-ss-update"]
    problem = sampler.prepare(release, Prior())
    state, made = sampler.run_block(problem, sampler.start(problem, 1, 0), 600)
    assert state.numbers[-1] == 500.0
    assert len(state.numbers) == len(release.schema.entries) + 1
    assert made.latent.shape == (100, len(release.schema.entries))


def test_above_the_dense_sizes_the_chain_goes_on_by_gradients_to_the_same_law() -> None:
    from dataclasses import replace

    release, sampler = example(schema_of("x", "z"), 2000, scale=5.0), BY_NAME["gibbs-ss-update"]
    problem: Any = sampler.prepare(release, Prior())
    assert problem.numbers[4] == 1.0
    free = replace(problem, numbers=np.array([*problem.numbers[:4], 0.0]))
    (_, dense), (_, gradients) = (sampler.run_block(p, sampler.start(p, 1, 0), 540) for p in (problem, free))
    assert np.allclose(dense.parameters, gradients.parameters, rtol=1e-4), "the same draws but for the solve's error"
    wide = sampler.prepare(example(schema_of(*(f"x{i}" for i in range(15))), 2000), Prior())
    assert wide.numbers[4] == 0.0
