"""Kernel of the published proposal: a Wishart random walk over a holder's moments of (1, x), its count known."""

from math import exp, log, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, invert_lower
from dpbayes_core.samplers.papers.distributed.covariates import normal_log_density
from dpbayes_core.samplers.papers.distributed.response import response_terms
from dpbayes_core.samplers.papers.distributed.told import Holder, Law


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
    """Log ratio of the proposal back from where the Bartlett factor `turn` and `shift` lead, to that there."""
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
    """Propose a factor `moved`: scatter Wishart(degrees) with mean A, means normal; log ratio of back to there."""
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
    """One step of one holder's moments, in place; how likely it was to be accepted."""
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
