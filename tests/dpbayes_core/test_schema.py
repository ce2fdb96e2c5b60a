from dataclasses import replace

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.canonical import canonical_json
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema

WAGE = Continuous("log_wage", Bounds(0, 5))
AGE = Continuous("age", Bounds(16, 80))
FEMALE = Factor("female", ("no", "yes"))
REGION = Factor("region", ("north", "south", "east"))
SHIFT = Factor("shift", ("day", "night", "both", "none"))


def wages() -> RegressionSchema:
    return RegressionSchema(WAGE, (AGE, FEMALE, REGION))


def test_variables_follow_the_covariates_and_end_with_the_response() -> None:
    found = [(v.label, v.kind) for v in wages().variables]
    assert found == [
        ("age", "continuous"),
        ("female[yes]", "two-level"),
        ("region[south]", "indicator"),
        ("region[east]", "indicator"),
        ("log_wage", "continuous"),
    ]
    assert wages().coefficients == ("(intercept)", "age", "female[yes]", "region[south]", "region[east]")
    assert (wages().m, wages().d) == (5, 4)


def test_public_zero_and_tied_moments_are_not_entries() -> None:
    free = set(wages().entries)
    everything = {(i, j) for i in range(6) for j in range(i, 6)}
    assert everything - free == {(0, 0), (2, 2), (3, 3), (4, 4), (3, 4)}
    assert list(wages().entries) == sorted(free)


def test_a_purely_continuous_schema_releases_every_moment_but_n() -> None:
    schema = RegressionSchema(WAGE, (AGE, Continuous("hours", Bounds(0, 80))))
    assert len(schema.entries) == schema.m * (schema.m + 3) // 2


def test_completed_moments_equal_the_moments_of_encoded_rows() -> None:
    generator = np.random.default_rng(1)
    n = 50
    region, shift = generator.integers(0, 3, n), generator.integers(0, 4, n)
    encoded = np.column_stack(
        [np.ones(n), region == 1, region == 2, generator.uniform(-1, 1, n), 2 * generator.integers(0, 2, n) - 1]
        + [shift == level for level in (1, 2, 3)]
        + [generator.uniform(-1, 1, n)]
    ).astype(np.float64)
    moments = encoded.T @ encoded
    schema = RegressionSchema(WAGE, (REGION, AGE, FEMALE, SHIFT))
    values = np.array([moments[place] for place in schema.entries])
    np.testing.assert_allclose(schema.complete(values, n), moments, atol=1e-12)


def user_columns(n: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(2)
    codes = {"female": generator.integers(0, 2, n), "region": generator.integers(0, 3, n)}
    age = generator.uniform(16, 80, n)
    wage = 1 + 0.02 * age - 0.3 * codes["female"] + 0.1 * codes["region"] + generator.normal(0, 0.3, n)
    return {"age": age, "log_wage": wage, **codes}


def least_squares(design: np.ndarray, response: np.ndarray) -> tuple[np.ndarray, float]:
    coefficients = np.linalg.lstsq(design, response, rcond=None)[0]
    return coefficients, float(np.std(response - design @ coefficients))


def test_the_way_back_turns_standardised_least_squares_into_the_users_own() -> None:
    columns = user_columns(400)
    dummies = [(columns["region"] == level).astype(float) for level in (1, 2)]
    ones, age, female, wage = np.ones(400), columns["age"], columns["female"].astype(float), columns["log_wage"]
    direct = least_squares(np.column_stack([ones, age, female, *dummies]), wage)
    standard = least_squares(np.column_stack([ones, (2 * age - 96) / 64, 2 * female - 1, *dummies]), (2 * wage - 5) / 5)
    theta, sigma = wages().to_user_units(standard[0], np.array(standard[1]))
    np.testing.assert_allclose(theta, direct[0], rtol=1e-9)
    np.testing.assert_allclose(sigma, direct[1], rtol=1e-9)


def test_the_way_back_keeps_leading_shapes() -> None:
    draws = np.random.default_rng(3).normal(size=(4, 7, 5))
    theta, sigma = wages().to_user_units(draws, np.ones((4, 7)))
    one, _ = wages().to_user_units(draws[2, 3], np.array(1.0))
    assert theta.shape == (4, 7, 5)
    assert sigma.shape == (4, 7)
    np.testing.assert_allclose(theta[2, 3], one)


def test_a_regression_without_covariates_has_an_intercept() -> None:
    schema = RegressionSchema(WAGE, ())
    theta, _ = schema.to_user_units(np.array([0.5]), np.array(1.0))
    assert schema.entries == ((0, 1), (1, 1))
    assert theta.tolist() == [3.75]


def test_records_survive_a_round_trip() -> None:
    again = RegressionSchema.from_record(wages().to_record())
    assert again == wages()
    assert canonical_json(again.to_record()) == canonical_json(wages().to_record())


def test_which_rows_count_is_on_record_where_not_all_do() -> None:
    complete = replace(wages(), cases="complete")
    assert RegressionSchema.from_record(complete.to_record()) == complete
    assert complete.to_record() == {**wages().to_record(), "cases": "complete"}
    assert "cases" not in wages().to_record()  # as it was before there was a choice
    with pytest.raises(ValueError, match="neither all nor the complete ones"):
        RegressionSchema.from_record({**wages().to_record(), "cases": "some"})


@pytest.mark.parametrize(
    ("covariates", "complaint"),
    [
        ((AGE, WAGE), "on itself"),
        ((AGE, FEMALE, AGE), "covariate age occurs twice"),
        ((FEMALE, Continuous("female[yes]", Bounds(0, 1))), r"female\[yes\] occurs twice"),
        ((Continuous("sigma", Bounds(0, 1)),), "sigma occurs twice"),
    ],
)
def test_ambiguous_regressions_are_refused(covariates: tuple[Continuous | Factor, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RegressionSchema(WAGE, covariates)


@pytest.mark.parametrize("levels", [(), ("only",), ("a", "b", "a")])
def test_factors_need_two_different_levels(levels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="cannot declare factor"):
        Factor("region", levels)


@pytest.mark.parametrize("kind", ["factor", "ordinal"])
def test_a_response_must_be_continuous(kind: str) -> None:
    record = {"response": {"kind": kind, "name": "y", "levels": ["a", "b"]}, "covariates": []}
    with pytest.raises(ValueError, match="cannot read schema"):
        RegressionSchema.from_record(record)
