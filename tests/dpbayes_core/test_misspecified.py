"""The study of coverage where the model is wrong: its data sets are what they say, and its measure can fail."""

import numpy as np
import pytest

from dpbayes_core.evaluation import coverage
from dpbayes_core.experiments.misspecified import DATA_SETS, LAWS, _conjugate, _World, cells, run
from dpbayes_core.priors import Prior
from dpbayes_core.samplers.driver import sample
from dpbayes_core.schema import Continuous
from tests.support.regressions import example, schema_of

ROWS = 200_000


@pytest.mark.parametrize("name", sorted(LAWS))
def test_simulated_rows_have_the_declared_slopes_and_spread(name: str) -> None:
    world, generator = _World.of(name, 0.0), np.random.default_rng(1)
    table = world.rows(generator, ROWS)
    encoded = [np.ones(ROWS)]
    for law in world.laws:
        values = table[law.column.name]
        encoded += [values] if isinstance(law.column, Continuous) else [values == k + 1 for k in range(len(law.means))]
    matrix = np.stack(encoded, axis=1).astype(np.float64)
    fitted, residual, *_ = np.linalg.lstsq(matrix, table["y"])
    error = np.sqrt(residual[0] / ROWS * np.diag(np.linalg.inv(matrix.T @ matrix)))
    assert np.all(np.abs(fitted[1:] - world.slopes) < 5 * error[1:])
    assert np.sqrt(residual[0] / ROWS) == pytest.approx(world.sigma, rel=5 / np.sqrt(2 * ROWS))
    assert (np.abs(table["y"]) > 1).mean() < 1e-4


@pytest.mark.parametrize("share", [0.005, 0.02])
def test_the_stated_share_of_responses_is_clipped(share: float) -> None:
    table = _World.of("normal", share).rows(np.random.default_rng(2), ROWS)
    assert (np.abs(table["y"]) > 1).mean() == pytest.approx(share, abs=5 * np.sqrt(share / ROWS))


def test_conjugate_intervals_are_those_of_the_conjugate_draws() -> None:
    release = example(schema_of("a", "b"), 500, scale=1e-3)
    low, high = _conjugate(release.schema, release.matrix(), 500.0)
    posterior = sample(release, Prior(), sampler="naive", chains=2, draws=20_000, seed=3)
    drawn = np.stack([np.ravel(values) for values in posterior.draws.values()])[1:]
    ends = np.quantile(drawn, (0.025, 0.975), axis=1)
    assert np.abs(np.array([low, high]) - ends).max() < 0.05 * np.min(high - low)


def test_non_private_intervals_cover_where_nothing_is_clipped_and_fail_where_much_is() -> None:
    held: dict[float, float] = {}
    for share in (0.0, 0.02):
        world, generator = _World.of("normal", share), np.random.default_rng(4)
        ends: list[tuple[float, float]] = []
        for _ in range(200):
            table = world.rows(generator, 5000)
            rows = np.stack([np.ones(5000), *(table[f"x{k}"] for k in range(5)), np.clip(table["y"], -1, 1)], axis=1)
            low, high = _conjugate(world.schema, rows.T @ rows, 5000.0)
            ends.append((low[-1], high[-1]))
        low, high = np.array(ends).T
        held[share], _ = coverage(low, high, np.full(200, world.sigma))
    assert held[0.0] > 0.88
    assert held[0.02] < 0.5


def test_every_stated_cell_is_there_and_has_enough_data_sets() -> None:
    asked = {(cell["covariates"], cell["clipped"], cell["rows"]) for cell in cells(False)}
    for rows in (1000, 100_000):
        assert {(name, 0.0, rows) for name in ("uniform", "lognormal", "binary", "mixed levels")} <= asked
        assert {("normal", share, rows) for share in (0.005, 0.02)} <= asked
    assert DATA_SETS >= 100
    assert len(cells(True)) < len(cells(False))


def test_rows_tell_each_method_and_naive_intervals_are_narrower_than_calibrated_ones() -> None:
    cell = {**cells(True)[0], "data_sets": 2}
    rows = {(row["method"], row["parameter"]): row for row in run(cell, 5)}
    assert set(rows) == {(m, p) for m in ("non-private", "naive", "collapsed") for p in ("slopes", "sigma")}
    assert rows["collapsed", "slopes"]["width"] > 2 * rows["non-private", "slopes"]["width"]
    assert all(0 <= row["coverage"] <= 1 and row["standard_error"] > 0 for row in rows.values())
