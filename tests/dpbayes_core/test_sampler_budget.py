"""How much work a run may be: bounded for every problem, by numbers that are the same on every machine."""

from dataclasses import replace

import numpy as np
import pytest

from dpbayes_core.regression.pool import pooled
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.driver import sample
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling import work_limits as budget
from dpbayes_core.sampling.posterior import Posterior
from dpbayes_core.sampling.work_limits import LEAST_DEPTH, MOST_DEPTH, MOST_OF_A_ROUND, beyond, deepest, multiplications
from tests.support.regressions import example, mechanism, moments_of, released, schema_of

SAMPLER = SAMPLERS["collapsed"]
PRIOR = Prior(noise_scale=0.04)


def stiff() -> Release:
    """A constant covariate and no noise to speak of: every trajectory is as long as it may be."""
    generator = np.random.default_rng(2)
    rows = np.column_stack([np.ones(200), np.full(200, 0.3), generator.normal(0.1, 0.35, 200)])
    schema, moments = schema_of("x", "z"), moments_of(rows, (0.1, 0.2, -0.3), 0.25, generator)
    return released(schema, moments, mechanism("gaussian", 1e-6, len(schema.entries)), generator)


def gradients_of(release: Release, iterations: int) -> int:
    problem = SAMPLER.prepare(release, PRIOR)
    return SAMPLER.run_block(problem, SAMPLER.start(problem, 1, 0), iterations)[1].gradients


def test_trajectories_are_shorter_where_gradients_are_dear_but_never_short() -> None:
    sizes = [5, 77, 252, 400, 1377, 5000, 100_000]
    depths = [deepest(size, size, 52) for size in sizes]
    assert depths[:4] == [MOST_DEPTH] * 4
    assert depths[4] == 8
    assert depths == sorted(depths, reverse=True)
    assert depths[-1] == LEAST_DEPTH


def test_no_trajectory_takes_more_gradients_than_its_depth_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gradients_of(stiff(), 300)
    assert whole <= 300 * (2**MOST_DEPTH - 1)
    monkeypatch.setattr(budget, "MOST_OF_A_DRAW", 1.0)
    assert gradients_of(stiff(), 300) <= 300 * (2**LEAST_DEPTH - 1) < whole, "else the bound was not reached"


def test_a_run_that_has_had_its_share_ends_with_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_OF_A_DRAW", 1.0)
    monkeypatch.setattr(budget, "MOST_OF_A_ROUND", 1.0)
    found = sample(stiff(), PRIOR, seed=1, draws=20, sampler="collapsed")
    assert found.draws["z"].shape == (4, 20)
    assert found.attempt == 0
    assert found.why_not.endswith("; going on would be more work than a run may be")
    assert all(np.isfinite(values).all() for values in found.draws.values())


def test_a_converged_run_says_nothing_of_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_OF_A_ROUND", 1.0)
    found = sample(example(schema_of("x"), 100), PRIOR, seed=1, draws=1000)
    assert found.exhausted
    assert found.converged
    assert found.why_not == ""


def test_what_is_too_much_depends_on_sizes_and_counts_alone() -> None:
    gradients = MOST_OF_A_ROUND / multiplications(1377, 1377, 54)
    sizes = {"kept": 4000, "entries": 1377, "parameters": 53}
    assert beyond(gradients=0.51 * gradients, **sizes)
    assert not beyond(gradients=0.49 * gradients, **sizes)
    assert not beyond(gradients=16 * 1000 * 2**MOST_DEPTH / 2, kept=64_000, entries=77, parameters=12)
    assert beyond(gradients=0, kept=4000, entries=40_000, parameters=52), "numbers that would have to be kept"
    assert not beyond(gradients=0, kept=64_000, entries=0, parameters=12), "a sampler without latent statistics"


def test_many_parts_are_cheaper_than_one_of_as_many_coordinates() -> None:
    spent = 0.3 * MOST_OF_A_ROUND / multiplications(7700, 5 * 78, 13)
    assert not beyond(gradients=spent, kept=4000, entries=7700, parameters=12)
    assert beyond(gradients=spent, kept=4000, entries=7700, parameters=200)


def test_the_sizes_behind_a_posterior_are_those_of_its_draws() -> None:
    parts = pooled([example(schema_of("x"), rows, seed=rows) for rows in (50, 300)])
    found = sample(parts, PRIOR, seed=1, draws=50, chains=2)
    assert isinstance(found, Posterior)
    assert len(found.latent) == 10
    assert not found.exhausted
    assert replace(found, gradients=10**13).exhausted
