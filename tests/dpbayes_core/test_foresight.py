"""Predictions before any row is read: exact in both limits, monotone between them, and near real posteriors (slow)."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaincinv

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.planning.expected_moments import EXPLAINED, Expectation, Expected
from dpbayes_core.regression.planning.precision import Prediction, _half_range_of_root, impossible, precision_of
from dpbayes_core.regression.planning.relations import Relations
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity, released_entries
from tests.support.regressions import JOB, REGION, SEX, UNIT, schema_of

PAY = Continuous("y", Bounds(0, 100))
SCHEMAS: Mapping[str, RegressionSchema] = {
    "one": RegressionSchema(PAY, (Continuous("a", Bounds(0, 10)),)),
    "two": RegressionSchema(PAY, (Continuous("a", Bounds(0, 10)), Continuous("b", Bounds(-3, 3)))),
    "levels": RegressionSchema(PAY, (Continuous("a", Bounds(0, 10)), SEX, REGION, JOB)),
    "no intercept": RegressionSchema(PAY, (Continuous("a", Bounds(0, 10)), Continuous("b", Bounds(-3, 3))), False),
}
GUESSES = {"y": Expected(45, 14), "a": Expected(6, 1.5), "b": Expected(0.5, 1)}
PRIOR = Prior(noise_shape=3.0, noise_scale=0.1)  # under which a coefficient has a standard deviation


def laplace(schema: RegressionSchema, epsilon: float, *relation: object) -> Mechanism:
    moved = regression_sensitivity(schema, *relation)
    return laplace_for(moved, epsilon=epsilon, grid=20, entries=len(moved.weights))


def gaussian(schema: RegressionSchema, epsilon: float) -> Mechanism:
    return gaussian_for(regression_sensitivity(schema), grid=20, epsilon=epsilon, delta=1e-6)


def expectation(schema: RegressionSchema, mechanism: Mechanism, rows: int = 5000, holders: int = 1) -> Expectation:
    return Expectation.of(schema, mechanism, rows=rows, expected=GUESSES, places=schema.entries, holders=holders)


def predicted(*args: object, prior: Prior = PRIOR, **more: object) -> Floats:
    return sds(precision_of(expectation(*args, **more), prior))


def sds(found: tuple[Prediction, ...]) -> Floats:
    return np.array([one.sd for one in found])


def in_user_units(schema: RegressionSchema, covariance: Floats, seed: int = 1) -> Floats:
    draws = np.random.default_rng(seed).multivariate_normal(np.zeros(len(covariance)), covariance, 40_000)
    return schema.to_user_units(draws, np.ones(len(draws)))[0].std(axis=0)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_without_noise_the_conjugate_posterior_comes_out(name: str) -> None:
    schema, rows = SCHEMAS[name], 3000
    known = expectation(schema, laplace(schema, 1e5), rows)
    variance = (1 - EXPLAINED) * known.variance
    moments = known.covariance
    if schema.intercept:
        mean = np.array([1, *known.means])
        moments = np.outer(mean, mean)
        moments[1:, 1:] += known.covariance
    precision = PRIOR.response_matrix(schema)[:-1, :-1] + rows * moments
    found, height = predicted(schema, laplace(schema, 1e5), rows), schema.standardised(PAY).width / 2
    due = in_user_units(schema, variance * np.linalg.inv(precision))
    assert found[:-1] == pytest.approx(due, rel=0.03)
    assert found[-1] == pytest.approx(height * np.sqrt(variance / 2 / rows), rel=0.03)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_where_noise_drowns_everything_the_prior_comes_out(name: str) -> None:
    schema = SCHEMAS[name]
    variance = PRIOR.noise_scale / (PRIOR.noise_shape - 1)
    widths = np.array([*[PRIOR.intercept_sd] * schema.intercept, *[PRIOR.coefficient_sd] * schema.d])
    found = predicted(schema, laplace(schema, 1e-6))
    assert found[:-1] == pytest.approx(in_user_units(schema, variance * np.diag(widths**2)), rel=0.06)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
@pytest.mark.parametrize("shape", [1.0, 3.0])
def test_where_noise_drowns_everything_intervals_are_the_priors_own(name: str, shape: float) -> None:
    schema, prior = SCHEMAS[name], Prior(noise_shape=shape)
    found = precision_of(expectation(schema, laplace(schema, 1e-7)), prior)
    before = prior.draws(schema, 400_000, np.random.default_rng(6))
    for one in found:
        low, high = np.quantile(before[one.coefficient], (0.025, 0.975))
        assert one.half_width == pytest.approx((high - low) / 2, rel=0.05), one.coefficient


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_intervals_of_what_the_release_tells_are_those_of_normal_laws(name: str) -> None:
    for one in precision_of(expectation(SCHEMAS[name], laplace(SCHEMAS[name], 10.0)), Prior()):
        assert one.half_width == pytest.approx(1.96 * one.sd, rel=0.02)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_without_noise_the_posterior_of_an_independent_prior_comes_out(name: str) -> None:
    schema, rows, prior = SCHEMAS[name], 40, IndependentPrior(coefficient_sd=0.3)
    known = expectation(schema, laplace(schema, 1e6), rows)
    variance, moments = (1 - EXPLAINED) * known.variance, known.covariance
    if schema.intercept:
        mean = np.array([1, *known.means])
        moments = np.outer(mean, mean)
        moments[1:, 1:] += known.covariance
    precision = prior.response_matrix(schema)[:-1, :-1] + rows * moments / variance
    found = predicted(schema, laplace(schema, 1e6), rows, prior=prior)
    assert found[:-1] == pytest.approx(in_user_units(schema, np.linalg.inv(precision)), rel=0.15)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_where_noise_drowns_everything_intervals_are_an_independent_priors_own(name: str) -> None:
    schema, prior = SCHEMAS[name], IndependentPrior()
    found = precision_of(expectation(schema, laplace(schema, 1e-7)), prior)
    before = prior.draws(schema, 400_000, np.random.default_rng(6))
    for one in found:
        low, high = np.quantile(before[one.coefficient], (0.025, 0.975))
        near = 0.1 if one.coefficient == "(intercept)" else 0.05  # the level's prior is taken at the columns' means
        assert one.half_width == pytest.approx((high - low) / 2, rel=near), one.coefficient
        assert one.sd == pytest.approx(before[one.coefficient].std(), rel=near), one.coefficient


def test_an_independent_prior_of_the_intercept_is_of_the_sd_that_it_states() -> None:
    schema = SCHEMAS["two"]
    prior = IndependentPrior.from_user({"named": {"(intercept)": {"mean": 20.0, "sd": 0.5}}}, schema)
    found = precision_of(expectation(schema, laplace(schema, 1e-7)), prior)[0]
    assert (found.coefficient, found.sd) == ("(intercept)", pytest.approx(0.5, rel=0.02))


def test_the_density_of_sigma_is_that_of_its_draws() -> None:
    for prior in (PRIOR, IndependentPrior()):
        grid = np.linspace(-16, 6, 20_001)
        weights = np.exp(prior.log_noise(grid))
        sigma = prior.noise_draws(400_000, np.random.default_rng(3))
        assert (weights @ np.exp(grid / 2)) / weights.sum() == pytest.approx(sigma.mean(), rel=0.01)
        assert (weights @ grid) / weights.sum() == pytest.approx(2 * np.log(sigma).mean(), abs=0.02)


def test_a_prior_of_one_coefficient_is_heeded() -> None:
    schema = SCHEMAS["two"]
    named = replace(PRIOR, named=(("b", 0.0, 1e-6),))
    plain, told = (predicted(schema, laplace(schema, 0.3), prior=prior) for prior in (PRIOR, named))
    assert told[2] < 1e-4 * plain[2]
    assert told[1] == pytest.approx(plain[1], rel=0.25)


def test_the_mean_of_a_named_prior_is_a_coefficient_whatever_sigma_is() -> None:
    schema = SCHEMAS["two"]
    prior = Prior.from_user({"named": {"b": {"mean": 8.0, "sd": 1.0}}}, schema)
    found = {one.coefficient: one for one in precision_of(expectation(schema, laplace(schema, 1e-7)), prior)}
    low, high = np.quantile(prior.draws(schema, 400_000, np.random.default_rng(6))["b"], (0.025, 0.975))
    assert found["b"].half_width == pytest.approx((high - low) / 2, rel=0.05)


def test_everything_is_rough_where_the_prior_expects_slopes_that_cannot_be() -> None:
    schema = SCHEMAS["two"]
    known = expectation(schema, laplace(schema, 10.0))
    for mean, sd, contradicting in ((40.0, 1.0, ("b",)), (-40.0, 1.0, ("b",)), (40.0, 20.0, ()), (5.0, 1.0, ())):
        prior = Prior.from_user({"named": {"b": {"mean": mean, "sd": sd}}}, schema)  # y is expected to have an sd of 14
        assert impossible(known, prior) == contradicting
        assert {one.rough for one in precision_of(known, prior)} == {bool(contradicting)}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
@pytest.mark.parametrize("noise", [laplace, gaussian])
def test_less_noise_and_more_rows_never_widen_anything_but_by_a_little(name: str, noise: object) -> None:
    schema = SCHEMAS[name]
    by_epsilon = [predicted(schema, noise(schema, epsilon)) for epsilon in (0.01, 0.03, 0.1, 0.3, 1, 3, 10)]
    by_rows = [predicted(schema, noise(schema, 0.5), rows) for rows in (100, 1000, 10**4, 10**5, 10**8)]
    for found in (by_epsilon, by_rows):
        assert np.all(np.diff(np.log(np.stack(found)), axis=0) < 0.2)
        assert np.all(found[-1] < 0.1 * found[0])


def test_holders_add_their_noise() -> None:
    schema = SCHEMAS["levels"]
    four = predicted(schema, laplace(schema, 2.0), 10**6, holders=4)
    assert four == pytest.approx(predicted(schema, laplace(schema, 1.0), 10**6), rel=0.02)


def test_a_noisy_count_and_people_of_several_rows_cost_precision() -> None:
    schema = SCHEMAS["levels"]
    found = [predicted(schema, laplace(schema, 1.0))]
    for relation in (("add-remove", 1), ("add-remove", 3)):
        noise, places = laplace(schema, 1.0, *relation), released_entries(schema, *relation)
        known = Expectation.of(schema, noise, rows=5000, expected=GUESSES, places=places)
        found.append(sds(precision_of(known, PRIOR)))
    assert np.all(found[2] > 1.5 * found[1])
    assert np.all(found[1] > 0)


def test_every_form_is_the_noise_that_simulation_finds() -> None:
    schema, random = schema_of("a", SEX, REGION), np.random.default_rng(3)
    for places in (schema.entries, schema.entries_with_count):
        noise = laplace_for(regression_sensitivity(schema), epsilon=1.0, grid=20, entries=len(places))
        known = Expectation.of(schema, noise, rows=1, expected={}, places=places)
        draws = noise.scales * random.laplace(size=(4000, len(places)))
        counts = draws[:, 0] if len(places) > len(schema.entries) else np.zeros(4000)
        free = draws[:, len(places) - len(schema.entries) :]
        added = np.stack([schema.complete(one, count) for one, count in zip(free, counts, strict=True)])
        for _ in range(5):
            first, second = random.normal(size=(2, schema.m + 1))
            seen = np.einsum("i,tij,j->t", first, added, second)
            assert known.noise_of(first, second) == pytest.approx(seen.var(), rel=0.15)


def test_shares_beyond_the_bounds_are_those_of_a_normal_law() -> None:
    drawn = np.random.default_rng(4).normal(1.0, 0.5, 200_000)
    outside = float(((drawn < 0) | (drawn > 2.2)).mean())
    assert Expected(1.0, 0.5).clipped(Bounds(0, 2.2)) == pytest.approx(outside, abs=5 * np.sqrt(outside / 200_000))
    assert Expected(0.0, 0.01).clipped(Bounds(-1, 1)) < 1e-12


def test_a_fifty_column_regression_is_foreseen_in_a_moment() -> None:
    schema = RegressionSchema(Continuous("y", UNIT), tuple(Continuous(f"x{k}", UNIT) for k in range(50)))
    found = precision_of(expectation(schema, gaussian(schema, 1.0), 10**6), PRIOR)
    assert len(found) == 52
    assert len({round(one.sd, 12) for one in found[1:-1]}) == 1  # alike in everything that is known of them


def test_a_prior_of_the_intercept_is_heeded() -> None:
    schema = SCHEMAS["two"]
    stated = Prior.from_user({"named": {"(intercept)": {"mean": 20.0, "sd": 0.5}}}, schema)
    plain, named = (predicted(schema, laplace(schema, 0.5), prior=prior) for prior in (Prior(), stated))
    assert named[0] < 0.5 < 0.5 * plain[0]
    drowned = {one.coefficient: one for one in precision_of(expectation(schema, laplace(schema, 1e-7)), stated)}
    low, high = np.quantile(stated.draws(schema, 400_000, np.random.default_rng(6))["(intercept)"], (0.025, 0.975))
    assert drowned["(intercept)"].half_width == pytest.approx((high - low) / 2, rel=0.05)


@pytest.mark.parametrize("correlation", [0.85, -0.6])
def test_without_noise_stated_correlations_give_the_conjugate_posterior(correlation: float) -> None:
    schema, rows = SCHEMAS["two"], 3000
    known = Expectation.of(
        schema,
        laplace(schema, 1e5),
        rows=rows,
        expected=GUESSES,
        places=schema.entries,
        relations=Relations({frozenset("ab"): correlation}),
    )
    mean = np.array([1, *known.means])
    moments = np.outer(mean, mean)
    moments[1:, 1:] += known.covariance
    covariance = (
        (1 - EXPLAINED) * known.variance * np.linalg.inv(PRIOR.response_matrix(schema)[:-1, :-1] + rows * moments)
    )
    found = sds(precision_of(replace(known, noise=np.zeros_like(known.noise)), PRIOR))
    assert found[:-1] == pytest.approx(in_user_units(schema, covariance), rel=0.03)


@pytest.mark.parametrize("shape", [0.6, 1.0, 3.0])
def test_the_quantiles_of_sigma_are_those_of_its_law_however_few_nodes_there_are(shape: float) -> None:
    grid = np.log(0.1 / shape) + np.linspace(-6, 14, 32)[None, :]
    log = -shape * grid - 0.1 * np.exp(-grid)
    half = _half_range_of_root(np.exp(log - log.max()), grid)
    low, high = np.sqrt(0.1 / gammaincinv(shape, (0.975, 0.025)))
    assert half == pytest.approx((high - low) / 2, rel=0.02)
