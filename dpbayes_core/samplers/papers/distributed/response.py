"""Kernels on the noisy X'y and y'y of every holder, given its moments S of (1, x): densities, coefficients, variance.

Given S, X'y is normal and y'y its square plus chi-squares; both have their exact means and covariances here, and y'y
is taken as normal too. The noise is integrated out. Matrices are (holders, m + 1, m + 1), the response last.
"""

from math import exp, log, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, solve_lower, solve_upper
from dpbayes_core.samplers.papers.distributed.arrays import Problem, Step

MOVE_ACCEPTED = 0.4  # target acceptance rate


@compiled
def response_terms(
    moments: Floats, theta: Floats, variance: float, noisy: Floats, variances: Floats
) -> tuple[float, float]:
    """Log density of one holder's noisy X'y, and of its noisy y'y given that."""
    size = theta.size
    law, root, residual = np.zeros((size + 1, size + 1)), np.zeros((size + 1, size + 1)), np.zeros(size + 1)
    explained = 0.0
    for i in range(size):
        fitted = 0.0
        for j in range(size):
            fitted += moments[i, j] * theta[j]
            law[i, j] = variance * moments[i, j]
        law[i, i] += variances[i, size]
        law[size, i] = 2.0 * variance * fitted
        explained += theta[i] * fitted
        residual[i] = noisy[i, size] - fitted
    rows = moments[0, 0]
    law[size, size] = 4.0 * variance * explained + 2.0 * rows * variance**2 + variances[size, size]
    residual[size] = noisy[size, size] - explained - rows * variance
    if cholesky(law, root, size + 1) < 0.0:
        return -np.inf, -np.inf
    solve_lower(root, residual, size + 1)
    first = 0.0
    for i in range(size):
        first -= log(root[i, i]) + 0.5 * residual[i] ** 2
    return first, -log(root[size, size]) - 0.5 * residual[size] ** 2


@compiled
def coefficient_law(moments: Floats, variance: float, problem: Problem, root: Floats, centre: Floats) -> None:
    """Normal law of theta given S, the variance and the noisy X'y: its mean, and its precision's Cholesky factor."""
    size = centre.size
    precision = problem.prior[:size, :size] / variance
    centre[:] = problem.prior[:size, size] / variance
    law, factor, column = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    whitened = np.zeros((size, size))  # row i: the i-th column of S, solved
    for holder in range(moments.shape[0]):
        for i in range(size):
            law[i] = variance * moments[holder, i]
            law[i, i] += problem.variances[holder, i, size]
        cholesky(law, factor, size)
        column[:] = problem.noisy[holder, :size, size]
        solve_lower(factor, column, size)
        for i in range(size):
            whitened[i] = moments[holder, i]
            solve_lower(factor, whitened[i], size)
            for j in range(size):
                centre[i] += whitened[i, j] * column[j]
                for k in range(i + 1):
                    precision[i, k] += whitened[i, j] * whitened[k, j]
    cholesky(precision, root, size)
    solve_lower(root, centre, size)
    solve_upper(root, centre, size)


@compiled
def squares_ratio(moments: Floats, moved: Floats, theta: Floats, variance: float, problem: Problem) -> float:
    """Log ratio of the noisy y'y of all holders, given their noisy X'y, at `moved` to that at `theta`."""
    ratio = 0.0
    for holder in range(moments.shape[0]):
        noisy, variances = problem.noisy[holder], problem.variances[holder]
        ratio += response_terms(moments[holder], moved, variance, noisy, variances)[1]
        ratio -= response_terms(moments[holder], theta, variance, noisy, variances)[1]
    return ratio


@compiled
def move_coefficients(
    generator: np.random.Generator, moments: Floats, theta: Floats, problem: Problem, step: Step
) -> float:
    """Move theta towards a new draw given the noisy X'y (reach 1: to it); accept by the noisy y'y."""
    size = theta.size
    root, centre, moved = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    coefficient_law(moments, step.variance, problem, root, centre)
    for i in range(size):
        moved[i] = generator.standard_normal()
    solve_upper(root, moved, size)
    if step.unconditional:
        theta[:] = centre + moved
        return MOVE_ACCEPTED
    for i in range(size):
        moved[i] = centre[i] + sqrt(1.0 - step.reach**2) * (theta[i] - centre[i]) + step.reach * moved[i]
    ratio = squares_ratio(moments, moved, theta, step.variance, problem)
    if log(generator.random()) < ratio:
        theta[:] = moved
    return exp(min(0.0, ratio))


@compiled
def variance_log_density(level: float, moments: Floats, theta: Floats, problem: Problem) -> float:
    """Log density of the log variance given theta and S, noise integrated out, up to a constant."""
    size, variance, prior = theta.size, exp(level), problem.prior
    square = prior[size, size]
    for i in range(size):
        square -= 2.0 * theta[i] * prior[i, size]
        for j in range(size):
            square += theta[i] * prior[i, j] * theta[j]
    total = -(problem.shape + 0.5 * size) * level - 0.5 * square / variance
    for holder in range(moments.shape[0]):
        noisy, variances = problem.noisy[holder], problem.variances[holder]
        first, second = response_terms(moments[holder], theta, variance, noisy, variances)
        total += first + second
    return total


@compiled
def move_variance(
    generator: np.random.Generator, moments: Floats, theta: Floats, problem: Problem, tuning: Floats
) -> float:
    """A random walk step on the log variance tuning[0], log step tuning[1]; returns its acceptance probability."""
    moved = tuning[0] + exp(tuning[1]) * generator.standard_normal()
    ratio = variance_log_density(moved, moments, theta, problem) - variance_log_density(
        tuning[0], moments, theta, problem
    )
    if log(generator.random()) < ratio:
        tuning[0] = moved
    return exp(min(0.0, ratio))
