"""The default prior in units of what a study expects: it does not follow bounds, and its record tells what it is."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.expected_prior import expected_prior, is_expected
from dpbayes_core.regression.independent_prior import IndependentPrior, prior_from_record
from dpbayes_core.regression.planning.expected_moments import Expected
from dpbayes_core.regression.prior import MOST, Prior, half_width
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema

AGE, TENURE = Continuous("age", Bounds(16, 80)), Continuous("tenure", Bounds(0, 40))
PAY, SEX, REGION = Continuous("pay", Bounds(0, 5)), Factor("sex", ("m", "f")), Factor("region", ("n", "s", "e"))
SCHEMA = RegressionSchema(PAY, (AGE, TENURE, SEX, REGION))
EXPECTED = {"pay": Expected(2.4, 0.4), "age": Expected(42, 12)}
DRAWS = 200_000


def sds_of(schema: RegressionSchema, expected: dict[str, Expected]) -> dict[str, float]:
    """Of every coefficient and sigma's mean, in the table's units, as draws of the prior have them."""
    draws = expected_prior(schema, expected).draws(schema, DRAWS, np.random.default_rng(1))
    return {name: float(np.mean(values) if name == "sigma" else np.std(values)) for name, values in draws.items()}


def test_slopes_levels_and_sigma_are_in_units_of_what_is_expected() -> None:
    found = sds_of(SCHEMA, EXPECTED)
    assert found["age"] == pytest.approx(2 * 0.4 / 12, rel=0.01)
    assert found["tenure"] == pytest.approx(3.5 * 0.4 / 20, rel=0.01)  # nothing is expected: half its bounds
    assert found["sex[f]"] == pytest.approx(3.5 * 0.4, rel=0.01)
    assert found["region[s]"] == pytest.approx(3.5 * 0.4, rel=0.01)
    assert found["sigma"] == pytest.approx(0.4, rel=0.01)


def test_sigma_is_comfortable_whatever_the_covariates_explain() -> None:
    prior, unit = expected_prior(SCHEMA, EXPECTED), 0.4 / half_width(SCHEMA)
    for explained in (0.0, 0.5, 0.95):
        below, above = prior.noise_tails(np.array([unit * (1 - explained) ** 0.5]))
        assert min(below[0], above[0]) > 0.05


def test_it_does_not_follow_bounds_where_sds_are_expected() -> None:
    expected = {**EXPECTED, "tenure": Expected(8, 8)}
    wide = [replace(column, bounds=Bounds(-5000, 5000)) for column in (PAY, AGE, TENURE)]
    found, wider = sds_of(SCHEMA, expected), sds_of(RegressionSchema(wide[0], (*wide[1:], SEX, REGION)), expected)
    for name in set(found) - {"(intercept)"}:
        assert wider[name] == pytest.approx(found[name], rel=0.01)


def test_the_intercept_is_as_free_as_slopes_about_the_expected_means_make_it() -> None:
    centred = {"pay": Expected(2.4, 0.4), "age": Expected(48, 12)}  # the middle of its bounds
    assert expected_prior(SCHEMA, centred).intercept_sd == IndependentPrior().intercept_sd
    far = replace(SCHEMA, covariates=(replace(AGE, bounds=Bounds(16, 1000)),))
    prior = expected_prior(far, EXPECTED)
    generator, middle = np.random.default_rng(2), 508.0
    at_mean = 2.5 + 2 * half_width(far) * generator.standard_normal(DRAWS)
    moved = at_mean + (middle - 42) * 2 * 0.4 / 12 * generator.standard_normal(DRAWS)
    assert prior.intercept_sd * half_width(far) == pytest.approx(moved.std(), rel=0.01)


def test_without_an_intercept_sizes_are_about_0() -> None:
    schema = RegressionSchema(PAY, (AGE,), intercept=False)
    found = sds_of(schema, {"pay": Expected(3, 4), "age": Expected(5, 12)})
    assert found["age"] == pytest.approx(2 * 5 / 13, rel=0.01)
    assert found["sigma"] == pytest.approx(5, rel=0.01)


def test_what_leads_beyond_the_limits_of_a_prior_stays_at_them() -> None:
    schema = RegressionSchema(PAY, (replace(AGE, bounds=Bounds(-1e9, 1e9)),))
    prior = expected_prior(schema, {"pay": Expected(2.4, 0.4), "age": Expected(42, 1e-3)})
    assert prior.named == (("age", 0.0, MOST),)


def _plain(prior: Prior) -> dict[str, float]:
    return {name: value for name, value in asdict(prior).items() if name != "named"}


def test_its_record_is_that_of_a_prior_that_a_study_could_state_and_is_known_by_itself() -> None:
    prior = expected_prior(SCHEMA, EXPECTED)
    record = prior.to_record()
    assert prior_from_record(record) == prior
    unit = 0.4 / half_width(SCHEMA)
    stated = {
        "intercept": {"sd": prior.intercept_sd},
        "coefficients": {"sd": 3.5 * unit},
        "named": {"age": {"sd": 2 * 0.4 / 12}, "sex[f]": {"sd": 3.5 * 0.4}},
        "noise": {"shape": 2.0, "sd": 0.4},
    }
    same = IndependentPrior.from_user(stated, SCHEMA)
    assert {name: sd for name, _, sd in same.named} == pytest.approx({name: sd for name, _, sd in prior.named})
    assert _plain(same) == pytest.approx(_plain(prior))
    assert is_expected(record)
    for other in (IndependentPrior(), Prior(), replace(prior, noise_shape=3.0), replace(prior, coefficient_sd=1.0)):
        assert not is_expected(other.to_record())
    assert not is_expected(replace(prior, named=(("age", 0.1, 1.0),)).to_record())
