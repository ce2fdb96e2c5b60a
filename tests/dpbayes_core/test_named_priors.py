"""Priors of single coefficients reach the chains: posteriors against direct computation, in the table's units."""

from dataclasses import replace
from math import lgamma

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.prior import Prior, half_width, user_coefficients
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.samplers.driver import sample
from tests.support.regressions import JOB, SEX, encoded, mechanism, moments_of, released

SCHEMA = RegressionSchema(
    Continuous("pay", Bounds(0.0, 20.0)),
    (Continuous("age", Bounds(10.0, 90.0)), SEX, JOB, Continuous("x", Bounds(-1, 1))),
)
NAMED = {
    "(intercept)": {"mean": 6.0, "sd": 0.3},
    "age": {"mean": 0.1, "sd": 0.01},
    "sex[m]": {"mean": 2.0, "sd": 0.2},
    "job[c]": {"mean": -3.0, "sd": 0.4},
}


@pytest.mark.parametrize("sampler", ["collapsed", "naive"])
def test_a_posterior_of_hardly_any_noise_is_the_conjugate_one_of_the_stated_prior(sampler: str) -> None:
    prior = Prior.from_user({"named": NAMED, "noise": {"sd": 2.0, "shape": 3.0}}, SCHEMA)
    generator = np.random.default_rng(8)
    rows = 60
    moments = moments_of(encoded(SCHEMA, rows, generator), [0.1, 0.2, 0.0, 0.1, 0.1, -0.2], 0.25, generator)
    release = released(SCHEMA, moments, mechanism("gaussian", 1e-4, len(SCHEMA.entries)), generator)
    full = prior.response_matrix(SCHEMA) + moments
    theta: Floats = np.asarray(np.linalg.solve(full[:-1, :-1], full[:-1, -1]), dtype=np.float64)
    shape, scale = prior.noise_shape + rows / 2, (full[-1, -1] - full[-1, :-1] @ theta) / 2
    sigma = np.sqrt(scale) * np.exp(lgamma(shape - 0.5) - lgamma(shape))
    user, height = SCHEMA.to_user_units(theta, np.asarray(sigma))
    found = sample(release, prior, draws=2000, seed=9, sampler=sampler)
    plain = sample(release, Prior(), draws=1000, seed=9, sampler="naive").summary()
    for line, expected in zip(found.summary(), [*user, height], strict=True):
        assert abs(line.mean - expected) < 4.5 * line.sd / np.sqrt(line.ess_bulk), line.name
    for line, other in zip(found.summary(), plain, strict=True):
        if line.name in ("(intercept)", "job[c]"):
            assert abs(line.mean - other.mean) > 0.5 * other.sd  # the prior is felt
            assert line.sd < 0.8 * other.sd


def test_conditional_moments_are_those_of_the_stated_priors_conjugate_posterior_as_noise_vanishes() -> None:
    prior = Prior.from_user({"named": NAMED, "noise": {"sd": 2.0, "shape": 3.0}}, SCHEMA)
    generator = np.random.default_rng(8)
    moments = moments_of(encoded(SCHEMA, 60, generator), [0.1, 0.2, 0.0, 0.1, 0.1, -0.2], 0.25, generator)
    release = released(SCHEMA, moments, mechanism("gaussian", 1e-7, len(SCHEMA.entries)), generator)
    full = prior.response_matrix(SCHEMA) + moments
    theta: Floats = np.asarray(np.linalg.solve(full[:-1, :-1], full[:-1, -1]), dtype=np.float64)
    shape, scale = prior.noise_shape + 30, (full[-1, -1] - full[-1, :-1] @ theta) / 2
    to_user = half_width(SCHEMA) * user_coefficients(SCHEMA)
    covariance = to_user.T @ np.linalg.inv(full[:-1, :-1]) @ to_user * scale / (shape - 1)
    user, _ = SCHEMA.to_user_units(theta, np.zeros(()))
    found = sample(release, prior, draws=500, seed=9, sampler="collapsed").moments()
    for place, name in enumerate(SCHEMA.coefficients):
        sd = float(np.sqrt(covariance[place, place]))
        assert found[name].mean == pytest.approx(user[place], abs=1e-6 * sd)
        assert found[name].sd == pytest.approx(sd, rel=1e-6)
        assert found[name].error < 1e-6 * sd


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1.0, 10.0])
def test_conditional_moments_agree_with_the_draws_and_vary_less(noise: float) -> None:
    prior = Prior.from_user({"named": NAMED, "noise": {"sd": 2.0, "shape": 3.0}}, SCHEMA)
    generator = np.random.default_rng(8)
    moments = moments_of(encoded(SCHEMA, 300, generator), [0.1, 0.2, 0.0, 0.1, 0.1, -0.2], 0.25, generator)
    release = released(SCHEMA, moments, mechanism("laplace", noise, len(SCHEMA.entries)), generator)
    posterior = sample(release, prior, draws=1500, seed=9, sampler="collapsed")
    better, plain = posterior.moments(), replace(posterior, expected={}).moments()
    for name in SCHEMA.coefficients:
        apart = better[name].mean - plain[name].mean
        assert abs(apart) < 4.5 * plain[name].error, name
        assert better[name].sd == pytest.approx(plain[name].sd, rel=0.1), name
        assert better[name].error < 1.1 * plain[name].error, name


@pytest.mark.slow
def test_where_the_noise_is_all_the_posterior_is_the_stated_prior() -> None:
    prior = Prior.from_user({"named": NAMED, "noise": {"sd": 2.0, "shape": 8.0}}, SCHEMA)
    generator = np.random.default_rng(3)
    moments = moments_of(encoded(SCHEMA, 200, generator), [0.1, 0.2, 0.0, 0.1, 0.1, -0.2], 0.25, generator)
    release = released(SCHEMA, moments, mechanism("gaussian", 1e7, len(SCHEMA.entries)), generator)
    found = sample(release, prior, draws=500, seed=9, sampler="collapsed")
    for line in found.summary():
        if line.name in NAMED:
            law = NAMED[line.name]
            assert abs(line.mean - law["mean"]) < 4.5 * law["sd"] * 1.1 / np.sqrt(line.ess_bulk), line.name
            assert line.sd == pytest.approx(law["sd"] * np.sqrt(8 / 7), rel=0.1)  # Student's t of 16 degrees
