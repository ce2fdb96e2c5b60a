"""Priors: what a study may say, and what it means."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.regression.prior import LEAST, MOST, Prior, user_coefficients
from dpbayes_core.regression.prior_conflict import prior_conflict
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.samplers.driver import sample
from tests.support.regressions import REGION, SEX, UNIT, example, schema_of

SCHEMA = RegressionSchema(
    Continuous("pay", Bounds(0.0, 10.0)),
    (Continuous("age", Bounds(16.0, 80.0)), SEX, REGION, Continuous("year", Bounds(2000.0, 2020.0))),
)


def test_a_study_changes_only_what_it_names() -> None:
    prior = Prior.from_user({"coefficients": {"sd": 1.0}, "noise": {"scale": 2}}, SCHEMA)
    assert prior == Prior(coefficient_sd=1.0, noise_scale=2.0)
    assert Prior.from_user({}, SCHEMA) == Prior()
    assert Prior.from_user({"intercept": {"sd": 3}, "noise": {"shape": 1}}, SCHEMA).intercept_sd == 3.0


@pytest.mark.parametrize("choices", [{"slope": {"sd": 1.0}}, {"noise": {"mean": 1.0}}, {"intercept": {"mean": 0.0}}])
def test_a_part_that_does_not_exist_is_refused_by_name(choices: dict[str, dict[str, float]]) -> None:
    part, values = next(iter(choices.items()))
    with pytest.raises(StudyInvalid, match=f"{part}.{next(iter(values))} is not part of it. Choose from intercept.sd"):
        Prior.from_user(choices, SCHEMA)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"named": {"wage": {"sd": 1.0}}}, "wage is no coefficient of the regression"),
        ({"named": {"age": {"mean": 1.0}}}, "age needs an sd"),
        ({"named": {"age": {"sd": 1.0, "scale": 1.0}}}, "named.age.scale is not part of it"),
        ({"named": {"age": {"sd": 0.0}}}, "age needs a number as its mean and a positive sd"),
        ({"named": {"age": {"sd": 1e-300}}}, "age needs a mean of at most 1e.06 and an sd from 1e-06"),
        ({"coefficients": {"sd": 1e150}}, "coefficient_sd must be from 1e-06 to 1e.06"),
        ({"noise": {"sd": 1.0, "scale": 1.0}}, "noise.sd and noise.scale state one thing"),
        ({"noise": {"sd": 0.0}}, "noise_scale must be a positive number"),
    ],
)
def test_a_law_in_the_tables_units_that_cannot_be_is_refused(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyInvalid, match=words):
        Prior.from_user(choices, SCHEMA)


LAWS = {
    "(intercept)": {"mean": 3.0, "sd": 1.5},
    "age": {"mean": 0.05, "sd": 0.02},
    "sex[m]": {"mean": -0.4, "sd": 0.3},
    "region[e]": {"sd": 0.25},
}


def test_draws_of_a_prior_have_the_stated_moments_in_the_tables_units() -> None:
    prior = Prior.from_user({"named": LAWS, "noise": {"sd": 1.2, "shape": 3.0}, "coefficients": {"sd": 2.0}}, SCHEMA)
    assert 5 * prior.reference == pytest.approx(1.2)
    matrix = prior.response_matrix(SCHEMA)
    mean = np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1])
    spread = np.linalg.cholesky(np.linalg.inv(matrix[:-1, :-1]))
    generator = np.random.default_rng(1)
    theta = mean + prior.reference * generator.standard_normal((200_000, 7)) @ spread.T
    user, sigma = SCHEMA.to_user_units(theta, np.full(len(theta), prior.reference))
    assert np.allclose(sigma, 1.2)
    for place, name in enumerate(SCHEMA.coefficients):
        bounds = {"year": (0.0, 2.0 * 1.2 * 2 / 20), "region[s]": (0.0, 2.4), "region[w]": (0.0, 2.4)}
        told = LAWS.get(name, {})
        at, sd = bounds.get(name, (told.get("mean", 0.0), told.get("sd", 0.0)))
        assert abs(user[:, place].mean() - at) < 4.5 * sd / np.sqrt(len(user)), name
        assert user[:, place].std() == pytest.approx(sd, rel=4.5 / np.sqrt(2 * len(user))), name
    assert np.abs(np.corrcoef(user.T) - np.eye(7)).max() < 5 / np.sqrt(len(user))


def test_the_stated_law_is_exact_and_does_not_hang_on_the_bounds() -> None:
    wider = replace(SCHEMA, covariates=(Continuous("age", Bounds(-500.0, 80.0)), *SCHEMA.covariates[1:]))
    for schema in (SCHEMA, wider):
        prior = Prior.from_user({"named": LAWS, "noise": {"sd": 1.2}}, schema)
        matrix = prior.response_matrix(schema)
        mean, covariance = np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1]), np.linalg.inv(matrix[:-1, :-1])
        at, _ = schema.to_user_units(np.asarray(mean, dtype=np.float64), np.zeros(()))
        to_user = 5 * user_coefficients(schema)
        sds = np.sqrt(np.diag(to_user.T @ covariance @ to_user)) * prior.reference
        for name, law in LAWS.items():
            place = schema.coefficients.index(name)
            assert at[place] == pytest.approx(law.get("mean", 0.0), abs=1e-12)
            assert sds[place] == pytest.approx(law["sd"])


def test_a_stated_law_is_given_back_in_the_tables_units() -> None:
    prior = Prior.from_user({"named": LAWS, "noise": {"sd": 1.2}}, SCHEMA)
    found = prior.in_units(SCHEMA)
    assert list(found) == list(LAWS)
    for name, law in LAWS.items():
        assert found[name] == pytest.approx((law.get("mean", 0.0), law["sd"]))


def test_without_intercept_a_prior_is_of_the_slopes_alone_in_the_tables_units() -> None:
    schema = RegressionSchema(
        Continuous("pay", Bounds(0.0, 10.0)), (Continuous("age", Bounds(16.0, 80.0)), Continuous("x", UNIT)), False
    )
    prior = Prior.from_user({"named": {"age": {"mean": 0.05, "sd": 0.02}}, "noise": {"sd": 1.2}}, schema)
    assert prior.in_units(schema)["age"] == pytest.approx((0.05, 0.02))
    assert 10 * prior.reference == pytest.approx(1.2)  # columns are scaled by their largest magnitude
    found = prior.response_matrix(schema)
    assert found.shape == (3, 3)
    theta: Floats = np.asarray(np.linalg.solve(found[:-1, :-1], found[:-1, -1]), dtype=np.float64)
    assert np.allclose(schema.to_user_units(theta, np.zeros(()))[0], [0.05, 0.0])
    with pytest.raises(StudyInvalid, match="is no coefficient"):
        Prior.from_user({"named": {"(intercept)": {"sd": 1.0}}}, schema)


def test_a_named_law_without_an_sd_of_the_noise_takes_the_default_residual_sd() -> None:
    prior = Prior.from_user({"named": {"age": {"sd": 0.02}}}, SCHEMA)
    assert prior.noise_scale == Prior().noise_scale
    ((name, mean, sd),) = prior.named
    assert (name, mean) == ("age", 0.0)
    assert sd * prior.reference * 5 / 32 == pytest.approx(0.02)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_only_positive_numbers_are_a_prior(value: float) -> None:
    with pytest.raises(StudyInvalid, match="noise_scale must be a positive number"):
        Prior(noise_scale=value)


@pytest.mark.parametrize("sd", [LEAST, MOST])
def test_the_smallest_and_the_largest_prior_give_finite_draws(sd: float) -> None:
    release = example(schema_of("x"), 200, scale=1.0)
    for prior in (Prior(coefficient_sd=sd), Prior(named=(("x", 1.0, sd),)), Prior(noise_scale=sd**2)):
        posterior = sample(release, prior, sampler="collapsed", chains=2, draws=50, seed=1)
        assert all(np.isfinite(values).all() for values in posterior.draws.values())
        assert np.isfinite(prior_conflict(prior, release.schema, posterior.draws).probability)


def test_an_archived_prior_beyond_the_limits_is_still_read() -> None:
    record = {**Prior().to_record(), "coefficient_sd": 1e-8}
    assert Prior.from_record(record).coefficient_sd == 1e-8


def test_a_prior_travels_as_its_record() -> None:
    prior = Prior(intercept_sd=3.0, correlation=2.0, named=(("x", 0.5, 0.1), ("(intercept)", -1, 2)))
    record = prior.to_record()
    assert Prior.from_record(json.loads(canonical_json(record))) == prior
    assert canonical_json(record) == canonical_json(Prior.from_record(record).to_record())


def test_a_record_from_before_the_covariates_had_laws_of_their_own_is_read() -> None:
    old = {"coefficient_sd": 2.5, "intercept_sd": 3.0, "noise_scale": 0.1, "noise_shape": 2.0}
    law = {"extra_degrees": 2.0, "mean_weight": 0.01, "scatter": 0.01}
    assert Prior.from_record(old | law) == Prior(intercept_sd=3.0, coefficient_sd=2.5, noise_scale=0.1, noise_shape=2.0)
    with pytest.raises(TypeError, match="slope_sd"):
        Prior.from_record({"slope_sd": 1.0})


def test_prior_matrices_hold_precisions_and_twice_the_noise_scale() -> None:
    prior, schema = Prior(intercept_sd=2.0, coefficient_sd=0.5, noise_scale=0.3), schema_of("x", SEX)
    found = prior.response_matrix(schema)
    assert np.array_equal(found, np.diag([0.25, 4.0, 4.0, 0.6]))
    assert prior.log_precision(schema) == pytest.approx(np.linalg.slogdet(found[:-1, :-1])[1])


def test_a_named_coefficient_has_its_own_mean_and_sd() -> None:
    prior, schema = Prior(named=(("sex[m]", 0.3, 0.2), ("x", -1.0, 4.0))), schema_of("x", SEX)
    found = prior.response_matrix(schema)
    assert np.allclose(np.linalg.solve(found[:-1, :-1], found[:-1, -1]), [0.0, -1.0, 0.3])
    assert np.allclose(np.diag(np.linalg.inv(found[:-1, :-1])) ** 0.5, [10.0, 4.0, 0.2])
    assert found[-1, -1] - found[-1, :-1] @ [0.0, -1.0, 0.3] == pytest.approx(2 * prior.noise_scale)
    assert prior.log_precision(schema) == pytest.approx(np.linalg.slogdet(found[:-1, :-1])[1])


def test_a_named_intercept_is_the_response_where_covariates_are_0_and_tells_nothing_of_the_slopes() -> None:
    schema = RegressionSchema(Continuous("y", Bounds(0, 10)), (Continuous("age", Bounds(20, 80)), SEX, REGION))
    prior = Prior(coefficient_sd=0.7, named=(("(intercept)", 0.4, 0.3), ("age", 0.1, 0.2)))
    found = prior.response_matrix(schema)
    covariance = np.linalg.inv(found[:-1, :-1])
    unit = replace(schema, response=Continuous("y", UNIT))
    to_user = unit.to_user_units(np.eye(6), np.zeros(6))[0]  # theta @ to_user are the coefficients on a unit response
    user = to_user.T @ covariance @ to_user
    assert np.allclose(user, np.diag(np.diag(user)))
    assert user[0, 0] ** 0.5 == pytest.approx(0.3)
    assert np.linalg.solve(found[:-1, :-1], found[:-1, -1]) @ to_user[:, 0] == pytest.approx(0.4)
    assert prior.log_precision(schema) == pytest.approx(np.linalg.slogdet(found[:-1, :-1])[1])


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ((("x", 0.0, 0.0),), "x needs a number as its mean and a positive sd"),
        ((("x", float("nan"), 1.0),), "x needs a number as its mean and a positive sd"),
        ((("x", 0.0, 1.0), ("x", 0.0, 2.0)), "names a coefficient twice"),
    ],
)
def test_a_named_law_that_is_none_is_refused(named: tuple[tuple[str, float, float], ...], words: str) -> None:
    with pytest.raises(StudyInvalid, match=words):
        Prior(named=named)


def test_a_name_that_is_no_coefficient_is_refused() -> None:
    with pytest.raises(StudyInvalid, match=r"z is no coefficient of the regression. Choose from \(intercept\), x"):
        Prior(named=(("z", 0.0, 1.0),)).response_matrix(schema_of("x"))
