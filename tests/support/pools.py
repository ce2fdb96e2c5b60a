"""Exact draws from the law of a pool whose parts differ: parameters, common parameters, and each part's statistics."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import invwishart

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.collapsed.arrays import DIFFERING, Target
from dpbayes_core.samplers.collapsed.pools.common import place_shared
from dpbayes_core.samplers.collapsed.pools.shared import DEGREES, new_shared
from tests.support.regressions import covariate_moments, flat_factors, moments_of, regression_draws, schema_of

SCALE = 0.5  # of the half-normal priors of tau and t


class Drawn(NamedTuple):
    """Truths of one trial: theta and sigma, moments of every part, and what the parts share."""

    parameters: Floats
    parts: list[Floats]
    common: Floats  # log tau of each number and group, log t, B, log variances of Psi


def drawn_pool(prior: Prior, schema: RegressionSchema, rows: Sequence[int], generator: np.random.Generator) -> Drawn:
    """One draw of everything; factors come first."""
    inside = flat_factors(schema, 1, generator).shape[-1] - 1
    numbers = [
        column
        for column in schema.covariates
        if len(column.variables()) == 1 and column.variables()[0].kind == "continuous"
    ]
    k = len(numbers)
    head = covariate_moments(prior, np.ones((1, 1, 1)), schema_of(*"abcdefgh"[:k]), generator)[0]
    scatter = head[1:, 1:] - np.outer(head[0, 1:], head[0, 1:])
    centre = prior.mean_sd * generator.standard_normal((k, 1 + inside))
    factors = [column for column in schema.covariates if column not in numbers]
    widths = [1, *(len(column.variables()) for column in factors)]
    taus = SCALE * np.abs(generator.standard_normal((k, len(widths))))
    tau = np.repeat(taus, widths, axis=1)
    t = SCALE * abs(generator.standard_normal())
    theta, sigma = regression_draws(prior, schema, 1, generator)
    degrees = 1 / (2 * t**2)
    parts: list[Floats] = []
    for n in rows:
        known = flat_factors(schema, 1, generator)[0]
        heads = (
            np.sqrt(n) * _orthonormal(n, 1 + inside, generator) @ np.linalg.cholesky(known).T
            if n > 1
            else np.ones((1, 1))
        )
        if inside == 0:
            heads = np.ones((n, 1))
        spread = np.diag(tau.ravel() ** 2) + np.kron(scatter, np.linalg.inv(known)) / n
        slopes = generator.multivariate_normal(centre.ravel(), spread).reshape(k, -1)
        own = np.atleast_2d(invwishart.rvs(degrees + k + 1, degrees * scatter, random_state=generator))
        rest = generator.standard_normal((n, k)) @ np.linalg.cholesky(own).T
        rest -= heads @ np.linalg.lstsq(heads, rest, rcond=None)[0]
        covariates = np.column_stack([heads, heads @ slopes.T + rest])
        parts.append(moments_of(covariates, theta[0], float(sigma[0]), generator))
    logs = [np.log(taus).ravel(), [np.log(t)], centre.ravel(), np.log(np.diag(scatter))]
    return Drawn(np.append(theta[0], sigma[0]), parts, np.concatenate(logs))


def _orthonormal(rows: int, columns: int, generator: np.random.Generator) -> Floats:
    return np.linalg.qr(generator.standard_normal((rows, columns)))[0]


def common_of(target: Target, coordinates: Floats) -> Floats:
    """`Drawn.common` of a chain's coordinates."""
    shared, at = new_shared(target), int(target.numbers[DIFFERING])
    place_shared(coordinates[at:], target, shared)
    groups = len(target.blocks) + 1
    taus = coordinates[at : at + len(shared.root) * groups]
    logs = [taus, [-np.log(2 * shared.numbers[DEGREES]) / 2], shared.centre.ravel(), np.log(np.diag(shared.scatter))]
    return np.concatenate(logs)
