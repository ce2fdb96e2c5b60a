"""One chain of gibbs-ss-prior and gibbs-ss-noisy: moments of the covariates, up to the fourth, are given and fixed.

The entries are linear in the sums u of pairs of (1, x) and in independent noise of y given x: sum x_i y =
sum_j theta_j u_ij + h_i and sum y^2 = theta'u theta + 2 theta'h + sum e^2.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.papers.gibbs.arrays import ROWS, Moments, Noisy, Work
from dpbayes_core.samplers.papers.gibbs.parameters import draw_regression, draw_variances
from dpbayes_core.samplers.papers.gibbs.statistic import residual_to_explain, solve_dense


class Space(NamedTuple):
    """Work space of a step."""

    chances: Floats  # (pairs,)
    pairs: Floats  # a draw of u
    noise: Floats  # (d+1,): a draw of h
    cross: Floats  # (d+2, pairs): covariances of sum x_i y and of sum y^2 with u, of one row
    within: Floats  # (d+2, d+2): the same with sum x_i y and sum y^2
    responses: Floats  # (d+2,)


class MomentChain(NamedTuple):
    """The state of the chain, and its work space."""

    noisy: Noisy
    law: Moments
    work: Work
    space: Space
    statistic: Floats


@compiled
def draw_start(generator: np.random.Generator, chain: MomentChain) -> None:
    """Draw work.start from the limit law of the statistic given theta and sigma."""
    noisy, law, work, space = chain.noisy, chain.law, chain.work, chain.space
    rows, size, theta, sigma = noisy.numbers[ROWS], law.second.shape[0], work.draw, work.draw[-1]
    step = sqrt(rows)
    for k in range(space.pairs.size):
        space.chances[k] = generator.standard_normal()
    for k in range(space.pairs.size):
        space.pairs[k] = rows * law.mean[k]
    for other in range(space.pairs.size):
        line, chance = law.across[other], step * space.chances[other]
        for k in range(space.pairs.size):
            space.pairs[k] += chance * line[k]
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
def write_blocks(law: Moments, space: Space, draw: Floats) -> None:
    """Covariances of y times each place with the pairs, then with y times each other; place d+1 is y itself."""
    size, variance, cross, within = law.second.shape[0], draw[-1] ** 2, space.cross, space.within
    cross[:] = 0.0
    for i in range(size):
        own, last = cross[i], cross[size]
        for j in range(size):
            line, weight = law.covariance[law.pair[i, j]], draw[j]
            for k in range(line.size):
                own[k] += weight * line[k]
        for k in range(own.size):
            last[k] += draw[i] * own[k]
    within[size, size] = 2.0 * variance**2
    for i in range(size):
        total, residual = 0.0, 0.0
        for j in range(size):
            total += draw[j] * cross[size, law.pair[i, j]]
            residual += draw[j] * variance * law.second[i, j]
        within[i, size] = total + 2.0 * residual
        within[size, i] = within[i, size]
        within[size, size] += draw[i] * (total + 4.0 * residual)
        for k in range(i, size):
            total = variance * law.second[i, k]
            for j in range(size):
                total += draw[j] * cross[i, law.pair[k, j]]
            within[i, k] = total
            within[k, i] = total


@compiled
def write_covariance(chain: MomentChain) -> None:
    """The upper triangle of n Sigma_t (equations 2 and 3 of the paper, for unique entries)."""
    law, cross, within = chain.law, chain.space.cross, chain.space.within
    rows, entries, lines = chain.noisy.numbers[ROWS], chain.noisy.entries, chain.work.covariance
    write_blocks(law, chain.space, chain.work.draw)
    size = law.second.shape[0]
    for first in range(entries.shape[0]):
        i, j, line = entries[first, 0], entries[first, 1], lines[first]
        if j < size:
            place = law.pair[i, j]
            between = law.covariance[place]
            for other in range(first, entries.shape[0]):
                k, l = entries[other, 0], entries[other, 1]  # noqa: E741
                line[other] = rows * (between[law.pair[k, l]] if l < size else cross[k, place])
        else:
            for other in range(first, entries.shape[0]):
                k, l = entries[other, 0], entries[other, 1]  # noqa: E741
                line[other] = rows * (cross[i, law.pair[k, l]] if l < size else within[i, k])


@compiled
def advance(
    generator: np.random.Generator, chain: MomentChain, warmup: int, parameters: Floats, latent: Floats
) -> None:
    """Run `warmup` iterations, then one for each row of `parameters` and `latent`."""
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
