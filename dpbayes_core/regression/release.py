"""What leaves the secure task: noisy statistics together with the mechanism that made them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.mechanisms import Mechanism, mechanism_from_record
from dpbayes_core.privacy.mechanisms.beside import beside_of
from dpbayes_core.privacy.sensitivity import NEIGHBOURS, Sensitivity
from dpbayes_core.regression.higher_moments import HigherMoments
from dpbayes_core.regression.public_fit import PublicFit, public_fit
from dpbayes_core.regression.residual_moments import ResidualMoments
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.box import (
    count_is_public,
    regression_sensitivity,
    released_entries,
    understated_sensitivity,
)


@dataclass(frozen=True, kw_only=True)
class Release:
    """Noisy second moments in standardised units; everything a sampler may know about the data.

    Where the mechanism has noise beside it, the covariates' third and fourth moments are part of it, or their second
    moments weighed by squared residuals.
    """

    kind: ClassVar[str] = "regression"

    schema: RegressionSchema
    neighbours: str
    rows: int | None  # public where a row that counts is replaced by one, else None: the count is then the first value
    mechanism: Mechanism
    values: tuple[float, ...]  # one per entry
    max_rows_per_unit: int = 1
    higher: tuple[float, ...] = ()  # the values of `fourth`
    residuals: ResidualMoments | None = None  # of a second step, with the noise beside

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Places of the values."""
        return released_entries(self.schema, self.neighbours, self.max_rows_per_unit)

    @property
    def count(self) -> float:
        """The number of rows, noisy where it is not public."""
        return self.values[0] if self.rows is None else float(self.rows)

    @property
    def fourth(self) -> HigherMoments | None:
        """Noisy third and fourth moments of the covariates, where they were released."""
        beside = beside_of(self.mechanism)
        if beside is None or not self.higher or self.residuals is not None:
            return None
        return HigherMoments(schema=self.schema, mechanism=beside, values=self.higher)

    @property
    def protected(self) -> bool:
        """Whether the noise suffices for how far neighbours can move these statistics, one value each."""
        if self.neighbours not in NEIGHBOURS or self.max_rows_per_unit < 1:
            return False
        return self._protected_from(regression_sensitivity(self.schema, self.neighbours, self.max_rows_per_unit))

    @property
    def understated(self) -> float | None:
        """How many times its sensitivity may be exceeded, where an earlier version charged it by too small a one."""
        if self.protected or self.neighbours not in NEIGHBOURS or self.max_rows_per_unit < 1:
            return None
        people = (self.neighbours, self.max_rows_per_unit)
        due, earlier = regression_sensitivity(self.schema, *people), understated_sensitivity(self.schema, *people)
        if earlier is None or not self._protected_from(earlier):
            return None
        return due.l1 / earlier.l1 if self.mechanism.norm == "L1" else due.l2 / earlier.l2

    def _protected_from(self, due: Sensitivity) -> bool:
        public = count_is_public(self.neighbours, self.max_rows_per_unit, self.schema.cases)
        told = public == (self.rows is not None) and len(self.values) == len(self.entries)
        return told and self.mechanism.protects(due) and self._rest_is()

    def _rest_is(self) -> bool:
        if self.residuals is not None:
            by_it = self.residuals.mechanism == beside_of(self.mechanism) and not self.higher
            by_fit = self.residuals.fit.agrees(self.fit())  # else residuals might be taken by what nobody paid for
            return by_it and by_fit and self.residuals.protected(self.neighbours, self.max_rows_per_unit)
        if beside_of(self.mechanism) is None and not self.higher:
            return True
        return self.fourth is not None and self.fourth.protected(self.neighbours, self.max_rows_per_unit)

    @property
    def digest(self) -> str:
        """sha256 of the noisy payload alone: entries, values and the public number of rows."""
        return hashlib.sha256(canonical_json(self.payload())).hexdigest()

    def payload(self) -> dict[str, Any]:
        """The noisy numbers and the places they belong to."""
        rest = {} if self.fourth is None else {"fourth": self.fourth.payload()}
        rest |= {} if self.residuals is None else {"residuals": self.residuals.payload()}
        return {"entries": [list(e) for e in self.entries], "rows": self.rows, "values": list(self.values), **rest}

    def matrix(self) -> Floats:
        """The noisy matrix of second moments, as `RegressionSchema.complete` makes it."""
        moments = self.values[1:] if self.rows is None else self.values
        return self.schema.complete(np.array(moments), self.count)

    def fit(self) -> PublicFit:
        """The fit of its own noisy moments that a second step takes residuals by."""
        return public_fit(self.schema, self.mechanism, self.matrix(), self.count)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        several = {} if self.max_rows_per_unit == 1 else {"max_rows_per_unit": self.max_rows_per_unit}
        return {
            "kind": self.kind,
            "mechanism": self.mechanism.to_record(),
            "neighbours": self.neighbours,
            "noisy": self.payload(),
            "schema": self.schema.to_record(),
            **several,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Release":
        """The inverse of `to_record`."""
        schema, mechanism = RegressionSchema.from_record(record["schema"]), mechanism_from_record(record["mechanism"])
        return cls(
            schema=schema,
            neighbours=record["neighbours"],
            rows=record["noisy"]["rows"],
            mechanism=mechanism,
            values=tuple(record["noisy"]["values"]),
            max_rows_per_unit=record.get("max_rows_per_unit", 1),
            higher=tuple(record["noisy"].get("fourth", {"values": ()})["values"]),
            residuals=_residuals(schema, beside_of(mechanism), record["noisy"].get("residuals")),
        )


def _residuals(
    schema: RegressionSchema, mechanism: Mechanism | None, record: Mapping[str, Any] | None
) -> ResidualMoments | None:
    if record is None:
        return None
    if mechanism is None:
        raise ValueError("cannot read a release: what its residuals weigh has no noise of its own. Fetch it again.")
    fit, values = PublicFit.from_record(record["fit"]), tuple(record["values"])
    return ResidualMoments(schema=schema, mechanism=mechanism, fit=fit, values=values)
