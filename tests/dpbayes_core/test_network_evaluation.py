"""The paper's experiments on networks: the same rows for a seed, and accuracies in the order they must have."""

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.draws.regression import RegressionSubject
from dpbayes_core.experiments.network_study import classifier_cells, classifier_rows, regression_cells, regression_rows
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema


@pytest.mark.slow
def test_a_quick_cell_gives_the_same_rows_again_and_privacy_costs_accuracy() -> None:
    cell = {**classifier_cells(quick=True)[0], "features": 4, "test_rows": 200, "repeats": 6, "epsilon": 0.5}
    rows = classifier_rows(cell, 3)
    assert rows == classifier_rows(cell, 3)
    found = {row["method"]: row["accuracy"] for row in rows}
    assert set(found) == {"without privacy", "laplace-counts", "fourier", "posterior-draw", "map", "noise-aware"}
    assert all(0.4 < accuracy <= 1 for accuracy in found.values())
    assert found["without privacy"] == max(found.values())
    assert all((row["epsilon_spent"] is None) == (row["method"] == "without privacy") for row in rows)


def test_draws_in_a_ball_have_their_price_beside_their_error() -> None:
    generator = np.random.default_rng(1)
    x, sex = generator.uniform(0, 10, 4000), generator.integers(0, 2, 4000).astype(np.int32)
    y = np.clip(2 + 0.3 * x + sex + 0.3 * generator.standard_normal(4000), 0, 8)
    schema = RegressionSchema(
        Continuous("y", Bounds(0, 8)), (Continuous("x", Bounds(0, 10)), Factor("sex", ("f", "m")))
    )
    subject = RegressionSubject(schema=schema, radius=1.0, sigma=0.08, prior_precision=1.0)
    found = [
        regression_rows(cell, 2, subject=subject, columns={"y": y, "x": x, "sex": sex})
        for cell in ({**regression_cells(quick=True)[0], "radius": radius} for radius in (0.1, 1.0))
    ]
    (small, plain), (large, _) = found
    assert small["epsilon_spent"] < large["epsilon_spent"]
    assert small["mean_squared_error"] > 2 * large["mean_squared_error"]
    assert large["mean_squared_error"] == pytest.approx(plain["mean_squared_error"], rel=0.1)
    assert large["mean_squared_error"] == pytest.approx((0.3 / 4) ** 2, rel=0.1)
