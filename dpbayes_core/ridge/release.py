"""The release for AdaSSP: noisy moments of (1, x), noisy X'y and a noisy least eigenvalue, charged together.

Sensitivity under replace-one, every column in [-1, 1], r = (1, x) with d columns. The squared L2 sensitivities of the
parts add up:

- moments of (1, x): 4 floor((d + 1)^2 / 4), as for any second moments of d columns;
- X'y: |r y - r' y'| <= |r| |y| + |r'| |y'| <= 2 sqrt(d + 1), attained at r = r' = (1, .., 1), y = 1, y' = -1;
- the least eigenvalue of S = sum r r': removing r r' lowers it by at most |r|^2, adding it raises it by at most |r|^2,
  hence by at most d + 1 either way; attained where the new row is parallel to the least eigenvector.

The eigenvalue of exact integer moments is rounded down to a grid without any floating point.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import GaussianMechanism, Mechanism, gaussian_for, mechanism_from_record
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.release import PublicNumbers
from dpbayes_core.privacy.sensitivity import REPLACE_ONE, Sensitivity
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import PRODUCT_BITS, ExactStatistics, SecondMoments, on_grid
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.rounding import float_up, root_up

Matrix = Sequence[Sequence[int]]


def least_eigenvalue_steps(matrix: Matrix, step: int) -> int:
    """The largest t with matrix - t step I positive definite; -1 where t = 0 has none.

    It is a function of the eigenvalue alone, and changes by at most one step more. The first diagonal entry is the
    public number of rows and the largest, so that the number of tests reveals nothing.
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
    """Whether matrix - shift I is positive definite, by Bareiss' elimination in integers."""
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
    """The entries (i, j) of the moments of (1, x), then of X'y; the least eigenvalue, which follows, has none."""
    size = schema.m
    moments = tuple((i, j) for i in range(size) for j in range(max(i, 1), size))
    return (*moments, *((i, size) for i in range(size)))


def ridge_sensitivity(schema: RegressionSchema) -> Sensitivity:
    """The sensitivity of all three parts together, for Gaussian noise."""
    if any(variable.kind != "continuous" for variable in schema.variables) or not schema.intercept:
        raise ValueError(
            "cannot bound sensitivity: a ridge release takes continuous columns and an intercept. Release a regression."
        )
    parts = RidgeSquares.of(schema.d)
    whole = float_up(root_up(Fraction(parts.moments + parts.cross + parts.eigenvalue)))
    return Sensitivity(math.inf, whole, (1.0,) * (len(ridge_entries(schema)) + 1), REPLACE_ONE)


@dataclass(frozen=True, kw_only=True)
class RidgeRelease(PublicNumbers):
    """Noisy moments of (1, x), X'y and least eigenvalue in standardised units; the number of rows is public."""

    kind: ClassVar[str] = "ridge"

    schema: RegressionSchema
    rows: int
    mechanism: Mechanism
    values: tuple[float, ...]
    neighbours: str = REPLACE_ONE
    max_rows_per_unit: int = 1

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """The entries of the values without the last, the least eigenvalue."""
        return ridge_entries(self.schema)

    @property
    def protected(self) -> bool:
        """Whether the mechanism's sensitivities are at least those of the values."""
        if (self.neighbours, self.max_rows_per_unit) != (REPLACE_ONE, 1):
            return False
        gaussian = isinstance(self.mechanism, GaussianMechanism)
        due = ridge_sensitivity(self.schema)
        return gaussian and len(self.values) == len(due.weights) and self.mechanism.protects(due)

    def payload(self) -> dict[str, Any]:
        """The noisy numbers, their entries and the number of rows."""
        return {
            "entries": [list(place) for place in self.entries],
            "least_eigenvalue": self.values[-1],
            "rows": self.rows,
            "values": list(self.values[:-1]),
        }

    def moments(self) -> Floats:
        """(m, m + 1): the noisy moments of (1, x), and X'y as the last column."""
        found = np.zeros((self.schema.m, self.schema.m + 1))
        found[0, 0] = self.rows
        for (i, j), value in zip(self.entries, self.values, strict=False):
            found[i, j] = value
            if j < self.schema.m:
                found[j, i] = value
        return found

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return self._record(neighbours=self.neighbours, schema=self.schema.to_record())

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "RidgeRelease":
        """The inverse of `to_record`."""
        noisy = record["noisy"]
        return cls(
            schema=RegressionSchema.from_record(record["schema"]),
            rows=noisy["rows"],
            mechanism=mechanism_from_record(record["mechanism"]),
            values=(*noisy["values"], noisy["least_eigenvalue"]),
            neighbours=record["neighbours"],
        )


@dataclass(frozen=True, kw_only=True)
class RidgeDesign:
    """The design of an AdaSSP release: second moments without y'y, Gaussian noise on all three parts."""

    schema: RegressionSchema
    mechanism: GaussianMechanism
    neighbours: str = REPLACE_ONE

    def statistic(self) -> SecondMoments:
        """Sums of products of the encoded columns."""
        return SecondMoments(self.schema)

    def release(self, noise: NoiseSource, exact: ExactStatistics) -> RidgeRelease:
        """The exact sums and the eigenvalue, both on the mechanism's grid, with its noise."""
        grid, size = self.mechanism.grid, self.schema.m
        sums = dict(zip(self.schema.entries, exact.sums, strict=True)) | {(0, 0): exact.rows * UNIT**2}
        matrix = [[sums[min(i, j), max(i, j)] for j in range(size)] for i in range(size)]
        step = 1 << (PRODUCT_BITS - grid)
        chosen = ExactStatistics(exact.rows, tuple(sums[place] for place in ridge_entries(self.schema)))
        eigenvalue = float(np.ldexp(float(least_eigenvalue_steps(matrix, step)), -grid))
        noisy = self.mechanism.release(noise, np.append(on_grid(chosen, grid), eigenvalue))
        return RidgeRelease(schema=self.schema, rows=exact.rows, mechanism=self.mechanism, values=tuple(noisy.tolist()))


def ridge_design(
    schema: RegressionSchema,
    *,
    grid: int,
    epsilon: float | Decimal | None = None,
    delta: float | Decimal | None = None,
    rho: float | Decimal | None = None,
) -> RidgeDesign:
    """The design with noise of a stated rho, or of the largest rho that (epsilon, delta) allows."""
    noise = gaussian_for(ridge_sensitivity(schema), grid=grid, epsilon=epsilon, delta=delta, rho=rho)
    return RidgeDesign(schema=schema, mechanism=noise)
