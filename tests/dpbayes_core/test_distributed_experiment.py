"""The comparison of regressions held in parts: what published noise costs, repaired tables, right errors."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpbayes.evaluation.public_tables import PUBLIC_TABLES
from dpbayes_core.arrays import Floats
from dpbayes_core.errors import DpbayesError
from dpbayes_core.experiments.distributed import (
    EXPERIMENT,
    OURS,
    PUBLISHED,
    TABLES,
    our_errors,
    published_errors,
)
from dpbayes_core.experiments.distributed_published import (
    Published,
    PublishedData,
    ada_ssp_spends,
    fixed_s_fast,
    mcmc,
    published_releases,
    published_scale,
)
from dpbayes_core.experiments.distributed_tables import Table, clipped_averages, shares_of, simulated
from dpbayes_core.privacy.accounting import analytic_gaussian_epsilon
from dpbayes_core.privacy.analytic_gaussian import analytic_gaussian_scale
from tests.support.ledger_cases import commit, gaussian, new_ledger, request

ROOT = Path(__file__).parent.parent.parent


def test_the_published_calibration_hardly_knows_delta_and_is_far_too_small() -> None:
    assert published_scale(1.0, 1e-5) == pytest.approx(1.487, abs=5e-4)
    assert published_scale(1.0, 1e-9) == pytest.approx(published_scale(1.0, 1e-5), rel=1e-4)
    assert analytic_gaussian_scale(1, 1, 1e-5) == pytest.approx(3.731, abs=5e-4)


def test_published_runs_at_epsilon_one_spent_what_the_notes_say() -> None:
    for rows in (7654, 13903):  # four fifths of the two tables
        covariates = np.random.default_rng(1).standard_normal((rows, 4))
        data = PublishedData.of(covariates, covariates.sum(axis=1))
        added, replaced = data.epsilon_spent(1.0, 1 / rows)
        assert 2.3 < added < 2.5
        assert 3.5 < replaced < 3.7
        assert ada_ssp_spends(1.0, 1 / rows) > 3


def test_the_true_sensitivity_of_published_bounds_is_attained() -> None:
    data = PublishedData.of(
        *np.split(np.random.default_rng(2).standard_normal((500, 4)), [3], axis=1)[:1], np.arange(500.0)
    )
    radius, height = data.radius, data.height
    assert height**2 <= 2 * radius**2

    def parts(x: Floats, y: float) -> Floats:
        upper = np.triu_indices(3)
        return np.concatenate([np.outer(x, x)[upper], y * x])

    # in the plane of two axes: both rows as long as can be, their responses of opposite sign
    best = 0.0
    for angle in np.linspace(0, np.pi, 20_001):
        second = radius * np.array([np.cos(angle), np.sin(angle), 0.0])
        first = np.array([radius, 0.0, 0.0])
        best = max(best, float(np.linalg.norm(parts(first, height) - parts(second, -height))))
    assert best <= data.true_sensitivity * (1 + 1e-9)
    assert best > data.published_sensitivity


def test_noise_as_published_is_charged_by_no_ledger(tmp_path: Path) -> None:
    honest = gaussian(1.0, 1e-6)
    wrong = published_scale(1.0, 1e-6) * honest.sensitivity
    weak = replace(honest, sensitivity=honest.sensitivity * wrong / honest.scale)
    assert weak.scale == pytest.approx(wrong, rel=1e-6)
    with new_ledger(tmp_path) as ledger:
        with pytest.raises(DpbayesError, match="less than its statistics can move"):
            commit(ledger, request(), weak)
        assert ledger.count("charge") == 0
    assert not hasattr(Published, "mechanism")


def test_nothing_that_can_be_charged_knows_the_published_methods() -> None:
    for folder in ("mechanisms", "ridge", "samplers"):
        for path in sorted((ROOT / "dpbayes_core" / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom):
                    assert not str(node.module).startswith("dpbayes_core.experiments"), path.name


def test_averages_are_clipped_after_averaging_so_that_one_person_moves_one_row_within_the_box() -> None:
    generator = np.random.default_rng(3)
    rows = generator.uniform(-1, 1, (41, 3))
    other = rows.copy()
    other[5] = 1.0
    before, after = clipped_averages(rows, 4), clipped_averages(other, 4)
    assert before.shape == (10, 3)
    assert np.abs(before).max() <= 1
    assert list(np.flatnonzero((before != after).any(axis=1))) == [1]
    up = np.ones((4, 3))
    assert np.array_equal(clipped_averages(up, 4), np.ones((1, 3)))
    assert np.linalg.norm(up.sum(axis=0) / 2) > np.sqrt(3), "unclipped it would leave the box"


def test_errors_without_noise_are_least_squares_and_holders_share_the_rows() -> None:
    table = Table.of(simulated(1, 3000), "y")
    parts = shares_of(table, 7)
    assert sorted(np.concatenate(parts).tolist()) == sorted(table.learnt.tolist())
    assert set(table.learnt.tolist()).isdisjoint(table.tested.tolist())
    assert np.abs(table.encoded()).max() == pytest.approx(1.0)
    data = PublishedData.of(table.covariates[table.learnt], table.response[table.learnt])
    own = [np.arange(len(table.learnt))]
    exact = published_releases(data, own, 1e-9, np.random.default_rng(1))
    plain = np.linalg.lstsq(data.covariates, data.response, rcond=None)[0]
    np.testing.assert_allclose(fixed_s_fast(exact, data.height), plain, atol=1e-4)
    generator = np.random.default_rng(2)
    np.testing.assert_allclose(mcmc(exact, data.height, 400, generator, walking=False), plain, atol=0.01)


def test_the_published_walk_is_the_textbooks_where_noise_is_small() -> None:
    table = Table.of(simulated(1, 3000, d=2), "y")
    data = PublishedData.of(table.covariates[table.learnt], table.response[table.learnt])
    releases = published_releases(data, [np.arange(len(table.learnt))], 5.0, np.random.default_rng(3))
    walked = mcmc(releases, data.height, 2000, np.random.default_rng(4), walking=True)
    fixed = mcmc(releases, data.height, 2000, np.random.default_rng(5), walking=False)
    np.testing.assert_allclose(walked, fixed, atol=0.02)


def test_every_method_beats_nothing_on_simulated_rows() -> None:
    table = Table.of(simulated(1, 20_000), "y")
    nothing = float(np.var(table.encoded()[table.tested, -1]))
    for found in (our_errors(table, 1, 3, draws=300), published_errors(table, 1, 3, draws=300)):
        for name, (error, _) in found.items():
            assert error < nothing, name


def test_rows_say_what_was_spent() -> None:
    (cell, *_) = (one for one in EXPERIMENT.cells(True) if one["noise"] == PUBLISHED)
    rows = EXPERIMENT.run({**cell, "data_sets": 2}, 1)
    for row in rows:
        if row["method"] != "without privacy":
            assert (row["epsilon"], row["noise"]) == (1.0, PUBLISHED)
            assert row["epsilon_spent"] > 2.9
            assert row["low"] <= row["error"] <= row["high"]


def test_cells_are_one_five_and_ten_holders_of_the_repaired_tables() -> None:
    cells = EXPERIMENT.cells(False)
    for name in TABLES:
        found = {(cell["holders"], cell["noise"]) for cell in cells if cell["data"] == name}
        assert found == {(count, noise) for count in (1, 5, 10) for noise in (OURS, PUBLISHED)}
        assert all(cell["table"] == name for cell in cells if cell["data"] == name)
    assert not {"casual", "registered"} & set(PUBLIC_TABLES["bike-sharing"].columns)
    with pytest.raises(ValueError, match="its columns are not there"):
        EXPERIMENT.run(next(cell for cell in cells if "table" in cell), 1)
    assert analytic_gaussian_epsilon(1, 3.731, 1e-5) == pytest.approx(1.0, abs=1e-3)
