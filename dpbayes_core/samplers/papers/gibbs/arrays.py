"""The arrays that the Gibbs kernels share, how a release and a prior fill them, and which releases are taken."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.privacy.mechanisms import noise_law
from dpbayes_core.regression.pool import Evidence, Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema

ROWS, LAPLACE, SHAPE = range(3)
# law.numbers of the normal law of covariates: k0, nu0 + n, the prior's scatter, and two switches
MEAN_WEIGHT, DEGREES, SCATTER, EXACT, DENSE = range(5)


class Noisy(NamedTuple):
    """One release, and the prior's second moments of (1, x, y)."""

    numbers: Floats
    entries: Integers  # (entries, 2): row <= column of each entry of the latent statistic
    values: Floats
    scales: Floats  # of the noise; 0 where an entry is known
    known: Floats  # (m+1, m+1): moments that are no entries
    tied: Integers  # indicators, which equal their squares
    prior: Floats  # M0


class Work(NamedTuple):
    """Work space of the steps that both chains have."""

    moments: Floats  # (m+1, m+1), the constant first
    scatter: Floats  # (m, m), centred
    vectors: Floats  # (m, m)
    root: Floats  # (m+1, m+1)
    sums: Floats  # (m+1, m+1)
    draw: Floats  # theta, sigma
    variances: Floats  # of the noise of each entry, given its scale mixture
    start: Floats  # a draw of the statistic from its law without noise
    residual: Floats
    covariance: Floats  # (entries, entries + 1): upper triangle, the right-hand side last


class NormalRow(NamedTuple):
    """The normal law of one row (x, y): (1, mean), the root of its covariance, its second moments."""

    numbers: Floats
    mean: Floats  # (m+1,)
    root: Floats  # (m, m), lower triangular
    second: Floats  # (m+1, m+1): E rr', r = (1, x, y)
    chances: Floats  # (m, m)
    inverse: Floats  # (m, m)


class Conjugate(NamedTuple):
    """Work space of conjugate gradients."""

    direction: Floats  # (entries,)
    image: Floats
    left: Floats
    diagonal: Floats
    spread: Floats  # (m+1, m+1): a vector of entries as a symmetric matrix
    product: Floats


class Moments(NamedTuple):
    """The given law of one row (1, x): d+1 places, and each pair of them in `pair`."""

    pair: Integers  # (d+1, d+1): a number for each unordered pair
    mean: Floats  # (pairs,)
    covariance: Floats  # (pairs, pairs), positive semidefinite
    across: Floats  # (pairs, pairs): across' across is the covariance
    second: Floats  # (d+1, d+1)
    second_root: Floats


def work_for(noisy: Noisy, *, dense: bool) -> Work:
    """New work space; the covariance only for `dense`."""
    q, entries = noisy.prior.shape[0], noisy.values.size
    return Work(
        moments=np.zeros((q, q)),
        scatter=np.zeros((q - 1, q - 1)),
        vectors=np.zeros((q - 1, q - 1)),
        root=np.zeros((q, q)),
        sums=np.zeros((q, q)),
        draw=np.zeros(q),
        variances=np.zeros(entries),
        start=np.zeros(entries),
        residual=np.zeros(entries),
        covariance=np.zeros((entries, entries + 1) if dense else (0, 1)),
    )


def row_for(noisy: Noisy, numbers: Floats) -> NormalRow:
    """New work space for the law of a row."""
    q = noisy.prior.shape[0]
    return NormalRow(
        numbers=numbers,
        mean=np.zeros(q),
        root=np.zeros((q - 1, q - 1)),
        second=np.zeros((q, q)),
        chances=np.zeros((q - 1, q - 1)),
        inverse=np.zeros((q - 1, q - 1)),
    )


def gradients_for(noisy: Noisy) -> Conjugate:
    """New work space for conjugate gradients."""
    q, entries = noisy.prior.shape[0], noisy.values.size
    return Conjugate(
        direction=np.zeros(entries),
        image=np.zeros(entries),
        left=np.zeros(entries),
        diagonal=np.zeros(entries),
        spread=np.zeros((q, q)),
        product=np.zeros((q, q)),
    )


LAWS = (noise_law.GAUSSIAN, noise_law.LAPLACE)  # Laplace noise as a mixture of Gaussian noise over its variance


@dataclass(frozen=True)
class NormalProblem:
    """A release under normal rows: `numbers` are those of the covariates' law, named above."""

    noisy: Noisy
    numbers: Floats


@dataclass(frozen=True)
class MomentProblem:
    """A release under given moments of the covariates."""

    noisy: Noisy
    law: Moments


def refusal_of(evidence: Evidence) -> str | None:
    """Why none of these samplers takes this evidence, or None."""
    if isinstance(evidence, Pool):
        return "it takes one release at a time"
    if evidence.rows is None:
        return "it takes releases whose number of rows is public only: replace-one, one row each, none left out"
    if refused := noise_law.unread(evidence.mechanism, LAWS):
        return refused
    if not evidence.schema.intercept:
        return "it takes regressions with an intercept only"
    if evidence.rows <= evidence.schema.m:
        return f"it needs more than {evidence.schema.m} rows, the number of encoded variables"
    return None


def kinds_in(schema: RegressionSchema) -> set[str]:
    """The kinds of its covariates' variables."""
    return {variable.kind for variable in schema.variables[:-1]}


def noisy_of(release: Release, prior: Prior, *, squares_known: bool) -> Noisy:
    """The arrays of a release; `squares_known` adds squares of two-level columns as entries without noise."""
    schema, rows = release.schema, release.count
    known = schema.complete(np.zeros(len(schema.entries)), rows)
    squares = [i for i, variable in enumerate(schema.variables, start=1) if variable.kind == "two-level"]
    tied = [i for i, variable in enumerate(schema.variables, start=1) if variable.kind == "indicator"]
    added = len(squares) if squares_known else 0
    laplace = float(release.mechanism.law is noise_law.LAPLACE)
    return Noisy(
        numbers=np.array([rows, laplace, prior.conjugate.noise_shape + rows / 2]),
        entries=np.array([*schema.entries, *((i, i) for i in squares[:added])], dtype=np.int64),
        values=np.array([*release.values, *[rows] * added]),
        scales=np.array([*release.mechanism.scales, *[0.0] * added]),
        known=known,
        tied=np.array(tied, dtype=np.int64),
        prior=np.ascontiguousarray(prior.conjugate.response_matrix(schema)),
    )
