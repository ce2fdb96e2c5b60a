"""Coefficients given one draw of the latent statistic, for heteroscedastic residuals.

X'y given X'X has the covariance M around R_x theta, so theta has the precision R_x M^-1 R_x plus its prior's. All is
in coordinates in which R_x is the identity: M is a matrix G there, sigma2 times the identity under equal spread.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, solve_lower, solve_upper

LEAST = 0.02  # of sigma2: no direction of x has residuals of a smaller variance than that
SWEEPS = 30
STILL = 1e-30  # of the squares off the diagonal, over those on it


class Meat(NamedTuple):
    """The arrays of a `Sandwich`, for kernels."""

    middle: Floats
    root: Floats
    meat: Integers
    moments: Integers
    precision: Floats
    linear: Floats
    conjugate: bool
    rows: float
    units: Floats


@compiled
def rotate(matrix: Floats, vectors: Floats, p: int, q: int) -> None:
    """One Jacobi rotation that clears (p, q)."""
    cotangent = (matrix[q, q] - matrix[p, p]) / (2.0 * matrix[p, q])
    tangent = 1.0 / (abs(cotangent) + sqrt(cotangent * cotangent + 1.0))
    if cotangent < 0.0:
        tangent = -tangent
    cosine = 1.0 / sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    for i in range(matrix.shape[0]):
        a, b = matrix[i, p], matrix[i, q]
        matrix[i, p], matrix[i, q] = cosine * a - sine * b, sine * a + cosine * b
    for i in range(matrix.shape[0]):
        a, b = matrix[p, i], matrix[q, i]
        matrix[p, i], matrix[q, i] = cosine * a - sine * b, sine * a + cosine * b
        a, b = vectors[i, p], vectors[i, q]
        vectors[i, p], vectors[i, q] = cosine * a - sine * b, sine * a + cosine * b


@compiled
def diagonalise(matrix: Floats, vectors: Floats) -> None:
    """Diagonalise a symmetric matrix in place; the columns of `vectors` become its eigenvectors."""
    size = matrix.shape[0]
    vectors[:] = 0.0
    for i in range(size):
        vectors[i, i] = 1.0
    for _ in range(SWEEPS):
        off, on = 0.0, 0.0
        for i in range(size):
            on += matrix[i, i] * matrix[i, i]
            for j in range(i):
                off += matrix[i, j] * matrix[i, j]
        if off <= STILL * on:
            return
        for p in range(size - 1):
            for q in range(p + 1, size):
                if abs(matrix[p, q]) > 1e-300:
                    rotate(matrix, vectors, p, q)


@compiled
def draw_meat(meat: Meat, normals: Floats, rows: float, found: Floats) -> None:
    """Fill `found` with one draw of M, not corrected for the degrees of freedom of the fit."""
    size, entries = found.shape[0], meat.middle.size
    values = np.zeros(entries + 1)
    for i in range(entries):
        values[i] = meat.middle[i]
        for j in range(i + 1):
            values[i] += meat.root[i, j] * normals[j]
    freed = rows / max(rows - size, 1.0)
    for i in range(size):
        for j in range(size):
            found[i, j] = freed * values[meat.meat[i, j]]


@compiled
def whiten(matrix: Floats, root: Floats) -> None:
    """Replace a symmetric matrix by root^-1 matrix root^-T."""
    size = matrix.shape[0]
    for _ in range(2):
        for i in range(size):
            solve_lower(root, matrix[i], size)  # row i: a column of the transpose
        for i in range(size):
            for j in range(i):
                matrix[i, j], matrix[j, i] = matrix[j, i], matrix[i, j]


@compiled
def add_scores(spread: Floats, vectors: Floats, cross: Floats, whole: Floats, linear: Floats) -> None:
    """Add to `whole` and `linear` the precision and linear term of scores whose variances are `spread`'s diagonal."""
    size = cross.size
    for k in range(size):
        along, weight = 0.0, 1.0 / spread[k, k]
        for i in range(size):
            along += vectors[i, k] * cross[i]
        for i in range(size):
            linear[i] += vectors[i, k] * weight * along
            for j in range(size):
                whole[i, j] += vectors[i, k] * weight * vectors[j, k]


@compiled
def describe_normal(units: Floats, root: Floats, posterior: Floats, centre: Floats, expected: Floats) -> None:
    """Means and variances in the user's units of coefficients around `centre`."""
    size = centre.size
    for i in range(size):
        combination, expected[i], expected[size + i] = units[i].copy(), 0.0, 0.0
        for k in range(size):
            expected[i] += combination[k] * centre[k]
        solve_lower(root, combination, size)
        solve_lower(posterior, combination, size)
        for k in range(size):
            expected[size + i] += combination[k] * combination[k]


@compiled
def draw_one(meat: Meat, latent: Floats, normals: Floats, drawn: Floats, expected: Floats) -> None:
    """Redraw the coefficients in `drawn`, whose last entry is sigma; fill their means and variances in user units."""
    size, entries = meat.precision.shape[0], meat.middle.size
    moments, cross, root = np.zeros((size, size)), np.zeros(size), np.zeros((size, size))
    for i in range(size):
        cross[i] = latent[meat.moments[i, size]]
        for j in range(size):
            moments[i, j] = latent[meat.moments[i, j]]
    if not cholesky(moments, root, size) > 0.0:
        return
    spread, vectors, variance = np.zeros((size, size)), np.zeros((size, size)), drawn[size] * drawn[size]
    draw_meat(meat, normals[:entries], latent[0], spread)
    whiten(spread, root)
    diagonalise(spread, vectors)
    for i in range(size):
        spread[i, i] = max(spread[i, i], LEAST * variance)
    scaling = 1.0 / variance if meat.conjugate else 1.0
    whole, linear, posterior = meat.precision * scaling, meat.linear * scaling, np.zeros((size, size))
    whiten(whole, root)
    solve_lower(root, linear, size)
    solve_lower(root, cross, size)
    add_scores(spread, vectors, cross, whole, linear)
    if not cholesky(whole, posterior, size) > 0.0:
        return
    solve_lower(posterior, linear, size)
    centre = linear.copy()
    for i in range(size):
        linear[i] += normals[entries + i]
    for vector in (centre, linear):
        solve_upper(posterior, vector, size)
        solve_upper(root, vector, size)
    drawn[:size] = linear
    describe_normal(meat.units, root, posterior, centre, expected)


@compiled
def draw_all(meat: Meat, latent: Floats, normals: Floats, drawn: Floats, expected: Floats) -> None:
    """The same for every draw; `latent` has the count first and a zero last."""
    for draw in range(drawn.shape[0]):
        draw_one(meat, latent[draw], normals[draw], drawn[draw], expected[draw])
