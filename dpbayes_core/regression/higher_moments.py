"""Second moments with the third and fourth of the covariates: one pass, and what it releases beside the second."""

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
from dpbayes_core.regression.fourth_moments import HALF_BITS, FourthMoments, Places
from dpbayes_core.regression.moments import ExactStatistics, SecondMoments, on_grid
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.fourth import WEIGHT_BITS, WEIGHT_UNIT, fourth_sensitivity, fourth_weights


@dataclass(frozen=True, repr=False)
class MomentSums(Confidential):
    """Confidential sums of both, over the same rows."""

    second: ExactStatistics
    fourth: ExactStatistics

    def __add__(self, other: "MomentSums") -> "MomentSums":
        return MomentSums(self.second + other.second, self.fourth + other.fourth)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        fourth = {f"fourth_{name}": held for name, held in self.fourth.to_arrays().items()}
        return self.second.to_arrays() | fourth

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "MomentSums":
        """The inverse of `to_arrays`."""
        fourth = {name.removeprefix("fourth_"): held for name, held in arrays.items() if name.startswith("fourth_")}
        return cls(ExactStatistics.from_arrays(arrays), ExactStatistics.from_arrays(fourth))


@dataclass(frozen=True)
class SecondAndFourthMoments:
    """Both statistics of one regression; a row's integers for the second stand before those for the fourth."""

    schema: RegressionSchema

    @property
    def columns(self) -> tuple[str, ...]:
        """Covariates in their declared order, the response last."""
        return self._second.columns

    @property
    def needs_people(self) -> bool:
        """No: every row weighs the same."""
        return False

    def encode(self, columns: Columns) -> EncodedTable:
        """The integers of both."""
        second, fourth = self._second.encode(columns), self._fourth.encode(columns)
        both = np.concatenate([second.integers, fourth.integers], axis=1)
        return EncodedTable(np.asfortranarray(both), second.counts)

    def sum(self, encoded: EncodedTable, people: Words | None = None) -> MomentSums:
        """Exact sums over the rows that count."""
        width, integers = len(self.columns), encoded.counted
        second, fourth = integers[:, :width], integers[:, width:]
        return MomentSums(self._second.sum(EncodedTable(second)), self._fourth.sum(EncodedTable(fourth)))

    def empty(self) -> MomentSums:
        """The sums over no rows."""
        return MomentSums(self._second.empty(), self._fourth.empty())

    @cached_property
    def _second(self) -> SecondMoments:
        return SecondMoments(self.schema)

    @cached_property
    def _fourth(self) -> FourthMoments:
        return FourthMoments(self.schema)


@dataclass(frozen=True, kw_only=True)
class HigherMoments:
    """Noisy third and fourth moments of the covariates, as released: each times its weight."""

    schema: RegressionSchema
    mechanism: Mechanism
    values: tuple[float, ...]

    @property
    def entries(self) -> tuple[Places, ...]:
        """Four places in order, 0 for the constant: what each value is the sum of products of."""
        return FourthMoments(self.schema).entries

    @cached_property
    def weights(self) -> Floats:
        """By what each moment was multiplied before noise was added."""
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
        """Whether the noise suffices for how far neighbours can move the values."""
        due = fourth_sensitivity(self.schema, neighbours, max_rows_per_unit)
        return len(self.values) == len(due.weights) and self.mechanism.protects(due)

    def payload(self) -> dict[str, Any]:
        """The noisy numbers, the places they belong to, and their weights."""
        entries = [list(entry) for entry in self.entries]
        return {"entries": entries, "values": list(self.values), "weights": self.weights.tolist()}

    @classmethod
    def release(
        cls, schema: RegressionSchema, mechanism: Mechanism, noise: NoiseSource, exact: ExactStatistics
    ) -> "HigherMoments":
        """The exact sums, weighted as whole numbers, on the mechanism's grid, with its noise."""
        weights = fourth_weights(schema, mechanism.norm)
        weighted = tuple(total * weight for total, weight in zip(exact.sums, weights, strict=True))
        rounded = on_grid(ExactStatistics(exact.rows, weighted), mechanism.grid, 4 * HALF_BITS + WEIGHT_BITS)
        return cls(schema=schema, mechanism=mechanism, values=tuple(mechanism.release(noise, rounded).tolist()))
