"""Small dense factorisations as plain loops: the same bits for any number of BLAS threads.

The `slot` forms work on one matrix of a (slots, size, size) array: a kernel is called faster with one array than many.
"""

from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled


@compiled
def cholesky(matrix: Floats, factor: Floats, size: int) -> float:
    """Lower Cholesky factor of the leading `size` block; returns the smallest pivot, or -1 where there is no factor."""
    smallest = np.inf
    for i in range(size):
        for j in range(i):
            total = matrix[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = total / factor[j, j]
        total = matrix[i, i]
        for k in range(i):
            total -= factor[i, k] * factor[i, k]
        if not total > 0.0:
            return -1.0
        smallest = min(smallest, total)
        factor[i, i] = sqrt(total)
    return smallest


@compiled
def invert_lower(factor: Floats, inverse: Floats, size: int) -> None:
    """Inverse of a lower triangular matrix, into the lower triangle of `inverse`."""
    for i in range(size):
        pivot = 1.0 / factor[i, i]
        inverse[i, :i] = 0.0
        for k in range(i):
            weight = factor[i, k] * pivot
            for j in range(k + 1):
                inverse[i, j] -= weight * inverse[k, j]
        inverse[i, i] = pivot


@compiled
def solve_lower(factor: Floats, vector: Floats, size: int) -> None:
    """Solve factor @ v = vector in place."""
    for i in range(size):
        total = vector[i]
        for k in range(i):
            total -= factor[i, k] * vector[k]
        vector[i] = total / factor[i, i]


@compiled
def solve_upper(factor: Floats, vector: Floats, size: int) -> None:
    """Solve factor.T @ v = vector in place, walking the rows of the lower factor."""
    for i in range(size - 1, -1, -1):
        vector[i] /= factor[i, i]
        value = vector[i]
        for k in range(i):
            vector[k] -= factor[i, k] * value
