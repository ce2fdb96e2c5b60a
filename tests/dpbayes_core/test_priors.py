"""Priors: what a study may say, and what it means."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.priors import Prior
from dpbayes_core.schema import Continuous, RegressionSchema
from tests.support.regressions import REGION, SEX, UNIT, schema_of


def test_a_study_changes_only_what_it_names() -> None:
    prior = Prior.from_user({"coefficients": {"sd": 1.0}, "noise": {"scale": 2}})
    assert prior == Prior(coefficient_sd=1.0, noise_scale=2.0)
    assert Prior.from_user({}) == Prior()
    assert Prior.from_user({"intercept": {"sd": 3}, "noise": {"shape": 1}}).intercept_sd == 3.0


@pytest.mark.parametrize("choices", [{"slope": {"sd": 1.0}}, {"noise": {"sd": 1.0}}, {"intercept": {"mean": 0.0}}])
def test_a_part_that_does_not_exist_is_refused_by_name(choices: dict[str, dict[str, float]]) -> None:
    part, values = next(iter(choices.items()))
    with pytest.raises(StudyInvalid, match=f"{part}.{next(iter(values))} is not part of it. Choose from intercept.sd"):
        Prior.from_user(choices)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_only_positive_numbers_are_a_prior(value: float) -> None:
    with pytest.raises(StudyInvalid, match="noise_scale must be a positive number"):
        Prior(noise_scale=value)


def test_a_prior_travels_as_its_record() -> None:
    prior = Prior(intercept_sd=3.0, correlation=2.0, named=(("x", 0.5, 0.1), ("(intercept)", -1, 2)))
    record = prior.to_record()
    assert Prior.from_record(json.loads(canonical_json(record))) == prior
    assert canonical_json(record) == canonical_json(Prior.from_record(record).to_record())


def test_a_record_from_before_the_covariates_had_laws_of_their_own_is_read() -> None:
    old = {"coefficient_sd": 2.5, "intercept_sd": 3.0, "noise_scale": 0.1, "noise_shape": 2.0}
    law = {"extra_degrees": 2.0, "mean_weight": 0.01, "scatter": 0.01}
    assert Prior.from_record(old | law) == Prior(intercept_sd=3.0)
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
