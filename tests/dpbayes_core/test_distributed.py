"""The distributed paper's samplers against textbook code in plain numpy, on fixed releases of one holder or more."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

from bench.random_walk_wishart import run_all
from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence, Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.driver import choose, sample
from dpbayes_core.samplers.papers.distributed.samplers import DISTRIBUTED_SAMPLERS
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.protocol import SamplerUnsuitable
from dpbayes_core.sampling.rounds import ChainDraws, Round, run_chain
from tests.support.regressions import SEX, example, mechanism, moments_of, released, schema_of
from tests.support.textbook_distributed import gibbs_of_whole_moments, plugged_in, possible

PRIOR = Prior(noise_scale=0.2, coefficient_sd=1.5)


def holders(*rows: int, scale: float = 6.0, d: int = 2, seed: int = 4) -> Evidence:
    """Releases of one regression on disjoint people, each with its own noise."""
    generator, schema = np.random.default_rng(seed), schema_of(*[f"x{place}" for place in range(d)])
    theta = np.array([0.1, 0.4, -0.3, 0.2, 0.0, -0.1])[: d + 1]
    parts = []
    for count in rows:
        covariates = np.column_stack([np.ones(count), generator.normal(0.1, 0.35, (count, d))])
        told = mechanism("gaussian", scale, len(schema.entries))
        parts.append(released(schema, moments_of(covariates, theta, 0.25, generator), told, generator))
    return parts[0] if len(parts) == 1 else Pool(tuple(parts))


def standardised(evidence: Evidence, name: str, draws: int) -> Floats:
    """(chains, draws, parameters); the columns are standardised already, so the names' order is all that changes."""
    found = sample(evidence, PRIOR, sampler=name, draws=draws, seed=3)
    return np.stack(list(found.draws.values()), axis=-1)


def same_law(mine: Floats, textbook: Floats) -> None:
    """Means and standard deviations within 4.5 Monte Carlo errors; both are (chains, draws, parameters)."""
    for place in range(mine.shape[-1]):
        pair: list[tuple[float, float, float, float]] = []
        for draws in (mine[..., place], textbook[..., place]):
            centred = (draws - draws.mean()) ** 2
            ess, ess_square = (float(array_stats.ess(x, method="mean")) for x in (draws, centred))
            error_of_square = centred.std() / np.sqrt(ess_square) / (2 * draws.std())
            pair.append((draws.mean(), draws.std() / np.sqrt(ess), draws.std(), error_of_square))
        (mean, error, sd, sd_error), (other, other_error, other_sd, other_sd_error) = pair
        assert abs(mean - other) < 4.5 * np.hypot(error, other_error), place
        assert abs(sd - other_sd) < 4.5 * np.hypot(sd_error, other_sd_error), place


TEXTBOOKS: dict[str, Callable[[Evidence, int, int], Floats]] = {
    "normal-x": lambda release, draws, seed: run_all(release, draws, seed, prior=PRIOR),
    "normal-x-solve": lambda release, draws, seed: run_all(release, draws, seed, prior=PRIOR),
    "fixed-s": lambda release, draws, seed: run_all(release, draws, seed, fixed=True, prior=PRIOR),
    "fixed-s-fast": lambda release, draws, seed: plugged_in(release, draws, seed, PRIOR),
    "bs-distributed": lambda release, draws, seed: gibbs_of_whole_moments(release, draws, seed, PRIOR),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTBOOKS)
@pytest.mark.parametrize("rows", [(600,), (300, 900, 500)], ids=["one holder", "three holders"])
def test_draws_have_the_law_of_the_textbook_code(name: str, rows: tuple[int, ...]) -> None:
    evidence, textbook = holders(*rows), TEXTBOOKS[name]
    mine = standardised(evidence, name, 4000)
    same_law(mine, np.stack([textbook(evidence, 3000, seed) for seed in range(4)]))


@pytest.mark.parametrize(
    "name", [pytest.param("normal-x-solve", marks=pytest.mark.slow), "fixed-s", "fixed-s-fast", "bs-distributed"]
)
def test_draws_have_the_law_of_the_textbook_code_at_one_covariate(name: str) -> None:
    evidence, textbook = holders(400, d=1), TEXTBOOKS[name]
    same_law(standardised(evidence, name, 2000), np.stack([textbook(evidence, 700, seed) for seed in range(2)]))


def test_the_comparison_can_fail() -> None:
    evidence = holders(400, d=1)
    with pytest.raises(AssertionError):
        same_law(standardised(evidence, "fixed-s-fast", 4000), standardised(evidence, "bs-distributed", 4000))


@pytest.mark.parametrize("name", ["normal-x", "normal-x-solve"])
def test_one_holders_moments_and_coefficients_have_the_law_of_the_default_sampler(name: str) -> None:
    evidence = holders(2000, scale=10.0)
    same_law(standardised(evidence, name, 4000), standardised(evidence, "collapsed", 2000))


def test_a_pool_is_not_analysed_as_its_sum() -> None:
    """Holders of different noise: what the noisier one says weighs less, which a sum of both would not know."""
    generator, schema = np.random.default_rng(5), schema_of("x")
    parts = []
    for scale in (1.0, 300.0):
        covariates = np.column_stack([np.ones(2000), generator.normal(0.1, 0.35, 2000)])
        told = mechanism("gaussian", scale, len(schema.entries))
        parts.append(released(schema, moments_of(covariates, [0.1, 0.4], 0.25, generator), told, generator))
    for name in ("normal-x-solve", "fixed-s"):
        both = sample(Pool(tuple(parts)), PRIOR, sampler=name, draws=1000, seed=1).draws["x"]
        first = sample(parts[0], PRIOR, sampler=name, draws=1000, seed=1).draws["x"]
        assert 0.85 < both.std() / first.std() < 1.1, "the noisier holder adds next to nothing, and takes nothing away"


@pytest.mark.parametrize("name", [sampler.name for sampler in DISTRIBUTED_SAMPLERS])
def test_a_pool_is_sampled_to_the_same_bytes_however_it_is_cut(name: str) -> None:
    evidence, sampler = holders(200, 300), SAMPLERS[name]
    problem, current = sampler.prepare(evidence, PRIOR), Round(attempt=0, draws=50)
    start = ChainDraws(state=sampler.start(problem, 3, 1))
    whole = run_chain(sampler, problem, start, current, block=5000).to_bytes()
    assert run_chain(sampler, problem, start, current, block=333).to_bytes() == whole
    latent = ChainDraws.from_bytes(whole).made
    assert latent is not None
    names = sampler.monitors(evidence, latent.latent[None])
    assert len(names) == latent.latent.shape[1], "every holder's moments have names of their own"


def test_repair_makes_impossible_moments_possible_and_leaves_others_alone() -> None:
    from dpbayes_core.samplers.papers.distributed.chain import repair

    fine = example(schema_of("x", "w"), 500, scale=0.1).matrix()
    kept = fine.copy()
    repair(kept)
    assert np.array_equal(kept, fine)
    for seed in range(20):
        broken = example(schema_of("x", "w", "v", "u"), 30, scale=40.0, seed=seed).matrix()
        mended = broken.copy()
        repair(mended)
        np.testing.assert_allclose(mended, possible(broken), atol=1e-9 * np.abs(broken).max())


def test_the_limit_law_of_moments_is_that_of_sums_over_normal_rows() -> None:
    from dpbayes_core.samplers.papers.distributed.moments import draw_limit, limit_covariance, second_moments

    generator, rows = np.random.default_rng(6), 40
    mean, spread = np.array([0.3, -0.2]), np.array([[0.5, 0.0], [0.2, 0.4]])
    table = mean + generator.standard_normal((20_000, rows, 2)) @ spread.T
    whole = np.concatenate([np.ones((20_000, rows, 1)), table], axis=2)
    first, second = np.triu_indices(3)
    sums = np.einsum("tni,tnj->tij", whole, whole)[:, first[1:], second[1:]]
    covariance, drawn = np.zeros((5, 5)), np.zeros((20_000, 5))
    limit_covariance(second_moments(mean, spread), float(rows), covariance)
    moments = np.zeros((3, 3))
    for draw in drawn:
        draw_limit(generator, mean, spread, float(rows), moments)
        draw[:] = moments[first[1:], second[1:]]
    scale = np.sqrt(np.diag(covariance))
    for sample_of in (sums, drawn):
        assert np.abs(np.cov(sample_of.T) / np.outer(scale, scale) - covariance / np.outer(scale, scale)).max() < 0.05
        expected = rows * second_moments(mean, spread)[first[1:], second[1:]]
        assert np.all(np.abs(sample_of.mean(axis=0) - expected) < 4.5 * scale / np.sqrt(20_000))


def test_each_says_what_it_cannot_take() -> None:
    laplace, levels = example(schema_of("x"), 100, name="laplace"), example(schema_of("x", SEX), 100)
    few = example(schema_of("x", "w"), 3)
    for sampler in DISTRIBUTED_SAMPLERS:
        refused: list[tuple[Any, str]] = [(laplace, "gaussian noise only"), (few, "more than 3 rows")]
        if sampler.name not in ("fixed-s", "fixed-s-fast"):
            refused.append((levels, "continuous columns only"))
        for release, why in refused:
            with pytest.raises(SamplerUnsuitable, match=why):
                choose(release, sampler.name)
        assert not sampler.calibrated
        assert "not calibrated" in sampler.caveat
        assert sampler.cost.startswith("O(J d^")
        assert choose(example(schema_of("x"), 100), sampler.name).sampler is SAMPLERS[sampler.name]
    assert choose(example(schema_of("x"), 100)).sampler.name == "collapsed"
    for name in ("fixed-s", "fixed-s-fast"):
        assert sample(levels, Prior(), sampler=name, draws=400, seed=1).draws.keys() >= {"x", "sex[m]", "sigma"}
