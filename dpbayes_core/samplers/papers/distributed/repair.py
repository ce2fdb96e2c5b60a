"""Kernel that makes noisy second moments possible: centred scatter without negative eigenvalues."""

from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky

SWEEPS = 30
SMALL = 1e-26  # of the squared norm


@compiled
def eigenvectors(matrix: Floats, vectors: Floats) -> None:
    """Jacobi's rotations: `matrix` becomes diagonal, its eigenvectors are the columns of `vectors`."""
    size = matrix.shape[0]
    vectors[:] = np.eye(size)
    for _ in range(SWEEPS):
        outside, inside = 0.0, 0.0
        for i in range(size):
            inside += matrix[i, i] ** 2
            for j in range(i):
                outside += matrix[i, j] ** 2
        if outside <= SMALL * inside:
            return
        for i in range(size):
            for j in range(i):
                if matrix[i, j] == 0.0:
                    continue
                ratio = 0.5 * (matrix[i, i] - matrix[j, j]) / matrix[i, j]
                tangent = (1.0 if ratio >= 0.0 else -1.0) / (abs(ratio) + sqrt(1.0 + ratio * ratio))
                cosine = 1.0 / sqrt(1.0 + tangent * tangent)
                sine = tangent * cosine
                for k in range(size):
                    first, second = matrix[k, j], matrix[k, i]
                    matrix[k, j], matrix[k, i] = cosine * first - sine * second, sine * first + cosine * second
                for k in range(size):
                    first, second = matrix[j, k], matrix[i, k]
                    matrix[j, k], matrix[i, k] = cosine * first - sine * second, sine * first + cosine * second
                for k in range(size):
                    first, second = vectors[k, j], vectors[k, i]
                    vectors[k, j], vectors[k, i] = cosine * first - sine * second, sine * first + cosine * second


@compiled
def repair(moments: Floats) -> None:
    """Second moments of (1, v) with the nearest possible scatter around their own mean; untouched where it is one."""
    size = moments.shape[0] - 1
    rows = moments[0, 0]
    scatter, root, vectors = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            scatter[i, j] = moments[i + 1, j + 1] - moments[0, i + 1] * moments[0, j + 1] / rows
    if cholesky(scatter, root, size) > 0.0:
        return
    eigenvectors(scatter, vectors)
    for i in range(size):
        for j in range(size):
            total = moments[0, i + 1] * moments[0, j + 1] / rows
            for k in range(size):
                total += max(scatter[k, k], 0.0) * vectors[i, k] * vectors[j, k]
            moments[i + 1, j + 1] = total
