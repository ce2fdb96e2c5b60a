"""The naive sampler: exact without noise, repaired where noise broke the statistic, and wrong as it says."""

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.driver import sample
from dpbayes_core.samplers.naive import repaired
from dpbayes_core.samplers.registry import SAMPLERS
from tests.support.regressions import SEX, encoded, example, mechanism, moments_of, released, schema_of


def centred(moments: Floats) -> Floats:
    return (moments - np.outer(moments[0], moments[0]) / moments[0, 0])[1:, 1:]


def test_a_statistic_that_needs_no_repair_is_left_alone() -> None:
    matrix = example(schema_of("x", SEX), 500, scale=0.1).matrix()
    assert repaired(matrix) is matrix


def test_repair_leaves_a_scatter_that_data_could_have() -> None:
    matrix = example(schema_of("x", SEX), 30, scale=40.0).matrix()
    assert np.linalg.eigvalsh(centred(matrix))[0] < -1.0
    mended = repaired(matrix)
    assert np.linalg.eigvalsh(centred(mended))[0] > -1e-9
    assert np.array_equal(mended[0, 0], matrix[0, 0])
    assert np.allclose(mended[0], matrix[0])


def test_repair_is_the_nearest_one() -> None:
    matrix = example(schema_of("x", SEX), 30, scale=40.0).matrix()
    values = np.linalg.eigvalsh(centred(matrix))
    moved = np.linalg.norm(centred(repaired(matrix)) - centred(matrix))
    assert moved == pytest.approx(np.linalg.norm(values[values < 0]))


def test_draws_are_those_of_the_conjugate_posterior() -> None:
    schema, prior = schema_of("x", SEX), Prior()
    release = example(schema, 200, scale=1.0)
    full = prior.response_matrix(schema) + release.matrix()
    theta = np.linalg.solve(full[:-1, :-1], full[:-1, -1])
    shape, scale = prior.noise_shape + 100, (full[-1, -1] - full[-1, :-1] @ theta) / 2
    found = sample(release, prior, sampler="naive", draws=4000, seed=3)
    user, _ = schema.to_user_units(theta, np.zeros(()))
    for line, expected in zip(found.summary(), user, strict=False):
        assert abs(line.mean - expected) < 4.5 * line.sd / np.sqrt(line.ess_bulk)
    variance = found.draws["sigma"] ** 2
    assert abs(variance.mean() - scale / (shape - 1)) < 4.5 * variance.std() / np.sqrt(variance.size)
    assert found.draws["x"].std() == pytest.approx(
        np.sqrt(scale / (shape - 1) * np.linalg.inv(full[:-1, :-1])[1, 1]), rel=0.03
    )


def test_it_says_that_it_is_not_calibrated_and_why() -> None:
    found = sample(example(schema_of("x"), 100), Prior(), sampler="naive", seed=1)
    assert not found.calibrated
    assert "too narrow" in found.caveat
    assert found.converged
    assert found.latent == {}


def test_its_intervals_miss_the_truth_as_documented() -> None:
    schema, prior, generator = schema_of("x"), Prior(), np.random.default_rng(12)
    naive, told = SAMPLERS["naive"], mechanism("laplace", 5.3, 5)
    inside = 0
    for trial in range(200):
        covariates = encoded(schema, 200, generator)
        made = released(schema, moments_of(covariates, [0.1, 0.4], 0.2, generator), told, generator)
        problem = naive.prepare(made, prior)
        _, drawn = naive.run_block(problem, naive.start(problem, trial, 0), 400)
        low, high = np.quantile(drawn.parameters[:, 1], (0.025, 0.975))
        inside += low <= 0.4 <= high
    assert inside < 0.7 * 200  # nominal .95
