"""What leaves the secure task: noisy statistics together with the mechanism that made them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.canonical import canonical_json
from dpbayes_core.mechanisms import Mechanism, mechanism_from_record
from dpbayes_core.schema import RegressionSchema
from dpbayes_core.sensitivity import regression_sensitivity

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Release:
    """Noisy second moments in standardised units; everything a sampler may know about the data."""

    kind: ClassVar[str] = "regression"

    schema: RegressionSchema
    neighbours: str
    rows: int  # public under replace-one
    mechanism: Mechanism
    values: tuple[float, ...]  # one per schema.entries

    @property
    def protected(self) -> bool:
        """Whether the noise suffices for how far neighbours can move these statistics, one value each."""
        due = regression_sensitivity(self.schema)
        whole = len(self.values) == len(self.schema.entries) and self.neighbours == due.neighbours
        return whole and self.mechanism.protects(due)

    @property
    def digest(self) -> str:
        """sha256 of the noisy payload alone: entries, values and the public number of rows."""
        return hashlib.sha256(canonical_json(self.payload())).hexdigest()

    def payload(self) -> dict[str, Any]:
        """The noisy numbers and the places they belong to."""
        return {"entries": [list(e) for e in self.schema.entries], "rows": self.rows, "values": list(self.values)}

    def matrix(self) -> Floats:
        """The noisy (m+1, m+1) matrix of second moments, known and tied entries filled in."""
        return self.schema.complete(np.array(self.values), float(self.rows))

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
    def from_record(cls, record: Mapping[str, Any]) -> "Release":
        """The inverse of `to_record`."""
        return cls(
            schema=RegressionSchema.from_record(record["schema"]),
            neighbours=record["neighbours"],
            rows=record["noisy"]["rows"],
            mechanism=mechanism_from_record(record["mechanism"]),
            values=tuple(record["noisy"]["values"]),
        )
