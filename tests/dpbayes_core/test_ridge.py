"""AdaSSP: its release and price, and its estimate against Wang's formula written down plainly."""

from dataclasses import replace
from decimal import Decimal
from math import log, sqrt

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.accounting import limit_units
from dpbayes_core.privacy.mechanisms import LaplaceMechanism
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.prior import Prior
from dpbayes_core.releases import release_from_record
from dpbayes_core.ridge.release import RidgeRelease, RidgeSquares, ridge_design
from dpbayes_core.ridge.sampler import MISSED, penalty_of, ridge_estimate
from dpbayes_core.samplers.driver import sample
from tests.support.regressions import schema_of


def table(rows: int, seed: int, d: int = 2) -> dict[str, Floats]:
    generator = np.random.default_rng(seed)
    columns = {f"x{place}": generator.uniform(-1, 1, rows) for place in range(d)}
    response = 0.1 + sum(0.3 * (-1) ** place * values for place, values in enumerate(columns.values()))
    return {**columns, "y": np.clip(response + 0.1 * generator.standard_normal(rows), -1, 1)}


def made(rows: int, seed: int, *, rho: float = 0.5, d: int = 2) -> RidgeRelease:
    design = ridge_design(schema_of(*[f"x{place}" for place in range(d)]), grid=grid_for(rows), rho=rho)
    statistic = design.statistic()
    exact = statistic.sum(statistic.encode(table(rows, seed, d)))
    return design.release(SeededNoise(seed, i_know_this_is_not_private=True), exact)


def test_a_release_is_what_was_paid_for_and_travels() -> None:
    release = made(500, 1)
    assert release.protected
    assert release.mechanism.cost().rho == limit_units(0.5)
    again = release_from_record(release.to_record())
    assert again == release
    assert again.digest == release.digest
    assert not replace(release, values=release.values[:-1]).protected
    assert not replace(release, neighbours="add-remove").protected
    pure = LaplaceMechanism(epsilon=1.0, sensitivity=1e6, sensitivity_l2=1e6, grid=30, entries=len(release.values))
    assert not replace(release, mechanism=pure).protected


def test_noise_made_for_two_parts_only_is_not_enough_for_three() -> None:
    release = made(500, 1)
    squares = RidgeSquares.of(2)
    less = replace(release.mechanism, sensitivity=sqrt(squares.moments + squares.cross))
    assert not replace(release, mechanism=less).protected


def test_it_costs_what_its_parts_would_cost_together() -> None:
    release, squares = made(500, 1), RidgeSquares.of(2)
    scale = float(release.mechanism.scales[0])
    parts = [square / (2 * scale**2) for square in (squares.moments, squares.cross, squares.eigenvalue)]
    assert sum(parts) == pytest.approx(0.5, rel=1e-6)
    assert release.mechanism.at(Decimal(1), Decimal("1e-6")).rho > 0


def test_the_released_values_are_the_exact_ones_with_noise() -> None:
    columns = table(4000, 3)
    rows = np.column_stack([np.ones(4000), columns["x0"], columns["x1"]])
    exact = [*(rows.T @ rows)[np.triu_indices(3)][1:], *(rows.T @ columns["y"]), np.linalg.eigvalsh(rows.T @ rows)[0]]
    release = made(4000, 3, rho=1.0)
    assert np.all(np.abs(np.array(release.values) - exact) < 4.5 * np.asarray(release.mechanism.scales))
    assert not np.allclose(release.values, exact, atol=1e-3)


def test_the_estimate_is_wangs_written_down_plainly() -> None:
    for rows, rho in ((60, 0.01), (5000, 0.5)):
        release = made(rows, 4, rho=rho)
        scale = float(release.mechanism.scales[0])
        values = list(release.values)
        moments = np.array([[rows, values[0], values[1]], [values[0], values[2], values[3]], [values[1], *values[3:5]]])
        cross = np.array(values[5:8])
        least = max(values[8] - scale * sqrt(2 * log(2 / MISSED)), 0)
        penalty = max(0.0, scale * sqrt(3 * log(2 * 9 / MISSED)) - least)
        found = ridge_estimate((release,))
        assert found.penalty == pytest.approx(penalty)
        np.testing.assert_allclose(found.theta, np.linalg.inv(moments + penalty * np.eye(3)) @ cross)


def test_the_penalty_vanishes_where_the_data_suffice_and_protects_where_they_do_not() -> None:
    assert penalty_of(made(200_000, 5)) == 0.0
    for seed in range(20):
        poor = made(40, seed, rho=0.01)
        moments = poor.moments()[:, :3]
        assert np.linalg.eigvalsh(moments + penalty_of(poor) * np.eye(3))[0] > 0


def test_its_spread_is_that_of_the_noise() -> None:
    """Many releases of one table: their estimates scatter as each says of itself."""
    found = [ridge_estimate((_again(seed),)) for seed in range(300)]
    scatter = np.cov(np.array([one.theta for one in found]).T)
    told = np.mean([one.covariance for one in found], axis=0)
    assert np.abs(np.sqrt(np.diag(scatter) / np.diag(told)) - 1).max() < 4.5 / np.sqrt(2 * 300)


def _again(seed: int) -> RidgeRelease:
    design = ridge_design(schema_of("x0", "x1"), grid=grid_for(20_000), rho=0.5)
    statistic = design.statistic()
    exact = statistic.sum(statistic.encode(table(20_000, 9)))
    return design.release(SeededNoise(seed, i_know_this_is_not_private=True), exact)


def test_holders_are_summed() -> None:
    releases = [made(3000, seed) for seed in (1, 2, 3)]
    whole = ridge_estimate(releases)
    assert whole.penalty == pytest.approx(sum(penalty_of(one) for one in releases))
    total = sum(one.moments() for one in releases)
    np.testing.assert_allclose(
        (total[:, :3] + whole.penalty * np.eye(3)) @ whole.theta, total[:, 3], rtol=1e-9, atol=1e-9
    )


def test_draws_are_around_the_estimate_and_say_that_they_are_no_posterior() -> None:
    release = made(3000, 6)
    found, estimate = sample(release, Prior(), sampler="ada-ssp", draws=2000, seed=1), ridge_estimate((release,))
    for place, (name, values) in enumerate(found.draws.items()):
        sd = np.sqrt(estimate.covariance[place, place])
        assert abs(values.mean() - estimate.theta[place]) < 4.5 * sd / np.sqrt(values.size), name
        assert values.std() == pytest.approx(sd, rel=0.05)
    assert "sigma" not in found.draws
    assert not found.calibrated
    assert "no posterior" in found.caveat
