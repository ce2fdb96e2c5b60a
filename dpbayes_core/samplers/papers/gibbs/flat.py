"""Names for the arrays that the Gibbs kernels share: the statistic's unique entries, and places in them."""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers

ROWS, LAPLACE, SHAPE = range(3)
# law.numbers of the normal law of covariates: k0, nu0 + n, what the prior adds to the scatter, and what to do
MEAN_WEIGHT, DEGREES, SCATTER, EXACT, DENSE = range(5)


class Noisy(NamedTuple):
    """One release, and what the prior adds to the second moments of (1, x, y)."""

    numbers: Floats
    entries: Integers  # (entries, 2): row <= column of each entry of the latent statistic
    values: Floats
    scales: Floats  # of the noise; 0 where an entry is known
    known: Floats  # (m+1, m+1): moments that are no entries
    tied: Integers  # indicators: their squares are themselves
    prior: Floats  # M0


class Work(NamedTuple):
    """Space for the steps that both chains have."""

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
    """The normal law of one row (x, y): its mean after a 1, the root of its covariance, its second moments."""

    numbers: Floats
    mean: Floats  # (m+1,)
    root: Floats  # (m, m), lower triangular
    second: Floats  # (m+1, m+1): E rr', r = (1, x, y)
    chances: Floats  # (m, m)
    inverse: Floats  # (m, m)


class Conjugate(NamedTuple):
    """Space for conjugate gradients."""

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
    """Fresh space; the covariance only where it is written out."""
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
    """Fresh space for the law of a row."""
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
    """Fresh space for conjugate gradients."""
    q, entries = noisy.prior.shape[0], noisy.values.size
    return Conjugate(
        direction=np.zeros(entries),
        image=np.zeros(entries),
        left=np.zeros(entries),
        diagonal=np.zeros(entries),
        spread=np.zeros((q, q)),
        product=np.zeros((q, q)),
    )
