"""Noisy second moments of the covariates, each row weighted by its squared residual: the middle of a sandwich.

A row's weight is w = min(e / E, 1)^2, e its residual by a public fit and E five of the fit's residual sds. Its root is
rounded to steps of 2^-19, and so is every covariate times that: a row adds w r r' for some row r within the bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Floats, ShortIntegers, Words
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import EncodedTable
from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import BLOCK_ROWS, ColumnLayout, ExactStatistics, WithSecondMoments, on_grid
from dpbayes_core.regression.public_fit import PublicFit
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.residual import residual_entries, residual_sensitivity


@dataclass(frozen=True, repr=False, eq=False)
class SumsAndRows(Confidential):
    """Confidential second moments, and the encoded rows for a second step."""

    second: ExactStatistics
    rows: tuple[ShortIntegers, ...]

    def __add__(self, other: "SumsAndRows") -> "SumsAndRows":
        return SumsAndRows(self.second + other.second, self.rows + other.rows)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        rows = np.concatenate(self.rows) if self.rows else np.empty((0, 0), np.int32)
        return self.second.to_arrays() | {"rows": rows}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "SumsAndRows":
        """The inverse of `to_arrays`."""
        rows = arrays["rows"]
        return cls(ExactStatistics.from_arrays(arrays), (np.asfortranarray(rows),) if len(rows) else ())


@dataclass(frozen=True)
class SecondMomentsWithRows(WithSecondMoments):
    """Second moments of one regression, together with the encoded rows, from which the second step takes residuals."""

    def encode(self, columns: Columns) -> EncodedTable:
        """The integers for second moments."""
        return self.second.encode(columns)

    def sum(self, encoded: EncodedTable, people: Words | None = None) -> SumsAndRows:
        """Exact sums over the rows that count, and those rows."""
        rows = encoded.counted
        return SumsAndRows(self.second.sum(encoded), (rows,) if len(rows) else ())

    def empty(self) -> SumsAndRows:
        """The sums over no rows."""
        return SumsAndRows(self.second.empty(), ())


@dataclass(frozen=True, kw_only=True)
class ResidualMoments:
    """Noisy sums of products of the covariates and the constant, weighted by squared residuals, as released."""

    schema: RegressionSchema
    mechanism: Mechanism
    fit: PublicFit
    values: tuple[float, ...]

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """The entry (i, j) that each value estimates; (0, 0) is the sum of the weights."""
        return residual_entries(self.schema)

    @property
    def scales(self) -> Floats:
        """The noise scale of each entry of the matrix."""
        return self.mechanism.scales * self.fit.limit**2

    def matrix(self) -> Floats:
        """The noisy sum of e^2 (1, x)(1, x)' on the standardised scale, with tied entries filled in."""
        return completed(self.schema, np.array(self.values)) * self.fit.limit**2

    def protected(self, neighbours: str, max_rows_per_unit: int) -> bool:
        """Whether the mechanism's sensitivities are at least those of the values."""
        due = residual_sensitivity(self.schema, neighbours, max_rows_per_unit)
        return len(self.values) == len(due.weights) and self.mechanism.protects(due)

    def payload(self) -> dict[str, Any]:
        """The noisy numbers, the entries that they estimate, and the fit that gave the residuals."""
        entries = [list(entry) for entry in self.entries]
        return {"entries": entries, "fit": self.fit.to_record(), "values": list(self.values)}

    @classmethod
    def release(
        cls,
        schema: RegressionSchema,
        mechanism: Mechanism,
        noise: NoiseSource,
        fit: PublicFit,
        rows: Sequence[ShortIntegers],
    ) -> "ResidualMoments":
        """The exact sums on the mechanism's grid, with its noise."""
        exact = residual_sums(schema, fit, rows)
        values = mechanism.release(noise, on_grid(exact, mechanism.grid)).tolist()
        return cls(schema=schema, mechanism=mechanism, fit=fit, values=tuple(values))


def completed(schema: RegressionSchema, values: Floats) -> Floats:
    """The symmetric matrix of (1, x) from its entries; a two-level column squares to 1, an indicator to itself."""
    full = np.zeros((schema.m, schema.m))
    for (i, j), value in zip(residual_entries(schema), values, strict=True):
        full[i, j] = full[j, i] = value
    for i, variable in enumerate(schema.variables[:-1], start=1):
        if variable.kind == "two-level":
            full[i, i] = full[0, 0]
        elif variable.kind == "indicator":
            full[i, i] = full[0, i]
    return full


def residual_sums(schema: RegressionSchema, fit: PublicFit, rows: Sequence[ShortIntegers]) -> ExactStatistics:
    """Exact weighted sums over encoded rows, the same for every order and split of the rows."""
    layout, total = ColumnLayout.of(schema), np.zeros((schema.m, schema.m), dtype=object)
    for part in rows:
        for start in range(0, len(part), BLOCK_ROWS):
            weighed = _weighed(layout, schema.m, fit, part[start : start + BLOCK_ROWS])
            # exact: integers, and every partial sum is below 2**53
            total += (weighed @ weighed.T).astype(np.int64).astype(object)
    sums = tuple(int(total[i, j]) for i, j in residual_entries(schema))
    return ExactStatistics(sum(map(len, rows)), sums)


def _weighed(layout: ColumnLayout, size: int, fit: PublicFit, integers: ShortIntegers) -> Floats:
    """(1, x) of each row times the root of its weight, (variables, rows): integers up to UNIT in size."""
    plain = np.zeros((size, len(integers)))
    plain[0] = UNIT
    *numbers, (response, _) = layout.numbers
    for column, variable in numbers:
        plain[variable] = integers[:, column]
    for column, variables in layout.factors:
        for code, variable in enumerate(variables, start=1):
            plain[variable] = np.where(integers[:, column] == code, float(UNIT), 0.0)
    residual = integers[:, response].astype(np.float64)
    for coefficient, values in zip(fit.coefficients, plain, strict=True):  # one by one: independent of the split
        residual -= coefficient * values
    root = np.rint(np.minimum(np.abs(residual) / fit.limit, float(UNIT)))
    return np.rint(plain * root / UNIT)
