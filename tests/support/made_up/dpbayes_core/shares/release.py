"""Counts of the rows of each level of one column, with Tulap noise."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpbayes_core.arrays import Integers
from dpbayes_core.canonical import canonical_json
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import Columns, EncodedTable, Words
from dpbayes_core.privacy.mechanisms import Mechanism, mechanism_from_record
from dpbayes_core.privacy.mechanisms.tulap import TulapMechanism
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.sensitivity import REPLACE_ONE, Sensitivity
from dpbayes_core.regression.schema import Factor

MOVED = 2  # a replaced row leaves one level and enters another


@dataclass(frozen=True, repr=False)
class LevelCounts(Confidential):
    """Confidential counts, one a level."""

    counts: Integers

    def __add__(self, other: "LevelCounts") -> "LevelCounts":
        return LevelCounts(self.counts + other.counts)

    def to_arrays(self) -> dict[str, Integers]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        return {"counts": self.counts}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Integers]) -> "LevelCounts":
        """The inverse of `to_arrays`."""
        return cls(arrays["counts"])


@dataclass(frozen=True)
class LevelCounting:
    """Counts the rows of each level."""

    column: Factor
    needs_people: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column.name,)

    def encode(self, columns: Columns) -> EncodedTable:
        """Level codes; one outside the levels is the first level."""
        codes = np.asarray(columns[self.column.name])
        known = np.where((codes >= 0) & (codes < len(self.column.levels)), codes, 0)
        return EncodedTable(np.asfortranarray(known.astype(np.int32)[:, None]))

    def sum(self, encoded: EncodedTable, people: Words | None) -> LevelCounts:
        """The counts of these rows."""
        return LevelCounts(np.bincount(encoded.counted[:, 0], minlength=len(self.column.levels)).astype(np.int64))

    def empty(self) -> LevelCounts:
        """No row anywhere."""
        return LevelCounts(np.zeros(len(self.column.levels), dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class SharesRelease:
    """Noisy counts of a column's levels, and the public number of rows."""

    kind: ClassVar[str] = "shares"

    column: Factor
    rows: int
    mechanism: Mechanism
    values: tuple[float, ...]
    neighbours: str = REPLACE_ONE
    max_rows_per_unit: int = 1

    @property
    def protected(self) -> bool:
        """Whether the noise suffices for a replaced row."""
        weights = (1.0,) * len(self.column.levels)
        due = Sensitivity(MOVED, MOVED, weights, REPLACE_ONE)
        whole = len(self.values) == len(weights) and self.neighbours == REPLACE_ONE
        return whole and isinstance(self.mechanism, TulapMechanism) and self.mechanism.protects(due)

    @property
    def digest(self) -> str:
        """sha256 of the noisy payload alone."""
        return hashlib.sha256(canonical_json(self.payload())).hexdigest()

    def payload(self) -> dict[str, Any]:
        """The noisy counts and the number of rows."""
        return {"rows": self.rows, "values": list(self.values)}

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "column": self.column.to_record(),
            "kind": self.kind,
            "mechanism": self.mechanism.to_record(),
            "neighbours": self.neighbours,
            "noisy": self.payload(),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "SharesRelease":
        """The inverse of `to_record`."""
        return cls(
            column=Factor(record["column"]["name"], tuple(record["column"]["levels"])),
            rows=record["noisy"]["rows"],
            mechanism=mechanism_from_record(record["mechanism"]),
            values=tuple(record["noisy"]["values"]),
            neighbours=record["neighbours"],
        )


@dataclass(frozen=True, kw_only=True)
class SharesDesign:
    """What is counted, and with which noise."""

    column: Factor
    epsilon: float
    neighbours: str = REPLACE_ONE

    @property
    def mechanism(self) -> TulapMechanism:
        """Calibrated to a replaced row."""
        return TulapMechanism(epsilon=self.epsilon, moved=MOVED, entries=len(self.column.levels))

    def statistic(self) -> LevelCounting:
        """The counts."""
        return LevelCounting(self.column)

    def release(self, noise: NoiseSource, exact: LevelCounts) -> SharesRelease:
        """The counts with noise."""
        values = tuple(self.mechanism.release(noise, exact.counts).tolist())
        rows = int(exact.counts.sum())
        return SharesRelease(column=self.column, rows=rows, mechanism=self.mechanism, values=values)
