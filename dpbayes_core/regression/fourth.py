"""Third and fourth moments of the covariates, summed and released together with the second moments.

Sums of products of 16-bit integers are exact: each product of two is cut into two halves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Floats, Words
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import EncodedTable
from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.regression.fixed_point import encoded_integers
from dpbayes_core.regression.moments import ExactStatistics, WithSecondMoments, on_grid
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.fourth import (
    WEIGHT_BITS,
    WEIGHT_UNIT,
    Places,
    fourth_entries,
    fourth_sensitivity,
    fourth_weights,
)

FOURTH_BITS = 16
HALF_BITS = FOURTH_BITS - 1  # a product of two variables, up to 2**30 in size, is cut in halves of 15 bits
FOURTH_UNIT = 2**HALF_BITS
BLOCK_ROWS = 2048  # a block of pairs stays in the processor's cache
MOST_ROWS = 2**23  # products of halves are at most 2**30: the sum of this many is exact in doubles


@dataclass(frozen=True)
class FourthMoments:
    """Sums of products of three or four covariates that no second moment contains, in units of FOURTH_UNIT**-4."""

    schema: RegressionSchema

    @property
    def columns(self) -> tuple[str, ...]:
        """The covariates in their declared order."""
        return tuple(column.name for column in self.schema.covariates)

    @property
    def needs_people(self) -> bool:
        """False: every row has the same weight."""
        return False

    @cached_property
    def entries(self) -> tuple[Places, ...]:
        """Four variables each, in order and 0 for the constant: no square of a level, no two levels of one column."""
        return tuple(fourth_entries(self.schema))

    def encode(self, columns: Columns) -> EncodedTable:
        """Per covariate a number in [-FOURTH_UNIT, FOURTH_UNIT], or the code of a level.

        The encoding of the second moments says which rows count, since that depends on the response, too.
        """
        return EncodedTable(encoded_integers(self.schema, self.columns, columns, FOURTH_BITS))

    def sum(self, encoded: EncodedTable, people: Words | None = None) -> ExactStatistics:
        """Exact sums over the rows that count."""
        total, integers = self.empty(), encoded.counted
        for start in range(0, len(integers), MOST_ROWS):
            total += self._exact(integers[start : start + MOST_ROWS])
        return total

    def empty(self) -> ExactStatistics:
        """The sums over no rows."""
        return ExactStatistics(0, (0,) * len(self.entries))

    def _exact(self, integers: NDArray[np.int32]) -> ExactStatistics:
        pairs = sorted({pair for entry in self.entries for pair in (entry[:2], entry[2:])})
        place = {pair: number for number, pair in enumerate(pairs)}
        first, second = np.array(pairs, np.int64).reshape(-1, 2).T
        halves = np.zeros((2 * len(pairs), 2 * len(pairs)))
        for start in range(0, len(integers), BLOCK_ROWS):
            variables = self._variables(integers[start : start + BLOCK_ROWS])
            products = variables[first] * variables[second]
            high = np.floor(products / FOURTH_UNIT)
            both = np.concatenate([high, products - high * FOURTH_UNIT])
            halves += both @ both.T
        found, low = halves.astype(np.int64), len(pairs)
        sums: list[int] = []
        for entry in self.entries:
            a, b = place[entry[:2]], place[entry[2:]]
            middle = int(found[a, low + b]) + int(found[low + a, b])
            sums.append((int(found[a, b]) << 2 * HALF_BITS) + (middle << HALF_BITS) + int(found[low + a, low + b]))
        return ExactStatistics(len(integers), tuple(sums))

    def _variables(self, integers: NDArray[np.int32]) -> NDArray[np.float64]:
        """The constant and every variable, indicators expanded, (1 + d, rows)."""
        rows = [np.full(len(integers), float(FOURTH_UNIT))]
        for column, values in zip(self.schema.covariates, integers.T, strict=True):
            kinds = column.variables()
            if kinds[0].kind == "indicator":
                rows += [(values == code) * float(FOURTH_UNIT) for code in range(1, len(kinds) + 1)]
            else:
                rows.append(values.astype(np.float64))
        return np.array(rows)


@dataclass(frozen=True, repr=False)
class MomentSums(Confidential):
    """Confidential second and fourth moments of the same rows."""

    second: ExactStatistics
    fourth: ExactStatistics

    def __add__(self, other: "MomentSums") -> "MomentSums":
        return MomentSums(self.second + other.second, self.fourth + other.fourth)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        fourth = {f"fourth_{name}": array for name, array in self.fourth.to_arrays().items()}
        return self.second.to_arrays() | fourth

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "MomentSums":
        """The inverse of `to_arrays`."""
        fourth = {name.removeprefix("fourth_"): array for name, array in arrays.items() if name.startswith("fourth_")}
        return cls(ExactStatistics.from_arrays(arrays), ExactStatistics.from_arrays(fourth))


@dataclass(frozen=True)
class SecondAndFourthMoments(WithSecondMoments):
    """Second and fourth moments of one regression; in a row's integers, those for the second moments come first."""

    def encode(self, columns: Columns) -> EncodedTable:
        """The integers for second moments, then those for fourth."""
        second, fourth = self.second.encode(columns), self._fourth.encode(columns)
        both = np.concatenate([second.integers, fourth.integers], axis=1)
        return EncodedTable(np.asfortranarray(both), second.counts)

    def sum(self, encoded: EncodedTable, people: Words | None = None) -> MomentSums:
        """Exact sums over the rows that count."""
        width, integers = len(self.columns), encoded.counted
        second, fourth = integers[:, :width], integers[:, width:]
        return MomentSums(self.second.sum(EncodedTable(second)), self._fourth.sum(EncodedTable(fourth)))

    def empty(self) -> MomentSums:
        """The sums over no rows."""
        return MomentSums(self.second.empty(), self._fourth.empty())

    @cached_property
    def _fourth(self) -> FourthMoments:
        return FourthMoments(self.schema)


@dataclass(frozen=True, kw_only=True)
class HigherMoments:
    """Noisy third and fourth moments of the covariates, each times its weight, as released."""

    schema: RegressionSchema
    mechanism: Mechanism
    values: tuple[float, ...]

    @property
    def entries(self) -> tuple[Places, ...]:
        """The four variables, in order and 0 for the constant, whose products each value sums."""
        return FourthMoments(self.schema).entries

    @cached_property
    def weights(self) -> Floats:
        """The factor of each moment before noise was added."""
        return np.array(fourth_weights(self.schema, self.mechanism.norm)) / WEIGHT_UNIT

    @property
    def moments(self) -> Floats:
        """The noisy sums of products of standardised covariates, one for each entry."""
        return np.array(self.values) / self.weights

    @property
    def scales(self) -> Floats:
        """The noise scale of each of the moments."""
        return self.mechanism.scales / self.weights

    def protected(self, neighbours: str, max_rows_per_unit: int) -> bool:
        """Whether the mechanism's sensitivities are at least those of the values."""
        due = fourth_sensitivity(self.schema, neighbours, max_rows_per_unit)
        return len(self.values) == len(due.weights) and self.mechanism.protects(due)

    def payload(self) -> dict[str, Any]:
        """The noisy numbers, the entries that they estimate, and their weights."""
        entries = [list(entry) for entry in self.entries]
        return {"entries": entries, "values": list(self.values), "weights": self.weights.tolist()}

    @classmethod
    def release(
        cls, schema: RegressionSchema, mechanism: Mechanism, noise: NoiseSource, exact: ExactStatistics
    ) -> "HigherMoments":
        """The exact sums times integer weights, on the mechanism's grid, with its noise."""
        weights = fourth_weights(schema, mechanism.norm)
        weighted = tuple(total * weight for total, weight in zip(exact.sums, weights, strict=True))
        rounded = on_grid(ExactStatistics(exact.rows, weighted), mechanism.grid, 4 * HALF_BITS + WEIGHT_BITS)
        return cls(schema=schema, mechanism=mechanism, values=tuple(mechanism.release(noise, rounded).tolist()))
