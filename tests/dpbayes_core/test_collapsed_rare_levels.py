"""Levels so rare that the noise of their counts may hide them have coordinates of their own."""

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.independent_prior import IndependentPrior
from dpbayes_core.mechanisms import gaussian_for
from dpbayes_core.release import Release
from dpbayes_core.samplers.collapsed_density import log_density
from dpbayes_core.samplers.flat import BASE, ODDS, work_for
from dpbayes_core.samplers.layout import Layout
from dpbayes_core.samplers.reference import referred
from dpbayes_core.samplers.target import build_target
from dpbayes_core.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.sensitivity import regression_sensitivity
from tests.support.collapsed_oracle import Oracle, complex_steps

BOX = Bounds(-1.0, 1.0)


def release_of(rows: int, shares: tuple[float, ...], seed: int, epsilon: float = 1.0) -> Release:
    """Four correlated numbers and a factor with levels of these shares."""
    factor = Factor("f", tuple(f"l{place}" for place in range(len(shares))))
    schema = RegressionSchema(Continuous("y", BOX), (*(Continuous(f"x{k}", BOX) for k in range(4)), factor))
    generator, root = np.random.default_rng(seed), np.linalg.cholesky(0.6 + 0.4 * np.eye(4))
    x, level = generator.standard_normal((rows, 4)) @ root.T / 3, generator.choice(len(shares), rows, p=shares)
    y = 0.2 * x.sum(axis=1) + 0.1 * (level == 1) + 0.25 * generator.standard_normal(rows)
    coded = [2.0 * level - 1] if len(shares) == 2 else [1.0 * (level == k) for k in range(1, len(shares))]
    table = np.column_stack([np.ones(rows), x, *coded, y])
    mechanism = gaussian_for(regression_sensitivity(schema), grid=20, epsilon=epsilon, delta=1e-6)
    entries, scales = np.array(schema.entries), np.asarray(mechanism.scales)[: len(schema.entries)]
    values = (table.T @ table)[entries[:, 0], entries[:, 1]] + scales * generator.standard_normal(len(entries))
    told = tuple(float(value) for value in values)
    return Release(schema=schema, neighbours="replace-one", rows=rows, mechanism=mechanism, values=told)


@pytest.mark.parametrize(
    ("shares", "base", "rare"),
    [
        ((0.4, 0.3, 0.3), 0, (False, False)),
        ((0.5, 0.495, 0.005), 0, (False, True)),
        ((0.005, 0.495, 0.5), 2, (False, True)),  # against the last, whose own coordinate is the reference's
    ],
)
def test_only_levels_that_noise_may_hide_have_other_coordinates_than_logits(
    shares: tuple[float, ...], base: int, rare: tuple[bool, ...]
) -> None:
    release, prior = release_of(5000, shares, 1), IndependentPrior()
    layout = Layout.of(release.schema)
    target, start = referred(build_target(release, prior, layout), layout, prior, release.schema)
    assert target.weights[0, BASE, 1] == base
    assert tuple(target.weights[0, ODDS, 1:3] > 0) == rare
    assert np.isfinite(start).all()


def test_coordinates_of_rare_levels_have_their_gradient() -> None:
    release, prior = release_of(5000, (0.005, 0.495, 0.5), 1), IndependentPrior()
    layout, generator = Layout.of(release.schema), np.random.default_rng(1)
    target, start = referred(build_target(release, prior, layout), layout, prior, release.schema)
    oracle = Oracle(release, prior, target)
    position, gradient = start + 0.05 * generator.standard_normal(start.size), np.zeros(start.size)
    log_density(position, target, work_for(target), gradient)
    expected = complex_steps(oracle.density, position)
    assert np.max(np.abs(gradient - expected) / (1 + np.abs(expected))) <= 1e-7
