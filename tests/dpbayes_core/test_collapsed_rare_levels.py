"""Levels so rare that the noise of their counts may hide them have coordinates of their own."""

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import gaussian_for
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.samplers.collapsed.arrays import BASE, EARLY, ODDS, Target, work_for
from dpbayes_core.samplers.collapsed.density import log_density
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.rare import layout_for
from dpbayes_core.samplers.collapsed.start import start_of
from dpbayes_core.samplers.collapsed.target import build_target
from dpbayes_core.samplers.driver import sample
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


HIDDEN_LEVELS = [
    (0.5, 0.495, 0.005),
    (0.5, 0.005, 0.495),
    (0.005, 0.495, 0.5),
    (0.4, 0.003, 0.3, 0.002, 0.295),
    (0.995, 0.005),
]


def case(shares: tuple[float, ...]) -> tuple[Oracle, Target, NDArray[np.float64]]:
    """The independent density, the target and where to look: few rows, whose density has digits far from there."""
    release, prior = release_of(600, shares, 1, epsilon=8.0), IndependentPrior()
    layout = layout_for(release, prior)
    target, start = start_of(build_target(release, prior, layout), layout, prior, release.schema)
    return Oracle(release, prior, target, layout), target, start


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
    target, start = start_of(build_target(release, prior, layout), layout, prior, release.schema)
    assert target.weights[0, BASE, 1] == base
    assert tuple(target.weights[0, ODDS, 1:3] > 0) == rare
    assert np.isfinite(start).all()


@pytest.mark.parametrize(
    ("shares", "order", "early"),
    [
        ((0.4, 0.3, 0.3), (5, 6), 3),
        ((0.5, 0.495, 0.005), (5, 6), 2),
        ((0.5, 0.005, 0.495), (6, 5), 2),
        ((0.005, 0.495, 0.5), (5, 6), 2),  # the reference: it is hidden in what is left of the last
        ((0.4, 0.003, 0.3, 0.002, 0.295), (6, 8, 5, 7), 3),
    ],
)
def test_levels_that_noise_may_hide_are_told_after_all_others_and_after_numbers(
    shares: tuple[float, ...], order: tuple[int, ...], early: int
) -> None:
    release, prior = release_of(5000, shares, 1), IndependentPrior()
    layout = layout_for(release, prior)
    target, _ = start_of(build_target(release, prior, layout), layout, prior, release.schema)
    assert tuple(layout.order[1 : 1 + len(order)]) == order
    assert target.parts[0, EARLY] == early


@pytest.mark.parametrize("shares", HIDDEN_LEVELS)
def test_coordinates_of_rare_levels_have_their_gradient(shares: tuple[float, ...]) -> None:
    oracle, target, start = case(shares)
    generator = np.random.default_rng(1)
    for spread in (0.05, 0.2):
        position, gradient = start + spread * generator.standard_normal(start.size), np.zeros(start.size)
        value = log_density(position, target, work_for(target), gradient)
        expected = complex_steps(oracle.density, position)
        assert np.max(np.abs(gradient - expected) / (1 + np.abs(expected))) <= 1e-7
        assert np.isfinite(value)


@pytest.mark.parametrize("shares", HIDDEN_LEVELS)
def test_coordinates_of_rare_levels_have_the_jacobian_that_complex_steps_find(shares: tuple[float, ...]) -> None:
    oracle, target, start = case(shares)
    generator, apart, densities = np.random.default_rng(2), list[float](), list[float]()
    for _ in range(4):
        position = start + 0.1 * generator.standard_normal(start.size)
        determinant = np.linalg.slogdet(complex_steps(oracle.free_entries, position))[1]
        apart.append(float(determinant - sum(place.jacobian for place in oracle.places(position)).real))
        value = log_density(position, target, work_for(target), np.zeros(start.size))
        densities.append(float(value - oracle.density(position).real))
    assert np.ptp(apart) <= 1e-7
    assert np.ptp(densities) <= 1e-7


@pytest.mark.parametrize("shares", [(0.59, 0.405, 0.005), (0.59, 0.002, 0.408), (0.001, 0.59, 0.409)])
def test_a_level_that_is_hardly_there_costs_little_more_than_one_that_is(shares: tuple[float, ...]) -> None:
    prior = IndependentPrior()
    seldom, often = (
        sample(release_of(20_000, own, 1), prior, sampler="collapsed", chains=2, draws=300, seed=1)
        for own in (shares, (0.4, 0.3, 0.3))
    )
    assert seldom.converged
    assert seldom.divergences == 0
    each = [made.gradients / next(iter(made.draws.values())).size for made in (seldom, often)]
    assert each[0] <= 5 * each[1]
