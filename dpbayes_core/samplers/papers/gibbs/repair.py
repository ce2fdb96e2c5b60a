"""Positive semidefinite repair by Jacobi rotations: plain loops, the same bits for any number of threads."""

from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky

MOST_SWEEPS = 60


@compiled
def rotate(matrix: Floats, vectors: Floats, p: int, q: int) -> None:
    """Make entry (p, q) zero by one rotation."""
    ratio = (matrix[q, q] - matrix[p, p]) / (2.0 * matrix[p, q])
    tangent = 1.0 / (abs(ratio) + sqrt(1.0 + ratio * ratio))
    if ratio < 0.0:
        tangent = -tangent
    cosine = 1.0 / sqrt(1.0 + tangent * tangent)
    sine = tangent * cosine
    for k in range(matrix.shape[0]):
        first, second = matrix[p, k], matrix[q, k]
        matrix[p, k] = cosine * first - sine * second
        matrix[q, k] = sine * first + cosine * second
        first, second = vectors[p, k], vectors[q, k]
        vectors[p, k] = cosine * first - sine * second
        vectors[q, k] = sine * first + cosine * second
    for k in range(matrix.shape[0]):
        first, second = matrix[k, p], matrix[k, q]
        matrix[k, p] = cosine * first - sine * second
        matrix[k, q] = sine * first + cosine * second


@compiled
def diagonalise(matrix: Floats, vectors: Floats) -> None:
    """Rotate a symmetric matrix to its eigenvalues, on its diagonal; the eigenvectors are the rows of `vectors`."""
    size = matrix.shape[0]
    vectors[:] = 0.0
    scale = 0.0
    for i in range(size):
        vectors[i, i] = 1.0
        for j in range(size):
            scale += matrix[i, j] ** 2
    for _ in range(MOST_SWEEPS):
        outside = 0.0
        for i in range(size):
            for j in range(i):
                outside += matrix[i, j] ** 2
        if outside <= 1e-28 * scale:
            return
        for p in range(size):
            for q in range(p + 1, size):
                if matrix[p, q] != 0.0:
                    rotate(matrix, vectors, p, q)


@compiled
def rebuild(matrix: Floats, vectors: Floats, floor: float) -> None:
    """The matrix whose diagonalisation this is, eigenvalues raised to the floor."""
    size = matrix.shape[0]
    values = np.empty(size)
    for k in range(size):
        values[k] = max(matrix[k, k], floor)
    matrix[:] = 0.0
    for k in range(size):
        for i in range(size):
            weight = values[k] * vectors[k, i]
            for j in range(size):
                matrix[i, j] += weight * vectors[k, j]


@compiled
def repair(moments: Floats, scatter: Floats, vectors: Floats, factor: Floats, floor: float) -> None:
    """Raise the centred scatter's eigenvalues to `floor`, unless the scatter has a Cholesky factor already.

    Fills `scatter`; the constant is row 0 of `moments`.
    """
    size, rows = scatter.shape[0], moments[0, 0]
    for i in range(size):
        for j in range(size):
            scatter[i, j] = moments[i + 1, j + 1] - moments[0, i + 1] * moments[0, j + 1] / rows
    if cholesky(scatter, factor, size) > floor:
        return
    diagonalise(scatter, vectors)
    rebuild(scatter, vectors, floor)
    for i in range(size):
        for j in range(size):
            moments[i + 1, j + 1] = scatter[i, j] + moments[0, i + 1] * moments[0, j + 1] / rows
