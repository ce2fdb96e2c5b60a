"""One chain of gibbs-ss-update or gibbs-ss-exact: rows (x, y) are normal, and x's mean and covariance are parameters.

gibbs-ss-exact accepts or rejects a draw of the limit law by the ratio of the statistic's exact law to that limit.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, invert_lower
from dpbayes_core.samplers.papers.gibbs.arrays import DENSE, EXACT, ROWS, Conjugate, Noisy, NormalRow, Work
from dpbayes_core.samplers.papers.gibbs.parameters import (
    draw_covariates,
    draw_regression,
    draw_variances,
    join_response,
    place_statistic,
)
from dpbayes_core.samplers.papers.gibbs.statistic import (
    draw_start,
    residual_to_explain,
    solve_by_gradients,
    solve_dense,
    write_covariance,
)


@compiled
def whiten(row: NormalRow, work: Work) -> None:
    """work.vectors = L^-1 T / n and work.sums[0] = L^-1 (sum v - n m) / n, T the scatter around m, L the root."""
    rows, size, moments, mean = work.moments[0, 0], row.root.shape[0], work.moments, row.mean
    change, half, shift = work.scatter, work.vectors, work.sums
    for i in range(size):
        for j in range(size):
            across = mean[i + 1] * moments[0, j + 1] + moments[0, i + 1] * mean[j + 1]
            change[i, j] = (moments[i + 1, j + 1] - across) / rows + mean[i + 1] * mean[j + 1]
    invert_lower(row.root, row.inverse, size)
    half[:] = 0.0
    for i in range(size):
        shift[0, i] = 0.0
        for k in range(i + 1):
            weight = row.inverse[i, k]
            shift[0, i] += weight * (moments[0, k + 1] / rows - mean[k + 1])
            for j in range(size):
                half[i, j] += weight * change[k, j]


@compiled
def log_exact_over_limit(statistic: Floats, row: NormalRow, noisy: Noisy, work: Work) -> float:
    """Log of the exact law's density over that of its normal limit, up to a constant; -inf at impossible statistics.

    With rows whitened, G = (sum ee' - n I) / sqrt(n) and g = sum e / sqrt(n), it is
    (n-m-2)/2 log |I + G/sqrt(n) - gg'/n| - sqrt(n)/2 tr G + g'g/2 + tr G^2 / 4.
    """
    rows, size = noisy.numbers[ROWS], row.root.shape[0]
    scatter, half, shift = work.scatter, work.vectors, work.sums
    place_statistic(statistic, noisy, work.moments)
    whiten(row, work)
    trace, length, square = 0.0, 0.0, 0.0
    for i in range(size):
        length += rows * shift[0, i] ** 2
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += half[i, k] * row.inverse[j, k]
            outside = total - (1.0 if i == j else 0.0)
            square += rows * outside**2 * (1.0 if i == j else 2.0)
            trace += rows * outside if i == j else 0.0
            scatter[i, j] = total - shift[0, i] * shift[0, j]
    if cholesky(scatter, work.root, size) <= 0.0:
        return -np.inf
    determinant = 0.0
    for i in range(size):
        determinant += log(work.root[i, i])
    return (rows - size - 2.0) * determinant - 0.5 * trace + 0.5 * length + 0.25 * square


class NormalChain(NamedTuple):
    """The state of the chain, and its work space."""

    noisy: Noisy
    row: NormalRow
    work: Work
    space: Conjugate
    statistic: Floats
    proposal: Floats


@compiled
def draw_statistic(generator: np.random.Generator, chain: NormalChain) -> None:
    """Draw chain.proposal from the limit law of the statistic given the parameters and the noisy values."""
    noisy, row, work = chain.noisy, chain.row, chain.work
    draw_variances(generator, noisy, chain.statistic, work.variances)
    draw_start(generator, row, noisy, work)
    residual_to_explain(generator, noisy, work)
    if row.numbers[DENSE] == 1.0:
        write_covariance(row, noisy, work)
        solve_dense(noisy, work, chain.proposal)
    else:
        solve_by_gradients(row, noisy, work, chain.space, chain.proposal)


@compiled
def accepted(generator: np.random.Generator, chain: NormalChain) -> bool:
    """Whether the proposal is accepted: always under the limit law; else by the ratio of exact and limit law."""
    if chain.row.numbers[EXACT] == 0.0:
        return True
    before = log_exact_over_limit(chain.statistic, chain.row, chain.noisy, chain.work)
    after = log_exact_over_limit(chain.proposal, chain.row, chain.noisy, chain.work)
    return generator.random() < exp(min(0.0, after - before))


@compiled
def advance(generator: np.random.Generator, chain: NormalChain, warmup: int, parameters: Floats, latent: Floats) -> int:
    """Run `warmup` iterations, then one for each row of `parameters` and `latent`; returns rejected proposals."""
    refused = 0
    for now in range(warmup + parameters.shape[0]):
        draw_regression(generator, chain.noisy, chain.statistic, chain.work)
        if now >= warmup:
            parameters[now - warmup] = chain.work.draw
            latent[now - warmup] = chain.statistic[: latent.shape[1]]
        draw_covariates(generator, chain.row, chain.work)
        join_response(chain.row, chain.work.draw)
        draw_statistic(generator, chain)
        if accepted(generator, chain):
            chain.statistic[:] = chain.proposal
        else:
            refused += 1
    return refused
