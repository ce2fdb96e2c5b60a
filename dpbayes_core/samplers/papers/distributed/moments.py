"""Kernels on each holder's moments: their normal law, a Wishart random walk, and a draw given the noisy moments.

Covariates are normal with a diffuse normal-inverse-Wishart prior. The published proposal is a Wishart random walk
over a holder's moments of (1, x) of known count; the other draws from their limit law, adds noise, and solves for the
moments given the noisy ones.
"""

from math import exp, log, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, invert_lower, solve_lower, solve_upper
from dpbayes_core.samplers.papers.distributed.arrays import Holder, Law
from dpbayes_core.samplers.papers.distributed.response import response_terms

MEAN_WEIGHT = 0.01  # mean | Sigma ~ N(0, Sigma / MEAN_WEIGHT), standardised units
SCATTER = 0.01  # Sigma ~ InvWishart(d + EXTRA_DEGREES, SCATTER I)
EXTRA_DEGREES = 2.0


@compiled
def draw_covariates(generator: np.random.Generator, total: Floats, mean: Floats, spread: Floats) -> None:
    """Draw the covariates' mean and the Cholesky factor of their covariance, given the moments of (1, x) in `total`."""
    size, d = total.shape[0], mean.size
    full, root = total.copy(), np.zeros((size, size))
    full[0, 0] += MEAN_WEIGHT
    for i in range(1, size):
        full[i, i] += SCATTER
    cholesky(full, root, size)
    degrees = d + EXTRA_DEGREES + total[0, 0]
    bartlett, inverse = np.zeros((d, d)), np.zeros((d, d))
    for i in range(d):
        for j in range(i):
            bartlett[i, j] = generator.standard_normal()
        bartlett[i, i] = sqrt(2.0 * generator.standard_gamma(0.5 * (degrees - i)))
    invert_lower(bartlett, inverse, d)
    factor, covariance = np.zeros((d, d)), np.zeros((d, d))
    for i in range(d):
        for j in range(d):
            for k in range(min(i, j) + 1):
                factor[i, j] += root[i + 1, k + 1] * inverse[j, k]
    for i in range(d):
        for j in range(i + 1):
            for k in range(d):
                covariance[i, j] += factor[i, k] * factor[j, k]
    cholesky(covariance, spread, d)
    for i in range(d):
        mean[i] = root[i + 1, 0] / root[0, 0]
    for j in range(d):
        shock = generator.standard_normal() / root[0, 0]
        for i in range(d):
            mean[i] += factor[i, j] * shock


@compiled
def normal_log_density(root: Floats, mean: Floats, spread: Floats) -> float:
    """Log density of moments of (1, x), Cholesky factor `root`, under normal covariates; up to a constant."""
    d = mean.size
    rows = root[0, 0] ** 2
    column, total = np.zeros(d), 0.0
    for i in range(d):
        column[i] = root[i + 1, 0] / root[0, 0] - mean[i]
        total += (rows - d - 2) * log(root[i + 1, i + 1])
    solve_lower(spread, column, d)
    for i in range(d):
        total -= 0.5 * rows * column[i] ** 2
    for j in range(d):
        column[:] = root[1:, j + 1]
        solve_lower(spread, column, d)
        for i in range(d):
            total -= 0.5 * column[i] ** 2
    return total


@compiled
def limit_log_density(moments: Floats, mean: Floats, spread: Floats) -> float:
    """Log density of the same moments by the central limit theorem: exact means and covariances; up to a constant."""
    d, rows = mean.size, moments[0, 0]
    first, square = np.zeros(d), np.zeros((d, d))
    for i in range(d):
        first[i] = moments[0, i + 1] - rows * mean[i]
    for i in range(d):
        for j in range(d):
            square[i, j] = moments[i + 1, j + 1] - first[i] * mean[j] - mean[i] * first[j] - rows * mean[i] * mean[j]
    solve_lower(spread, first, d)
    for i in range(d):
        solve_lower(spread, square[i], d)
    turned, total = square.T.copy(), 0.0
    for i in range(d):
        solve_lower(spread, turned[i], d)
        turned[i, i] -= rows
        total -= 0.5 * first[i] ** 2 / rows
        for j in range(d):
            total -= 0.25 * turned[i, j] ** 2 / rows
    return total


@compiled
def noise_log_density(moments: Floats, noisy: Floats, variances: Floats) -> float:
    """Log density of the Gaussian noise on the moments of (1, x), the known count aside; up to a constant."""
    size, total = moments.shape[0], 0.0
    for i in range(size):
        for j in range(max(i, 1), size):
            total -= 0.5 * (noisy[i, j] - moments[i, j]) ** 2 / variances[i, j]
    return total


@compiled
def turn_ratio(turn: Floats, shift: Floats, degrees: float) -> float:
    """Log ratio of the reverse proposal to the proposal made by the Bartlett factor `turn` and `shift`."""
    d = shift.size
    inverse = np.zeros((d, d))
    invert_lower(turn, inverse, d)
    grown, there, back = 0.0, 0.0, 0.0
    returned, gone = 0.0, 0.0
    for i in range(d):
        turned = 0.0
        for j in range(i + 1):
            there += turn[i, j] ** 2
            back += inverse[i, j] ** 2
            turned += inverse[i, j] * shift[j]
        grown += 2.0 * log(turn[i, i])
        gone += shift[i] ** 2
        returned += turned**2
    of_scatter = -(degrees - 0.5 * (d + 1)) * grown - 0.5 * degrees * (back - there)
    return of_scatter - 0.5 * grown - 0.5 * (returned - gone)


@compiled
def step_out(generator: np.random.Generator, root: Floats, degrees: float, moved: Floats) -> float:
    """Propose `moved`: Wishart scatter around the old one, normal means; returns the log ratio of proposals."""
    d = root.shape[0] - 1
    turn, shift = np.zeros((d, d)), np.zeros(d)
    for i in range(d):
        for j in range(i):
            turn[i, j] = generator.standard_normal() / sqrt(degrees)
        turn[i, i] = sqrt(2.0 * generator.standard_gamma(0.5 * (degrees - i)) / degrees)
        shift[i] = generator.standard_normal()
    moved[:] = 0.0
    moved[0, 0] = root[0, 0]
    for i in range(d):
        moved[i + 1, 0] = root[i + 1, 0]
        for k in range(i + 1):
            moved[i + 1, 0] += root[i + 1, k + 1] * shift[k] / sqrt(degrees)
            for j in range(k + 1):
                moved[i + 1, j + 1] += root[i + 1, k + 1] * turn[k, j]
    return turn_ratio(turn, shift, degrees)


@compiled
def fill_moments(root: Floats, moments: Floats) -> None:
    """root @ root.T, both triangles."""
    for i in range(root.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += root[i, k] * root[j, k]
            moments[i, j] = total
            moments[j, i] = total


@compiled
def walk_moments(generator: np.random.Generator, moments: Floats, law: Law, holder: Holder, degrees: float) -> float:
    """One step of one holder's moments, in place; returns its acceptance probability."""
    size, noisy, variances = moments.shape[0], holder.noisy, holder.variances
    root, moved, proposed = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    cholesky(moments, root, size)
    ratio = step_out(generator, root, degrees, moved)
    fill_moments(moved, proposed)
    proposed[0, 0] = moments[0, 0]
    ratio += normal_log_density(moved, law.mean, law.spread) - normal_log_density(root, law.mean, law.spread)
    ratio += noise_log_density(proposed, noisy, variances) - noise_log_density(moments, noisy, variances)
    first, second = response_terms(proposed, law.theta, law.variance, noisy, variances)
    ratio += first + second
    first, second = response_terms(moments, law.theta, law.variance, noisy, variances)
    ratio -= first + second
    if log(generator.random()) < ratio:
        moments[:] = proposed
    return exp(min(0.0, ratio)) if ratio == ratio else 0.0


@compiled
def draw_limit(generator: np.random.Generator, mean: Floats, spread: Floats, rows: float, moments: Floats) -> None:
    """Draw moments of (1, v) for `rows` rows v ~ N(mean, spread spread'), by the central limit theorem."""
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
    """Covariances of sums of r r' over `rows` normal rows, unique entries in their order; `expected` is E r r'."""
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
    """Propose a holder's moments of (1, x) from their limit law given the noise; accept for the exact law."""
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
