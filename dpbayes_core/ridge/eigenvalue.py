"""The least eigenvalue of exact integer moments, rounded down to a grid without any floating point."""

from collections.abc import Sequence

Matrix = Sequence[Sequence[int]]


def least_eigenvalue_steps(matrix: Matrix, step: int) -> int:
    """The largest t with matrix - t step I positive definite; -1 where t = 0 has none.

    A function of the eigenvalue alone that moves by at most one step more than it. The first diagonal entry is the
    number of rows, public and the largest: the number of tests says nothing.
    """
    low, high = -1, 1 + matrix[0][0] // step
    for _ in range((high + 1).bit_length()):
        middle = (low + high) // 2
        if is_positive_definite(matrix, middle * step):
            low = middle
        else:
            high = middle
    return low


def is_positive_definite(matrix: Matrix, shift: int) -> bool:
    """Whether matrix - shift I is: every leading minor positive, by Bareiss' elimination in integers."""
    size = len(matrix)
    rows = [[int(value) - (shift if i == j else 0) for j, value in enumerate(row)] for i, row in enumerate(matrix)]
    previous = 1
    for k in range(size):
        pivot = rows[k][k]
        if pivot <= 0:
            return False
        for i in range(k + 1, size):
            for j in range(k + 1, size):
                rows[i][j] = (rows[i][j] * pivot - rows[i][k] * rows[k][j]) // previous
        previous = pivot
    return True
