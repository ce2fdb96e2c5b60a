"""What is asked of draws, against what the draws themselves say."""

from typing import Any

import numpy as np
import pytest

from dpbayes_core.sampling.posterior import Posterior, estimate
from tests.dpbayes_core.test_posterior import posterior as made


def example(**others: Any) -> Posterior:
    generator = np.random.default_rng(5)
    draws = {
        "(intercept)": 2 + generator.standard_normal((4, 2000)),
        "age": 0.5 + 0.2 * generator.standard_normal((4, 2000)),
        "sigma": generator.gamma(9, size=(4, 2000)),
    }
    return made(draws=draws, latent={}, **others)


def test_an_interval_holds_its_share_of_the_draws() -> None:
    found, draws = example(), example().draws["age"]
    for level in (0.5, 0.9, 0.99):
        low, high = found.interval("age", level)
        assert np.mean((draws >= low) & (draws <= high)) == pytest.approx(level, abs=0.001)
        assert np.mean(draws < low) == pytest.approx((1 - level) / 2, abs=0.001)
    line = found.summary()[1]
    assert found.interval("age") == pytest.approx((line.q025, line.q975))


def test_a_contrast_is_the_weighted_sum_draw_by_draw() -> None:
    found = example()
    difference = found.contrast({"(intercept)": 1.0, "age": 10.0})
    assert np.array_equal(difference, found.draws["(intercept)"] + 10 * found.draws["age"])
    assert difference.shape == (4, 2000)


def test_a_probability_is_the_share_of_draws_with_its_own_error() -> None:
    found = example()
    both = found.probability(lambda draws: (draws["age"] > 0.5) & (draws["(intercept)"] > 2))
    assert both.value == np.mean((found.draws["age"] > 0.5) & (found.draws["(intercept)"] > 2))
    assert abs(both.value - 0.25) < 4 * both.error
    assert both.error == pytest.approx(np.sqrt(0.25 * 0.75 / 8000), rel=0.15)
    assert found.above("age", 0.5) == found.probability(lambda draws: draws["age"] > 0.5)
    assert found.above("age", -10).value == 1.0
    assert found.above("age", -10).error == 0.0


def test_the_error_of_a_mean_knows_that_chains_move_slowly() -> None:
    generator = np.random.default_rng(1)
    means = []
    for _ in range(200):
        steps = generator.standard_normal((4, 500))
        walk = np.zeros((4, 500))
        walk[:, 0] = steps[:, 0]
        for place in range(1, 500):
            walk[:, place] = 0.8 * walk[:, place - 1] + 0.6 * steps[:, place]
        means.append(estimate(walk))
    actual = np.std([one.value for one in means])
    assert np.mean([one.error for one in means]) == pytest.approx(actual, rel=0.25)
    assert actual > 2 / np.sqrt(2000)  # independent draws would have half of it


def test_moments_are_those_of_the_draws_where_nothing_is_known_better() -> None:
    found, draws = example().moments(), example().draws
    assert list(found) == list(draws)
    for name, line in found.items():
        assert line.mean == pytest.approx(draws[name].mean())
        assert line.sd == pytest.approx(draws[name].std(ddof=1))
        assert line.error == pytest.approx(line.sd / np.sqrt(8000), rel=0.2)


def test_conditional_moments_give_the_same_with_less_error() -> None:
    generator = np.random.default_rng(6)
    means = 1 + 0.1 * generator.standard_normal((4, 2000))  # given the latent statistic
    variances = generator.gamma(50, size=(4, 2000)) / 50
    draws = means + np.sqrt(variances) * generator.standard_normal((4, 2000))
    plain = made(draws={"age": draws}, latent={}).moments()["age"]
    better = made(draws={"age": draws}, latent={}, expected={"age": (means, variances)}).moments()["age"]
    assert better.error < plain.error / 5
    assert abs(better.mean - 1) < 4 * better.error
    assert abs(better.mean - plain.mean) < 4 * plain.error
    assert better.sd == pytest.approx(np.sqrt(1.01), rel=0.01)


def test_what_does_not_exist_is_refused() -> None:
    found = example()
    with pytest.raises(ValueError, match=r"the posterior has no such name. Choose from \(intercept\), age, sigma"):
        found.contrast({"tenure": 1.0})
    with pytest.raises(ValueError, match="no such name"):
        found.above("tenure", 0)
    with pytest.raises(ValueError, match="no such name"):
        found.interval("tenure")
    with pytest.raises(ValueError, match="a probability between 0 and 1"):
        found.interval("age", 95)
    with pytest.raises(ValueError, match="it names no coefficient"):
        found.contrast({})
    with pytest.raises(ValueError, match="not true or false of every draw"):
        found.probability(lambda draws: draws["age"])  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="not true or false of every draw"):
        found.probability(lambda draws: draws["age"].mean(axis=1) > 0)
