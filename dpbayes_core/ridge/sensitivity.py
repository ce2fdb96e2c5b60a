"""How far one person can move what a ridge estimate is made of: moments of (1, x), X'y, and the least eigenvalue.

Replace-one, every column in [-1, 1], r = (1, x) with d columns. The parts' squares add up, so that a release is
priced as the sum of its parts:

- moments of (1, x): 4 floor((d + 1)^2 / 4), as for any second moments of d columns;
- X'y: |r y - r' y'| <= |r| |y| + |r'| |y'| <= 2 sqrt(d + 1), attained at r = r' = (1, .., 1), y = 1, y' = -1;
- the least eigenvalue of S = sum r r': taking r r' away lowers it by at most |r|^2, adding it raises it by at most
  |r|^2, hence by at most d + 1 either way; attained where the new row lies along the least eigenvector.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from dpbayes_core.privacy.sensitivity import REPLACE_ONE, Sensitivity
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.rounding import float_up, root_up


@dataclass(frozen=True)
class RidgeSquares:
    """Exact squares of the L2 sensitivities of the three parts."""

    moments: int
    cross: int
    eigenvalue: int

    @classmethod
    def of(cls, d: int) -> "RidgeSquares":
        """Of d continuous covariates and an intercept."""
        return cls(4 * ((d + 1) ** 2 // 4), 4 * (d + 1), (d + 1) ** 2)


def ridge_entries(schema: RegressionSchema) -> tuple[tuple[int, int], ...]:
    """Places (i, j) of the moments of (1, x), then of X'y; the least eigenvalue comes after them and has none."""
    size = schema.m
    moments = tuple((i, j) for i in range(size) for j in range(max(i, 1), size))
    return (*moments, *((i, size) for i in range(size)))


def ridge_sensitivity(schema: RegressionSchema) -> Sensitivity:
    """Of all three together; only Gaussian noise is meant for it."""
    if any(variable.kind != "continuous" for variable in schema.variables) or not schema.intercept:
        raise ValueError(
            "cannot bound sensitivity: a ridge release takes continuous columns and an intercept. Release a regression."
        )
    parts = RidgeSquares.of(schema.d)
    whole = float_up(root_up(Fraction(parts.moments + parts.cross + parts.eigenvalue)))
    return Sensitivity(math.inf, whole, (1.0,) * (len(ridge_entries(schema)) + 1), REPLACE_ONE)
