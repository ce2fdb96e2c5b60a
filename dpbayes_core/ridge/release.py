"""The release that AdaSSP asks for: noisy moments of (1, x), noisy X'y and a noisy least eigenvalue, at one price."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.mechanisms import GaussianMechanism, Mechanism, gaussian_for, mechanism_from_record
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.sensitivity import REPLACE_ONE
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import PRODUCT_BITS, ExactStatistics, SecondMoments, on_grid
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.ridge.eigenvalue import least_eigenvalue_steps
from dpbayes_core.ridge.sensitivity import ridge_entries, ridge_sensitivity


@dataclass(frozen=True, kw_only=True)
class RidgeRelease:
    """Noisy, in standardised units: moments of (1, x), X'y, least eigenvalue; the number of rows is public."""

    kind: ClassVar[str] = "ridge"

    schema: RegressionSchema
    rows: int
    mechanism: Mechanism
    values: tuple[float, ...]
    neighbours: str = REPLACE_ONE
    max_rows_per_unit: int = 1

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Places of the values but the last, the least eigenvalue."""
        return ridge_entries(self.schema)

    @property
    def protected(self) -> bool:
        """Whether the noise suffices for how far neighbours can move all of it."""
        if (self.neighbours, self.max_rows_per_unit) != (REPLACE_ONE, 1):
            return False
        gaussian = isinstance(self.mechanism, GaussianMechanism)
        due = ridge_sensitivity(self.schema)
        return gaussian and len(self.values) == len(due.weights) and self.mechanism.protects(due)

    @property
    def digest(self) -> str:
        """sha256 of the noisy payload alone."""
        return hashlib.sha256(canonical_json(self.payload())).hexdigest()

    def payload(self) -> dict[str, Any]:
        """The noisy numbers, their places and the number of rows."""
        return {
            "entries": [list(place) for place in self.entries],
            "least_eigenvalue": self.values[-1],
            "rows": self.rows,
            "values": list(self.values[:-1]),
        }

    def moments(self) -> Floats:
        """Noisy (m, m + 1): the moments of (1, x), and X'y as the last column."""
        found = np.zeros((self.schema.m, self.schema.m + 1))
        found[0, 0] = self.rows
        for (i, j), value in zip(self.entries, self.values, strict=False):
            found[i, j] = value
            if j < self.schema.m:
                found[j, i] = value
        return found

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "kind": self.kind,
            "mechanism": self.mechanism.to_record(),
            "neighbours": self.neighbours,
            "noisy": self.payload(),
            "schema": self.schema.to_record(),
        }

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
    """One pass of second moments, of which y'y is not released; Gaussian noise for the three parts together."""

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
    """Noise of a stated rho, or the one that fills a cap of (epsilon, delta) alone."""
    noise = gaussian_for(ridge_sensitivity(schema), grid=grid, epsilon=epsilon, delta=delta, rho=rho)
    return RidgeDesign(schema=schema, mechanism=noise)
