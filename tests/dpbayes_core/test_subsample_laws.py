"""What a released aggregate says: the noise-aware laws against brute force, and draws that follow them."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpbayes_core.privacy.mechanisms.exponential import ExponentialMechanism
from dpbayes_core.sampling.protocol import ChainState
from dpbayes_core.subsample.aggregates import (
    ZetaLaw,
    fisher_points,
    fisher_references,
    laws,
    rescaled_normal,
    zeta_law,
)
from dpbayes_core.subsample.probability import (
    STEPS,
    ProbabilityQuery,
    ProbabilityRelease,
    ProbabilityTerms,
    probability_design,
)
from dpbayes_core.subsample.quantile import POINTS, QuantileRelease, QuantileTerms, quantile_design
from dpbayes_core.subsample.quantile_laws import MEDIAN_SCATTER, centre_scale_law, medians_law
from dpbayes_core.subsample.samplers import AGGREGATE_SAMPLERS, AggregateSampler
from dpbayes_core.subsample.schema import OpenSchema, Unbounded

SCHEMA = OpenSchema("y", (Unbounded("x"),))
AWARE, PLAIN = AGGREGATE_SAMPLERS["aggregate-noise-aware"], AGGREGATE_SAMPLERS["aggregate-plain"]
ALPHA = 1e-6


def probability_release(*means: float, epsilon: float = 1.0, method: str = "noise-aware") -> ProbabilityRelease:
    queries = tuple(ProbabilityQuery(coefficient="x", threshold=float(k)) for k in range(len(means)))
    terms = ProbabilityTerms(schema=SCHEMA, queries=queries, subsets=100, rows=10**5, method=method)  # pyright: ignore[reportArgumentType]
    values = tuple(round(mean * 100 * STEPS) for mean in means)
    return ProbabilityRelease(
        terms=terms, mechanism=probability_design(terms, epsilon=epsilon).mechanism, values=values
    )


def quantile_release(*values: int, epsilon: float, probabilities: tuple[float, ...] = (0.25, 0.75)) -> QuantileRelease:
    terms = QuantileTerms(
        schema=SCHEMA, coefficient="x", probabilities=probabilities, outer=(-8.0, 8.0), subsets=100, rows=10**5
    )
    return QuantileRelease(terms=terms, mechanism=quantile_design(terms, epsilon=epsilon).mechanism, values=values)


@pytest.mark.slow
def test_the_law_of_zeta_is_the_stated_density() -> None:
    observed, scale, subsets = 0.47, 0.02, 100
    tau = math.sqrt((1 / 12 - 1 / (4 * math.pi)) / subsets)

    def density(zeta: float) -> float:
        centre = stats.norm.cdf(zeta / math.sqrt(2 * subsets))
        noise = integrate.quad(
            lambda e: stats.norm.pdf(observed - centre - e, scale=tau) * stats.laplace.pdf(e, scale=scale), -0.3, 0.3,
            points=[0, observed - centre], limit=200,
        )[0]  # fmt: skip
        return float(stats.norm.pdf(zeta) * noise)

    grid = np.linspace(-5, 5, 101)
    weights = np.array([density(zeta) for zeta in grid])
    cumulative = np.cumsum(weights) / weights.sum()
    law = zeta_law(observed, scale, subsets)
    found = np.interp(grid + 0.05, law.zeta, law.cumulative)
    assert np.abs(found - cumulative).max() < 4e-3


def test_without_noise_the_plain_law_stands_in() -> None:
    exact, nearly = zeta_law(0.49, 0.0, 100), zeta_law(0.49, 1e-6, 100)
    assert abs(exact.mean() - nearly.mean()) < 1e-4
    wide = zeta_law(0.49, 0.05, 100).interval(0.9)
    assert wide[1] - wide[0] > exact.interval(0.9)[1] - exact.interval(0.9)[0]


def test_the_shortest_interval_holds_its_probability_and_reaches_the_ends() -> None:
    for observed in (0.5, 0.47, 0.3, -0.2, 1.4):
        law = zeta_law(observed, 0.05, 100)
        low, high = law.interval(0.9)
        held = np.interp([low, high], stats.norm.cdf(law.zeta), law.cumulative)
        assert held[1] - held[0] == pytest.approx(0.9, abs=0.01)
        assert high - low <= np.diff(law.quantile(np.array([0.05, 0.95])))[0] + 0.005
    assert zeta_law(-0.2, 0.05, 100).interval(0.9)[0] == 0.0
    assert zeta_law(1.4, 0.05, 100).interval(0.9)[1] == 1.0


def test_intervals_cover_at_their_rate_where_the_model_holds() -> None:
    generator, repetitions, subsets = np.random.default_rng(1), 1500, 100
    for scale in (0.01, 0.1):
        zeta = generator.standard_normal(repetitions)
        scatter = generator.standard_normal((repetitions, subsets))
        scatter += (zeta / math.sqrt(subsets) - scatter.mean(axis=1))[:, None]
        noisy = stats.norm.cdf(scatter).mean(axis=1) + generator.laplace(0, scale, repetitions)
        ends = np.array([zeta_law(value, scale, subsets).interval(0.9) for value in noisy.tolist()])
        truth = stats.norm.cdf(zeta)
        covered = int(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum())
        assert stats.binomtest(covered, repetitions, 0.9).pvalue > ALPHA
        plain = np.array([zeta_law(value, 0.0, subsets).interval(0.9) for value in noisy.tolist()])
        held = int(((plain[:, 0] <= truth) & (truth <= plain[:, 1])).sum())
        assert stats.binomtest(held, repetitions, 0.9).pvalue < ALPHA


def test_fishers_statistic_has_its_own_law() -> None:
    generator, repetitions, subsets, least = np.random.default_rng(2), 1000, 100, 0.01
    zeta = generator.standard_normal(repetitions)
    scatter = generator.standard_normal((repetitions, subsets))
    scatter += (zeta / math.sqrt(subsets) - scatter.mean(axis=1))[:, None]
    cut = np.minimum(stats.norm.logcdf(scatter) / math.log(least), 1).mean(axis=1)
    noisy = cut + generator.laplace(0, 0.005, repetitions)
    found = [zeta_law(value, 0.005, subsets, least=least) for value in noisy.tolist()]
    ends, truth = np.array([law.interval(0.9) for law in found]), stats.norm.cdf(zeta)
    assert stats.binomtest(int(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum()), repetitions, 0.9).pvalue > ALPHA
    points = fisher_points(noisy, fisher_references(subsets, least=least, noise_scale=0.005, seed=1))
    assert np.corrcoef(points, truth)[0, 1] > 0.8
    assert np.array_equal(
        points, fisher_points(noisy, fisher_references(subsets, least=least, noise_scale=0.005, seed=1))
    )


def test_the_rescaled_mean_is_unbiased_only_with_the_corrected_factor() -> None:
    zeta, subsets = 1.0, 400
    mean = np.array([stats.norm.cdf(zeta / math.sqrt(2 * subsets))])
    assert rescaled_normal(mean, subsets)[0] == pytest.approx(stats.norm.cdf(zeta))
    assert rescaled_normal(mean, subsets, factor=1.0)[0] == pytest.approx(stats.norm.cdf(zeta / math.sqrt(2)))
    assert rescaled_normal(np.array([-0.1, 1.2]), subsets).tolist() == [0.0, 1.0]


def drawn(sampler: AggregateSampler, release: ProbabilityRelease | QuantileRelease, count: int = 4000) -> np.ndarray:
    problem = sampler.prepare(release)
    return sampler.run_block(problem, sampler.start(problem, 7, 0), count)[1].parameters


def test_draws_of_probabilities_follow_their_laws() -> None:
    release = probability_release(0.49, 0.6)
    draws = drawn(AWARE, release)
    for place, law in enumerate(laws(release)):
        assert (
            stats.kstest(np.interp(stats.norm.ppf(draws[:, place]), law.zeta, law.cumulative), "uniform").pvalue > ALPHA
        )
    assert AWARE.names(release) == release.terms.names
    narrow = drawn(PLAIN, release)
    assert narrow[:, 0].std() < draws[:, 0].std()


def test_draws_of_centre_and_scale_are_widened_by_the_known_noise() -> None:
    release = quantile_release(POINTS // 2, 400, 1000, epsilon=4.0)
    law = centre_scale_law(release)
    draws = drawn(AWARE, release)
    assert AWARE.names(release) == ("x", "x[q0.25]", "x[q0.75]")
    assert draws[:, 0].std() == pytest.approx(law.widened, rel=0.1)
    assert np.median(draws[:, 2] - draws[:, 1]) == pytest.approx(release.spread * (2 * stats.norm.ppf(0.75)), rel=0.02)
    plain = drawn(PLAIN, release)
    assert PLAIN.names(release) == ("x",)
    assert plain[:, 0].std() == pytest.approx(release.spread, rel=0.1)
    assert law.widened == pytest.approx(math.hypot(release.spread, math.sqrt(2) * law.noise))


def test_a_centre_without_a_mean_carries_its_ranks() -> None:
    terms = QuantileTerms(
        schema=SCHEMA,
        coefficient="x",
        probabilities=(0.5,),
        outer=(-8.0, 8.0),
        subsets=100,
        rows=10**5,
        method="centre-scale",
    )
    mechanism = quantile_design(terms, epsilon=1.0).mechanism
    release = QuantileRelease(terms=terms, mechanism=mechanism, values=(POINTS // 2, 400))
    law = centre_scale_law(release)
    assert law.scatter == pytest.approx(MEDIAN_SCATTER * release.spread)
    assert law.noise == pytest.approx(2 / 0.6 * math.sqrt(2 * math.pi / 100) * release.spread, rel=1e-6)


def test_draws_from_released_medians_follow_their_joint_law() -> None:
    release = quantile_release(POINTS // 2, POINTS // 2 + POINTS // 64, epsilon=2.0)
    law = medians_law(release)
    location, spread = law.draw(np.random.default_rng(3), 40_000)
    # importance weights over a box, from the plain joint density
    generator = np.random.default_rng(4)
    scale = float(release.estimates()[1])
    tried = np.exp(generator.uniform(np.log(scale / 60), np.log(scale * 60), 400_000))
    shift = scale / 2 + generator.uniform(-40, 40, 400_000) * tried
    gaps = np.abs(law.released - shift[:, None] - law.steps * tried[:, None]) * law.rates / tried[:, None]
    weights = np.exp(-gaps.sum(axis=1)) / tried  # 1/s^2 of the noise, times s for the uniform shift
    for level in (0.5, 1.0, 2.0):
        expected = weights[tried < level * scale].sum() / weights.sum()
        assert abs((spread < level * scale).mean() - expected) < 0.03
    centre = np.average(shift < scale / 2, weights=weights)
    assert abs((location < scale / 2).mean() - centre) < 0.03


def test_one_released_median_says_nothing_of_its_own_spread() -> None:
    release = quantile_release(POINTS // 2, epsilon=1.0, probabilities=(0.5,))
    assert isinstance(release.mechanism, ExponentialMechanism)
    assert "nothing of its own spread" in str(AWARE.refusal(release))
    assert "leave nothing to draw" in str(PLAIN.refusal(quantile_release(1, 2, epsilon=1.0)))
    assert AWARE.refusal(quantile_release(1, 2, epsilon=1.0)) is None
    assert AWARE.refusal(object()) is not None


@pytest.mark.parametrize("release", [
    probability_release(0.4), quantile_release(POINTS // 2, POINTS // 2 + 10**14, epsilon=1.0),
    quantile_release(POINTS // 2, 400, 10, epsilon=4.0),
], ids=["probability", "medians", "centre-scale"])  # fmt: skip
def test_blocks_of_any_size_give_the_same_draws(release: ProbabilityRelease | QuantileRelease) -> None:
    problem = AWARE.prepare(release)
    state = AWARE.start(problem, 11, 2)
    whole = AWARE.run_block(problem, state, 50)[1].parameters
    later, first = AWARE.run_block(problem, state, 20)
    second = AWARE.run_block(problem, ChainState.from_bytes(later.to_bytes()), 30)[1]
    assert np.array_equal(np.concatenate([first.parameters, second.parameters]), whole)
    assert whole.shape == (50, len(AWARE.names(release)))
    assert AWARE.warmup(0) == 0


def test_the_law_of_a_perfectly_uninformative_mean_is_the_prior() -> None:
    law: ZetaLaw = zeta_law(0.5, 1e6, 100)
    assert law.mean() == pytest.approx(0.5)
    np.testing.assert_allclose(law.quantile(np.array([0.1, 0.5, 0.9])), [0.1, 0.5, 0.9], atol=1e-4)
