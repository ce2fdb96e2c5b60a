"""Predictions of public rows, against direct computation in the table's units."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.regression.prediction import covariate_rows, forecast, mixture_quantile, predict
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.samplers.driver import sample
from tests.support.regressions import JOB, SEX, encoded, mechanism, moments_of, released

SCHEMA = RegressionSchema(Continuous("pay", Bounds(0.0, 200.0)), (Continuous("age", Bounds(20.0, 60.0)), SEX, JOB))
ROWS: dict[str, Any] = {"age": [20, 40.5, "60"], "sex": ["f", "m", "m"], "job": ["a", "b", "c"], "other": [1, 2, 3]}
GIVEN = np.array([[1, 20, 0, 0, 0], [1, 40.5, 1, 1, 0], [1, 60, 1, 0, 1]], dtype=np.float64)


def some_draws(count: int = 1500, spread: float = 1.0) -> dict[str, Floats]:
    generator = np.random.default_rng(7)
    centre = {"(intercept)": 80.0, "age": 1.0, "sex[m]": -20.0, "job[b]": 30.0, "job[c]": 0.0}
    draws = {name: at + spread * generator.standard_normal((2, count)) for name, at in centre.items()}
    return {**draws, "sigma": generator.gamma(40, size=(2, count)) / 4}


def test_rows_become_what_their_coefficients_multiply() -> None:
    assert np.array_equal(covariate_rows(SCHEMA, ROWS), GIVEN)
    bare = RegressionSchema(Continuous("y", Bounds(-1, 1)), (Continuous("x", Bounds(-1, 1)),), False)
    assert np.array_equal(covariate_rows(bare, {"x": [0.5]}), [[0.5]])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"age": None}, "column age is missing"),
        ({"sex": ["f", "x", "m"]}, "sex has a value that is none of its levels. Choose from f, m"),
        ({"age": [20, 61, 60]}, r"age has a value outside \[20, 60\], the bounds of the release"),
        ({"age": [19.9, 40, 60]}, "age has a value outside"),
        ({"age": [20, "old", 60]}, "age has a value that is no number"),
        ({"age": [20, float("nan"), 60]}, "age has a value that is no number"),
        ({"age": [20, None, 60]}, "age has a value that is no number"),
        ({"age": [20]}, "columns have different numbers of rows"),
    ],
)
def test_rows_that_cannot_be_are_refused_without_quoting_them(changed: dict[str, Any], words: str) -> None:
    rows = {name: values for name, values in {**ROWS, **changed}.items() if values is not None}
    with pytest.raises(StudyInvalid, match=words) as refused:
        covariate_rows(SCHEMA, rows)
    assert "61" not in str(refused.value)


def test_predictive_draws_are_the_regression_plus_a_residual() -> None:
    draws = some_draws()
    found = predict(draws, SCHEMA, ROWS, np.random.default_rng(1))
    for row, given in enumerate(GIVEN):
        by_hand = sum(draws[name] * x for name, x in zip(SCHEMA.coefficients, given, strict=True))
        assert np.allclose(found.expected[..., row], by_hand)
        residual = (found.response[..., row] - by_hand) / draws["sigma"]
        assert stats.kstest(residual.ravel(), "norm").pvalue > 1e-3
    assert found.response.shape == (2, 1500, 3)
    again = predict(draws, SCHEMA, ROWS, np.random.default_rng(1))
    assert np.array_equal(found.response, again.response)


def test_a_forecast_is_what_many_predictive_draws_say() -> None:
    draws = some_draws(20_000, spread=4.0)
    found = forecast(draws, SCHEMA, ROWS, (0.05, 0.5, 0.975))
    drawn = predict(draws, SCHEMA, ROWS, np.random.default_rng(2))
    for row in range(3):
        response, expected = drawn.response[..., row].ravel(), drawn.expected[..., row].ravel()
        assert abs(found.mean[row] - response.mean()) < 4.5 * response.std() / np.sqrt(response.size)
        assert found.sd[row] == pytest.approx(response.std(), rel=0.02)
        assert found.expected_sd[row] == pytest.approx(expected.std(ddof=1))
        assert np.allclose(found.expected_quantiles[row], np.quantile(expected, (0.05, 0.5, 0.975)))
        for place, probability in enumerate((0.05, 0.5, 0.975)):
            below = np.mean(response < found.quantiles[row, place])
            error = np.sqrt(probability * (1 - probability) / response.size)
            assert abs(below - probability) < 4.5 * error


def test_quantiles_of_a_mixture_are_exact() -> None:
    assert mixture_quantile(np.array([[3.0]]), np.array([2.0]), 0.975)[0] == pytest.approx(
        3 + 2 * stats.norm.ppf(0.975)
    )
    generator = np.random.default_rng(3)
    means = np.concatenate([generator.normal(-50, 1, (30, 4)), generator.standard_cauchy((30, 4))])  # lumps and tails
    sds = generator.gamma(1, size=60) + 1e-3
    for probability in (0.005, 0.25, 0.5, 0.51, 0.995):
        at = mixture_quantile(means, sds, probability)
        assert np.allclose(stats.norm.cdf((at - means) / sds[:, None]).mean(axis=0), probability, atol=1e-7)


def test_many_rows_are_forecast_in_parts_with_the_same_result() -> None:
    draws = some_draws(4000)
    ages = np.linspace(20, 60, 301)
    rows: dict[str, Any] = {"age": ages, "sex": ["m"] * 301, "job": ["a"] * 301}
    whole = forecast(draws, SCHEMA, rows)
    alone = forecast(draws, SCHEMA, {"age": [ages[270]], "sex": ["m"], "job": ["a"]})
    assert whole.quantiles.shape == (301, 2)
    assert np.allclose(whole.quantiles[270], alone.quantiles[0])
    assert whole.mean[270] == pytest.approx(alone.mean[0])


def test_no_rows_give_an_empty_forecast() -> None:
    found = forecast(some_draws(), SCHEMA, {"age": [], "sex": [], "job": []})
    assert found.quantiles.shape == (0, 2)


def test_a_posterior_predicts_responses_that_were_not_released() -> None:
    generator = np.random.default_rng(4)
    covariates = encoded(SCHEMA, 3000, generator)
    moments = moments_of(covariates, [0.1, 0.2, -0.1, 0.3, 0.0], 0.1, generator)
    made = released(SCHEMA, moments, mechanism("gaussian", 1e-3, len(SCHEMA.entries)), generator)
    posterior = sample(made, Prior(), sampler="naive", seed=5, draws=500)
    found = posterior.predict(SCHEMA, {"age": [50.0], "sex": ["m"], "job": ["b"]}, np.random.default_rng(6))
    # pay = 100 + 100 y; y = .1 + .2 (age - 40)/20 - .1 (2 [m] - 1) + .3 [b] = .1 + .1 - .1 + .3 = .4
    assert found.expected.mean() == pytest.approx(140.0, abs=3.0)
    assert found.response.std() == pytest.approx(10.0, rel=0.1)
