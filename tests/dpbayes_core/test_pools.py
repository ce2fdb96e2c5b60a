"""Pools whose parts differ, as users draw them: chains that mix at few parts, and what stays as it was."""

import numpy as np
import pytest

from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.collapsed.arrays import DIFFERING
from dpbayes_core.samplers.collapsed.sampler import Collapsed
from dpbayes_core.samplers.driver import sample
from tests.support.regressions import SEX, example, mechanism, moments_of, released, schema_of

SCHEMA, THETA = schema_of("x", "u"), (0.05, 0.4, -0.3)


def office(mean: tuple[float, float], seed: int) -> Release:
    """10,000 people of an office with a law of its own, released at noise of about epsilon 1."""
    generator = np.random.default_rng(seed)
    numbers = np.array(mean) + 0.13 * generator.standard_normal((10_000, 2))
    exact = moments_of(np.column_stack([np.ones(10_000), numbers]), THETA, 0.2, generator)
    return released(SCHEMA, exact, mechanism("gaussian", 15.0, len(SCHEMA.entries)), generator)


@pytest.mark.slow
def test_offices_that_differ_are_held_where_the_split_law_misses() -> None:
    parts = tuple(office(mean, seed) for seed, mean in enumerate([(0.6, -0.6), (-0.6, 0.6), (0.6, 0.6), (-0.6, -0.6)]))
    posterior, split = (sample(Pool(parts, alike=alike), Prior(), seed=1, draws=500) for alike in (False, True))
    assert posterior.converged
    away, missed = (abs(each.draws["sigma"].mean() - 0.2) / each.draws["sigma"].std() for each in (posterior, split))
    assert away < 3.5 < missed


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_alike_parts_converge_and_lose_little_against_the_split_law(count: int) -> None:
    parts = tuple(example(SCHEMA, 5_000, scale=20.0, seed=seed) for seed in range(count))
    posterior, split = (sample(Pool(parts, alike=alike), Prior(), seed=1) for alike in (False, True))
    assert posterior.converged
    assert posterior.attempt == 0
    for name in ("x", "u"):
        assert 0.9 < posterior.draws[name].std() / split.draws[name].std() < 1.15


def test_one_release_alike_parts_and_factors_alone_keep_their_law() -> None:
    parts, levels = ([example(schema, 90, seed=seed) for seed in (1, 2)] for schema in (SCHEMA, schema_of(SEX)))
    for evidence in (parts[0], Pool(tuple(parts), alike=True), Pool(tuple(levels))):
        assert Collapsed().prepare(evidence, Prior()).numbers[DIFFERING] == 0
    assert Collapsed().prepare(Pool(tuple(parts)), Prior()).numbers[DIFFERING] > 0
