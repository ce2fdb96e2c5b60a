"""The law of the scores' covariance M = sum e^2 x x' given its noisy release, before any chain runs.

M has a normal prior around sigma2 R_x, its value under equal spread, whose sd in every direction of R_x is that value;
the noise is normal, or approximated by a normal law. So M's law is normal, and a draw costs D^2 for D entries.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.privacy.mechanisms.noise_law import law_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.residual_moments import ResidualMoments
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.labels import unit_matrix

ROOM = 1.0  # prior sd of M in a direction of R_x, relative to M under equal spread


@dataclass(frozen=True)
class Sandwich:
    """The arrays from which M and the coefficients are drawn, given a latent statistic."""

    middle: Floats  # (D,) mean of M's entries
    root: Floats  # (D, D) lower Cholesky factor of their covariance
    meat: Integers  # (k, k) index of each entry of M; D for zero
    moments: Integers  # (k, k + 1) index of each entry of R_x and of X'y in (count, latent entries, 0)
    precision: Floats  # (k, k) the prior's, of the coefficients
    linear: Floats  # (k,) that times the prior's mean
    conjugate: bool  # whether the prior's precision is a multiple of 1 / sigma2
    rows: float  # public, or 0 where the count is the first of the latent entries
    units: Floats  # the matrix from standardised coefficients to the user's


def sandwich_of(release: Release, residuals: ResidualMoments, prior: Prior) -> Sandwich:
    """The arrays for one release that was made in two steps."""
    schema, size = release.schema, release.schema.m
    middle, covariance = _law(release, residuals)
    matrix = prior.response_matrix(schema)
    return Sandwich(
        middle=middle,
        root=lower_root(covariance),
        meat=_places(schema, residuals.entries)[:size, :size].copy(),
        moments=_places(schema, ((0, 0), *schema.entries))[:size].copy(),
        precision=matrix[:size, :size].copy(),
        linear=matrix[:size, size].copy(),
        conjugate=float(prior.scaling(np.full(1, 4.0))[0]) != 1.0,
        rows=float(release.rows or 0),
        units=unit_matrix(schema),
    )


def lower_root(matrix: Floats) -> Floats:
    """The Cholesky factor of a covariance."""
    from dpbayes_core.linear_algebra import cholesky  # numba

    root, scale = np.zeros_like(matrix), np.sqrt(np.diag(matrix))
    if cholesky(matrix / np.outer(scale, scale), root, len(matrix)) < 0:
        root = np.eye(len(matrix))  # numerically singular: take the entries as independent
    return root * scale[:, None]


def _places(schema: RegressionSchema, entries: tuple[tuple[int, int], ...]) -> Integers:
    """The index among these entries, (0, 0) included, of each element of the symmetric matrix of (1, x, y).

    A tied element has the index of its entry; an element that is always 0 has the index after the last.
    """
    found = np.full((schema.m + 1, schema.m + 1), len(entries))
    for place, (i, j) in enumerate(entries):
        found[i, j] = found[j, i] = place
    for i, variable in enumerate(schema.variables, start=1):
        if variable.kind == "two-level":
            found[i, i] = found[0, 0]
        elif variable.kind == "indicator":
            found[i, i] = found[0, i]
    return found


def _law(release: Release, residuals: ResidualMoments) -> tuple[Floats, Floats]:
    """Mean and covariance of M's entries given their noisy values."""
    expected = residuals.fit.sigma**2 * _covariates(release)
    first, second = np.array(residuals.entries).T
    around = expected[first, second]
    across = expected[first[:, None], first] * expected[second[:, None], second]
    across += expected[first[:, None], second] * expected[second[:, None], first]
    spread = 0.5 * ROOM**2 * across
    noise = residuals.scales**2 * law_of(residuals.mechanism).variance
    whole = spread + np.diag(noise)
    gain, loss = _over(spread, whole), _over(np.diag(noise), whole)  # their sum is the identity
    values = np.array(residuals.values) * residuals.fit.limit**2
    middle = around + _times(gain, (values - around)[:, None])[:, 0]
    # this form is positive semidefinite for every size of the noise
    covariance = _times(_times(loss, spread), loss.T) + _times(gain * noise, gain.T)
    return middle, (covariance + covariance.T) / 2


def _covariates(release: Release) -> Floats:
    """The noisy R_x, its scatter raised to at least its noise."""
    from dpbayes_core.samplers.robust.draws import diagonalise  # numba

    rows, noisy = max(release.count, 1.0), release.matrix()[:-1, :-1]
    means = np.clip(noisy[0] / rows, -1.0, 1.0)
    means[0] = 1.0
    scatter = noisy - rows * np.outer(means, means)
    values, vectors = scatter[1:, 1:].copy(), np.zeros_like(scatter[1:, 1:])
    diagonalise(values, vectors)
    floor = float(release.mechanism.scales.max()) * sqrt(len(noisy))
    found = rows * np.outer(means, means)
    found[1:, 1:] += _times(vectors * np.maximum(np.diag(values), floor), vectors.T)
    return found


def _over(matrix: Floats, whole: Floats) -> Floats:
    """matrix @ inverse(whole) of a positive definite `whole`."""
    root = lower_root(whole)
    from dpbayes_core.linear_algebra import invert_lower

    inverse = np.zeros_like(root)
    invert_lower(root, inverse, len(root))
    return _times(_times(matrix, inverse.T), inverse)


def _times(one: Floats, other: Floats) -> Floats:
    """A product in plain loops: the same bits for any number of BLAS threads."""
    return np.einsum("ik,kj->ij", one, other)
