"""A release and a prior as the flat arrays of the collapsed density, variables in the order of its coordinates."""

from dataclasses import dataclass
from itertools import groupby
from math import lgamma, log, pi

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.priors import Prior
from dpbayes_core.release import Release
from dpbayes_core.samplers.flat import (
    CONSTANT,
    GAUSSIAN,
    LAPLACE,
    NOISE,
    NOISY,
    NORMAL_PRIOR,
    OF_FACTOR,
    OF_NORMAL,
    OF_RESPONSE,
    REFERENCE,
    RESPONSE_PRIOR,
    ROWS,
    SCALES,
    Target,
)
from dpbayes_core.schema import RegressionSchema

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NOISE_KINDS = {"gaussian": GAUSSIAN, "laplace": LAPLACE}
STANDARD_DEVIATION = {GAUSSIAN: 1.0, LAPLACE: 2.0**0.5}  # of noise of scale 1


@dataclass(frozen=True)
class Layout:
    """Where each variable stands in the coordinates: factors first, then continuous covariates, the response last."""

    order: Integers  # order[position] = index in the release's matrix, the constant at 0
    first: Integers  # first position of each factor
    size: Integers
    step: Floats

    @classmethod
    def of(cls, schema: RegressionSchema) -> "Layout":
        """The layout of a schema's variables."""
        factors = [
            [index for index, _ in group]
            for kind, group in groupby(
                enumerate(schema.variables, start=1), key=lambda pair: (pair[1].kind, pair[1].column)
            )
            if kind[0] != "continuous"
        ]
        inside = [index for factor in factors for index in factor]
        others = [index for index in range(schema.m + 1) if index not in inside and index > 0]
        sizes = np.array([len(factor) for factor in factors], dtype=np.int64)
        steps = [2.0 if schema.variables[factor[0] - 1].kind == "two-level" else 1.0 for factor in factors]
        return cls(
            order=np.array([0, *inside, *others], dtype=np.int64),
            first=1 + np.cumsum(sizes) - sizes,
            size=sizes,
            step=np.array(steps),
        )

    @property
    def factor_rows(self) -> int:
        """Number of variables that belong to factors."""
        return int(self.size.sum())

    def places(self, schema: RegressionSchema) -> tuple[Integers, Integers]:
        """Row and column (row >= column) in the layout's order of each released entry."""
        position = np.argsort(self.order)
        pairs = np.sort(position[np.array(schema.entries)], axis=1)
        return pairs[:, 1], pairs[:, 0]


def build_target(release: Release, prior: Prior, layout: Layout) -> Target:
    """The density that the collapsed sampler draws from, with the identity for the coordinates' reference."""
    schema, n, m = release.schema, release.count, release.schema.m
    noise = NOISE_KINDS[release.mechanism.name]
    constant = _constant(prior, n, layout, m) + _noise_constant(noise, release.mechanism.scales)
    constant += prior.log_precision(schema) / 2
    matrices = np.zeros((5, m + 1, m + 1))
    matrices[REFERENCE] = np.eye(m + 1)
    matrices[NOISY] = release.matrix()[np.ix_(layout.order, layout.order)]
    matrices[SCALES][layout.places(schema)] = release.mechanism.scales
    matrices[NORMAL_PRIOR, :m, :m] = prior.normal_matrix(m - 1) / n
    matrices[RESPONSE_PRIOR] = prior.response_matrix(schema)[np.ix_(layout.order, layout.order)] / n
    numbers = np.zeros(3)
    numbers[[ROWS, NOISE, CONSTANT]] = n, noise, constant
    blocks = np.column_stack([layout.first, layout.size, layout.step, 1 + (layout.first - 1) / 2])
    return Target(numbers, matrices, _weights(prior, layout, n, m), blocks.astype(np.float64))


def _weights(prior: Prior, layout: Layout, n: float, m: int) -> Floats:
    weights = np.ones((3, m + 1))
    weights[OF_FACTOR] = _powers(layout, n, m)
    weights[OF_NORMAL] = prior.degrees(m - 1) + n
    if inside := layout.factor_rows:  # the normal law of the factors alone, marginal over the others, is taken out
        weights[OF_FACTOR, 1 : 1 + inside] -= n - inside - 2
        weights[OF_NORMAL, : 1 + inside] = m - 1 - inside
    weights[OF_RESPONSE, m] = 2 * prior.noise_shape + n
    return weights


def _powers(layout: Layout, n: float, m: int) -> Floats:
    """Weight of log C_kk: (n-m-2) from the scatter, the rest from the Jacobian of the coordinates."""
    powers = np.full(m + 1, n - m - 2)
    powers[0] = 0
    for first, size in zip(layout.first, layout.size, strict=True):
        powers[1:first] += size
    for i in range(1 + layout.factor_rows, m + 1):
        powers[1:i] += 1
        powers[i] += 2
    return powers


def _constant(prior: Prior, n: float, layout: Layout, m: int) -> float:
    """Normalises the density of (mean, scatter) in the coordinates; with levels, up to a constant."""
    d = m - 1
    degrees = prior.degrees(d)
    k0, kn, a0, an = prior.mean_weight, prior.mean_weight + n, prior.noise_shape, prior.noise_shape + n / 2
    law = m / 2 * log(n) + (n - 1) * m / 2 * log(pi) - _multivariate_lgamma((n - 1) / 2, m)
    law += -n * d / 2 * log(pi) + d / 2 * log(k0 / kn) + degrees / 2 * d * log(prior.scatter)
    law += (degrees + n) / 2 * log(kn)
    law += _multivariate_lgamma((degrees + n) / 2, d) - _multivariate_lgamma(degrees / 2, d)
    law += -n / 2 * log(2 * pi)
    law += a0 * log(prior.noise_scale) + lgamma(an) - lgamma(a0) + an * log(2)
    # the density works with R / n: every log determinant gives back its powers of n
    powers = (n - m - 2) / 2 * m - (degrees + n) / 2 * m - m / 2 - an
    rows = range(1 + layout.factor_rows, m + 1)
    return law + (powers + sum(rows)) * log(n) + len(rows) * log(2)


def _noise_constant(noise: int, scales: Floats) -> float:
    each = log(2) if noise == LAPLACE else log(2 * pi) / 2
    return float(-np.sum(np.log(scales) + each))


def _multivariate_lgamma(x: float, size: int) -> float:
    return size * (size - 1) / 4 * log(pi) + sum(lgamma(x - j / 2) for j in range(size))
