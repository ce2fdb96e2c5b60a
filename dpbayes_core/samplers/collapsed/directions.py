"""A row of a triangular matrix as its length and partial correlations: T_j = r_j tanh w_j, r_{j+1} = r_j / cosh w_j.

The last entry is the rest, r_i > 0. However far a row shrinks, or leans on the rows before it, its coordinates stay
about as wide: the law of correlations has exponential tails in w.
"""

from math import cosh, exp, log, tanh

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled


@compiled
def place_row(position: Floats, size: int, row: Floats, lengths: Floats) -> float:
    """Fill `row` from w_1..w_{size-1} and the log length; returns the log Jacobian. `lengths` keeps the r_j."""
    length, value = exp(position[size - 1]), position[size - 1]
    for j in range(size - 1):
        lengths[j] = length
        row[j] = length * tanh(position[j])
        length /= cosh(position[j])
        value += log(length)
    lengths[size - 1] = length
    row[size - 1] = length
    return value


@compiled
def pull_row(position: Floats, size: int, lengths: Floats, bar: Floats, gradient: Floats) -> None:
    """Derivatives in the coordinates, given those in the row (`bar`); the Jacobian's are added."""
    in_length = bar[size - 1]
    for j in range(size - 2, -1, -1):
        in_length += 1.0 / lengths[j + 1]
        slope, rest = tanh(position[j]), lengths[j + 1] / lengths[j]
        gradient[j] = lengths[j] * rest * (bar[j] * rest - in_length * slope)
        in_length = bar[j] * slope + in_length * rest
    gradient[size - 1] = in_length * lengths[0] + 1.0
