"""One chain of gibbs-ss-prior and gibbs-ss-noisy: moments of the covariates, up to the fourth, are given and stay.

The entries are linear in the sums u of pairs of (1, x) and in independent noise of y given x: sum x_i y =
sum_j theta_j u_ij + h_i and sum y^2 = theta'u theta + 2 theta'h + sum e^2.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.compiled import compiled
from dpbayes_core.samplers.gibbs.dense import residual_to_explain, solve_dense
from dpbayes_core.samplers.gibbs.flat import ROWS, Moments, Noisy, Work
from dpbayes_core.samplers.gibbs.parameters import draw_regression
from dpbayes_core.samplers.gibbs.scale_mixture import draw_variances

Floats = NDArray[np.float64]


class Space(NamedTuple):
    """Space for a step."""

    chances: Floats  # (pairs,)
    pairs: Floats  # a draw of u
    noise: Floats  # (d+1,): a draw of h
    cross: Floats  # (d+2, pairs): covariances of n^-1/2 sum x_i y and of sum y^2 with u
    responses: Floats  # (d+2,)


class MomentChain(NamedTuple):
    """Where the chain stands, and what it moves through."""

    noisy: Noisy
    law: Moments
    work: Work
    space: Space
    statistic: Floats


@compiled
def draw_start(generator: np.random.Generator, chain: MomentChain) -> None:
    """work.start from the limit law of the statistic given theta and sigma."""
    noisy, law, work, space = chain.noisy, chain.law, chain.work, chain.space
    rows, size, theta, sigma = noisy.numbers[ROWS], law.second.shape[0], work.draw, work.draw[-1]
    step = sqrt(rows)
    for k in range(space.pairs.size):
        space.chances[k] = generator.standard_normal()
    for k in range(space.pairs.size):
        total, line = 0.0, law.root[k]
        for other in range(space.chances.size):
            total += line[other] * space.chances[other]
        space.pairs[k] = rows * law.mean[k] + step * total
    for i in range(size):
        space.chances[i] = generator.standard_normal()
    for i in range(size):
        space.noise[i] = 0.0
        for k in range(size):
            space.noise[i] += sigma * step * law.second_root[i, k] * space.chances[k]
    squares = rows * sigma**2 + sqrt(2.0 * rows) * sigma**2 * generator.standard_normal()
    for i in range(size):
        space.responses[i] = space.noise[i]
        for j in range(size):
            space.responses[i] += theta[j] * space.pairs[law.pair[i, j]]
        squares += theta[i] * (space.responses[i] + space.noise[i])
    space.responses[size] = squares
    for entry in range(noisy.values.size):
        i, j = noisy.entries[entry, 0], noisy.entries[entry, 1]
        work.start[entry] = space.responses[i] if j == size else space.pairs[law.pair[i, j]]


@compiled
def write_covariance(chain: MomentChain) -> None:
    """The upper triangle of n Sigma_t (equations 2 and 3 of the paper, for unique entries)."""
    noisy, law, work, cross = chain.noisy, chain.law, chain.work, chain.space.cross
    rows, size, theta, variance = noisy.numbers[ROWS], law.second.shape[0], work.draw, work.draw[-1] ** 2
    cross[:] = 0.0
    for i in range(size):
        for j in range(size):
            line, weight = law.covariance[law.pair[i, j]], theta[j]
            for k in range(line.size):
                cross[i, k] += weight * line[k]
        for k in range(cross.shape[1]):
            cross[size, k] += theta[i] * cross[i, k]
    for first in range(noisy.values.size):
        i, j = noisy.entries[first, 0], noisy.entries[first, 1]
        for other in range(first, noisy.values.size):
            k, l = noisy.entries[other, 0], noisy.entries[other, 1]  # noqa: E741
            if l < size and j < size:
                value = law.covariance[law.pair[i, j], law.pair[k, l]]
            elif l < size:
                value = cross[i, law.pair[k, l]]
            elif j < size:
                value = cross[k, law.pair[i, j]]
            else:
                value = between_responses(chain, min(i, k), max(i, k), variance)
            work.covariance[first, other] = rows * value


@compiled
def between_responses(chain: MomentChain, i: int, k: int, variance: float) -> float:
    """Covariance of y times place i and y times place k of a row; place d+1 is y itself."""
    law, theta, cross = chain.law, chain.work.draw, chain.space.cross
    size = law.second.shape[0]
    if k < size:
        total = variance * law.second[i, k]
        for j in range(size):
            total += theta[j] * cross[i, law.pair[k, j]]
        return total
    if i < size:
        total = 0.0
        for j in range(size):
            total += theta[j] * (cross[size, law.pair[i, j]] + 2.0 * variance * law.second[i, j])
        return total
    total = 2.0 * variance**2
    for j in range(size):
        for other in range(size):
            weight = theta[j] * theta[other]
            total += weight * (cross[size, law.pair[j, other]] + 4.0 * variance * law.second[j, other])
    return total


@compiled
def advance(
    generator: np.random.Generator, chain: MomentChain, warmup: int, parameters: Floats, latent: Floats
) -> None:
    """`warmup` iterations, then one for each row of `parameters` and `latent`."""
    noisy, work = chain.noisy, chain.work
    for now in range(warmup + parameters.shape[0]):
        draw_regression(generator, noisy, chain.statistic, work)
        if now >= warmup:
            parameters[now - warmup] = work.draw
            latent[now - warmup] = chain.statistic
        draw_variances(generator, noisy, chain.statistic, work.variances)
        draw_start(generator, chain)
        residual_to_explain(generator, noisy, work)
        write_covariance(chain)
        solve_dense(noisy, work, chain.statistic)
