"""Kernels that draw sums of products given noisy ones: perturb a draw of their limit law, then solve."""

from math import log, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, solve_lower, solve_upper
from dpbayes_core.samplers.papers.distributed.covariates import limit_log_density, normal_log_density
from dpbayes_core.samplers.papers.distributed.response import response_terms
from dpbayes_core.samplers.papers.distributed.told import Holder, Law


@compiled
def draw_limit(generator: np.random.Generator, mean: Floats, spread: Floats, rows: float, moments: Floats) -> None:
    """Moments of (1, v) of so many rows of v ~ N(mean, spread spread'), by the central limit theorem."""
    size = mean.size
    first, wishart, half = np.zeros(size), np.zeros((size, size)), np.zeros((size, size))
    for i in range(size):
        wishart[i, i] = rows + sqrt(2.0 * rows) * generator.standard_normal()
        for j in range(i):
            wishart[i, j] = sqrt(rows) * generator.standard_normal()
            wishart[j, i] = wishart[i, j]
    for k in range(size):
        shock = sqrt(rows) * generator.standard_normal()
        for i in range(size):
            first[i] += spread[i, k] * shock
            for j in range(size):
                half[i, j] += spread[i, k] * wishart[k, j]
    moments[0, 0] = rows
    for i in range(size):
        moments[0, i + 1] = first[i] + rows * mean[i]
        moments[i + 1, 0] = moments[0, i + 1]
        for j in range(size):
            total = first[i] * mean[j] + mean[i] * first[j] + rows * mean[i] * mean[j]
            for k in range(j + 1):
                total += half[i, k] * spread[j, k]
            moments[i + 1, j + 1] = total


@compiled
def second_moments(mean: Floats, spread: Floats) -> Floats:
    """E r r' of r = (1, v), v ~ N(mean, spread spread')."""
    size = mean.size
    found = np.zeros((size + 1, size + 1))
    found[0, 0] = 1.0
    for i in range(size):
        found[0, i + 1] = mean[i]
        found[i + 1, 0] = mean[i]
        for j in range(size):
            total = mean[i] * mean[j]
            for k in range(min(i, j) + 1):
                total += spread[i, k] * spread[j, k]
            found[i + 1, j + 1] = total
    return found


@compiled
def limit_covariance(expected: Floats, rows: float, covariance: Floats) -> None:
    """Covariances of sums of r r' over so many normal rows, unique entries in their order; `expected` is E r r'."""
    a = 0
    for i in range(expected.shape[0]):
        for j in range(max(i, 1), expected.shape[0]):
            b = 0
            for k in range(expected.shape[0]):
                for last in range(max(k, 1), expected.shape[0]):
                    pairs = expected[i, k] * expected[j, last] + expected[i, last] * expected[j, k]
                    means = expected[0, i] * expected[0, j] * expected[0, k] * expected[0, last]
                    covariance[a, b] = rows * (pairs - 2.0 * means)
                    b += 1
            a += 1


@compiled
def perturb_and_solve(
    generator: np.random.Generator, mean: Floats, spread: Floats, holder: Holder, moments: Floats
) -> None:
    """Draw the moments of (1, v) given the noisy ones, both their limit law and the noise being normal; in place."""
    size, rows = mean.size + 1, moments[0, 0]
    entries = size * (size + 1) // 2 - 1
    covariance, residual = np.zeros((entries, entries)), np.zeros(entries)
    limit_covariance(second_moments(mean, spread), rows, covariance)
    draw_limit(generator, mean, spread, rows, moments)
    law, root = covariance.copy(), np.zeros((entries, entries))
    place = 0
    for i in range(size):
        for j in range(max(i, 1), size):
            noise = holder.variances[i, j]
            law[place, place] += noise
            residual[place] = holder.noisy[i, j] - moments[i, j] - sqrt(noise) * generator.standard_normal()
            place += 1
    cholesky(law, root, entries)
    solve_lower(root, residual, entries)
    solve_upper(root, residual, entries)
    place = 0
    for i in range(size):
        for j in range(max(i, 1), size):
            for other in range(entries):
                moments[i, j] += covariance[place, other] * residual[other]
            moments[j, i] = moments[i, j]
            place += 1


@compiled
def solve_moments(generator: np.random.Generator, moments: Floats, law: Law, holder: Holder) -> None:
    """Propose a holder's moments of (1, x) from their limit law given the noise; corrected to the exact law."""
    size, mean, spread = moments.shape[0], law.mean, law.spread
    root, moved, proposed = np.zeros((size, size)), np.zeros((size, size)), moments.copy()
    perturb_and_solve(generator, mean, spread, holder, proposed)
    chance = log(generator.random())
    if cholesky(proposed, moved, size) < 0.0:
        return
    cholesky(moments, root, size)
    ratio = normal_log_density(moved, mean, spread) - normal_log_density(root, mean, spread)
    ratio -= limit_log_density(proposed, mean, spread) - limit_log_density(moments, mean, spread)
    first, second = response_terms(proposed, law.theta, law.variance, holder.noisy, holder.variances)
    ratio += first + second
    first, second = response_terms(moments, law.theta, law.variance, holder.noisy, holder.variances)
    ratio -= first + second
    if chance < ratio:
        moments[:] = proposed
