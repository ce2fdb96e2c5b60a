"""One chain of gibbs-ss-update: rows (x, y) are normal, mean and covariance of x among the parameters."""

from math import exp
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.papers.gibbs.dense import residual_to_explain, solve_dense
from dpbayes_core.samplers.papers.gibbs.exact import log_exact_over_limit
from dpbayes_core.samplers.papers.gibbs.flat import DENSE, EXACT, Conjugate, Noisy, NormalRow, Work
from dpbayes_core.samplers.papers.gibbs.normal_step import draw_start, solve_by_gradients, write_covariance
from dpbayes_core.samplers.papers.gibbs.parameters import draw_covariates, draw_regression, join_response
from dpbayes_core.samplers.papers.gibbs.scale_mixture import draw_variances


class NormalChain(NamedTuple):
    """Where the chain stands, and what it moves through."""

    noisy: Noisy
    row: NormalRow
    work: Work
    space: Conjugate
    statistic: Floats
    proposal: Floats


@compiled
def draw_statistic(generator: np.random.Generator, chain: NormalChain) -> None:
    """chain.proposal from the limit law of the statistic given the parameters and the noisy values."""
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
    """Under the limit law always; under the exact one by its ratio to that, at the proposal and here."""
    if chain.row.numbers[EXACT] == 0.0:
        return True
    before = log_exact_over_limit(chain.statistic, chain.row, chain.noisy, chain.work)
    after = log_exact_over_limit(chain.proposal, chain.row, chain.noisy, chain.work)
    return generator.random() < exp(min(0.0, after - before))


@compiled
def advance(generator: np.random.Generator, chain: NormalChain, warmup: int, parameters: Floats, latent: Floats) -> int:
    """`warmup` iterations, then one for each row of `parameters` and `latent`; returns proposals refused."""
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
