"""The noise on every kind of released number, as `plan` tells it, is the mechanism's own."""

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import laplace_for
from dpbayes_core.regression.planning.expected_moments import Expectation, Expected
from dpbayes_core.regression.planning.noise_blocks import noise_blocks
from dpbayes_core.regression.planning.precision import detectable_effect
from dpbayes_core.regression.planning.relations import Relations
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity, released_entries

SCHEMA = RegressionSchema(
    Continuous("y", Bounds(-1, 1)),
    (Continuous("a", Bounds(-1, 1)), Factor("f", ("u", "v", "w")), Factor("s", ("m", "w"))),
)
ROWS, HOLDERS = 1000, 4


def test_every_released_number_is_in_one_block_and_the_worst_of_each_is_told() -> None:
    moved = regression_sensitivity(SCHEMA, "add-remove")
    mechanism = laplace_for(moved, epsilon=1.0, grid=20, entries=len(moved.weights))
    known = Expectation.of(
        SCHEMA,
        mechanism,
        rows=ROWS,
        expected={"y": Expected(0, 0.5), "a": Expected(0, 0.2)},
        places=released_entries(SCHEMA, "add-remove"),
        holders=HOLDERS,
        relations=Relations(shares={"f": (0.5, 0.45, 0.05)}),
    )
    found = {one.name: one for one in noise_blocks(known)}
    noise = np.sqrt(2 * HOLDERS) * float(mechanism.scales[0]) / ROWS
    assert sum(one.numbers for one in found.values()) == len(mechanism.scales)
    assert {name: one.numbers for name, one in found.items()} == {
        "number of rows": 1,
        "means of numbers": 2,
        "shares of levels": 3,
        "squares of numbers": 2,
        "products of covariates": 5,
        "products with the response": 4,
    }
    assert found["number of rows"].ratio == pytest.approx(noise)
    assert found["means of numbers"].ratio == pytest.approx(noise / 0.2)
    assert (found["shares of levels"].noise, found["shares of levels"].measures) == pytest.approx((noise, 0.05))
    assert found["squares of numbers"].ratio == pytest.approx(noise / 0.04)
    assert found["products of covariates"].ratio == pytest.approx(noise / 0.2 / np.sqrt(0.05 * 0.95))
    assert found["products with the response"].ratio == pytest.approx(noise / 0.2 / 0.5)


@pytest.mark.parametrize(("prior", "error"), [(1.0, 0.01), (1.0, 0.5), (5.0, 2.0)])
def test_the_least_effect_that_is_told_is_told_in_four_of_five_releases(prior: float, error: float) -> None:
    """Conjugate: estimates are normal around the truth, posteriors around the shrunken estimate."""
    variance = 1 / (1 / prior**2 + 1 / error**2)
    least = detectable_effect(1.96 * np.sqrt(variance), 1.96 * prior)
    assert least is not None
    estimates = least + error * np.random.default_rng(3).standard_normal(200_000)
    told = np.abs(variance / error**2 * estimates) > 1.96 * np.sqrt(variance)
    assert told.mean() == pytest.approx(0.8, abs=0.005)


def test_nothing_is_told_where_the_prior_decides() -> None:
    assert detectable_effect(0.99, 1.0) is None
    assert detectable_effect(1.02, 1.0) is None
