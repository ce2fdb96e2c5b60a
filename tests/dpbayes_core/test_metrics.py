"""Measures of answers: right on laws whose answer is known, and able to tell a wrong one."""

import math

import numpy as np
import pytest
from scipy import stats

from dpbayes_core.experiments.metrics import coverage, ks_distance, ks_uniform, mmd, posterior_ranks, root_mean_square

ALPHA = 1e-6


def test_distances_from_the_uniform_law_are_those_of_scipy() -> None:
    ranks = np.random.default_rng(1).random(500)
    assert ks_uniform(ranks) == pytest.approx(stats.kstest(ranks, "uniform").statistic)
    assert ks_uniform(ranks**2) > ks_uniform(ranks)


def test_distances_of_two_samples_are_those_of_scipy() -> None:
    generator = np.random.default_rng(2)
    first, second = generator.normal(size=300), generator.normal(0.5, 1, 400)
    assert ks_distance(first, second) == pytest.approx(stats.ks_2samp(first, second).statistic)
    assert ks_distance(first, first) == 0


def test_ranks_of_a_calibrated_posterior_are_uniform_and_those_of_a_narrow_one_are_not() -> None:
    generator = np.random.default_rng(3)
    truths = generator.normal(size=2000)
    seen = truths + generator.normal(size=2000)
    draws = seen[:, None] / 2 + math.sqrt(0.5) * generator.normal(size=(2000, 199))
    assert stats.kstest(posterior_ranks(draws, truths), "uniform").pvalue > 1e-3
    narrow = seen[:, None] / 2 + 0.3 * generator.normal(size=(2000, 199))
    assert stats.kstest(posterior_ranks(narrow, truths), "uniform").pvalue < ALPHA


def test_coverage_counts_intervals_that_hold_their_truth() -> None:
    share, error = coverage(np.zeros(4), np.ones(4), np.array([0.0, 0.5, 1.0, 1.5]))
    assert share == 0.75
    assert error == pytest.approx(math.sqrt(0.75 * 0.25 / 4))
    assert coverage(np.zeros(4), np.ones(4), np.full(4, 0.5))[1] > 0


def test_errors_come_with_their_own_monte_carlo_error() -> None:
    generator = np.random.default_rng(4)
    found = [root_mean_square(generator.normal(0, 2, (200, 3))) for _ in range(200)]
    values, errors = np.array(found).T
    assert values.mean() == pytest.approx(2, rel=0.02)
    assert errors.mean() == pytest.approx(values.std(), rel=0.2)


def test_equal_laws_are_near_in_mean_discrepancy_and_others_far() -> None:
    generator = np.random.default_rng(5)
    first, second = generator.normal(size=(2, 300, 2))
    assert abs(mmd(first, second)) < 0.01
    assert mmd(first, second + 1) > 0.05
