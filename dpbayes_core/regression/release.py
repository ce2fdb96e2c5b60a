"""The release of a regression: its design, and noisy moments together with the mechanism that made them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import Mechanism, mechanism_from_record
from dpbayes_core.privacy.mechanisms.additional_noise import additional_noise_of
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.release import PublicNumbers
from dpbayes_core.privacy.sensitivity import NEIGHBOURS, REPLACE_ONE, Sensitivity
from dpbayes_core.regression.fourth import HigherMoments, MomentSums, SecondAndFourthMoments
from dpbayes_core.regression.moments import ExactStatistics, SecondMoments, on_grid
from dpbayes_core.regression.public_fit import PublicFit, public_fit
from dpbayes_core.regression.residual_moments import ResidualMoments, SecondMomentsWithRows, SumsAndRows
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.box import (
    count_is_public,
    regression_sensitivity,
    released_entries,
    understated_sensitivity,
)


@dataclass(frozen=True, kw_only=True)
class Release(PublicNumbers):
    """Noisy second moments in standardised units, from which alone a sampler starts.

    Where the mechanism has additional noise, third and fourth moments of the covariates are released with it, or second
    moments weighted by squared residuals.
    """

    kind: ClassVar[str] = "regression"

    schema: RegressionSchema
    neighbours: str
    rows: int | None  # None where it is not public: the noisy count is then the first value
    mechanism: Mechanism
    values: tuple[float, ...]  # one per entry
    max_rows_per_unit: int = 1
    higher: tuple[float, ...] = ()  # the values of `fourth`
    residuals: ResidualMoments | None = None  # from a second step, with the additional noise

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """The entry (i, j) that each value estimates."""
        return released_entries(self.schema, self.neighbours, self.max_rows_per_unit)

    @property
    def count(self) -> float:
        """The number of rows, noisy where it is not public."""
        return self.values[0] if self.rows is None else float(self.rows)

    @property
    def fourth(self) -> HigherMoments | None:
        """Noisy third and fourth moments of the covariates, where they were released."""
        additional = additional_noise_of(self.mechanism)
        if additional is None or not self.higher or self.residuals is not None:
            return None
        return HigherMoments(schema=self.schema, mechanism=additional, values=self.higher)

    @property
    def protected(self) -> bool:
        """Whether the mechanisms' sensitivities are at least those of these statistics, one value for each."""
        if self.neighbours not in NEIGHBOURS or self.max_rows_per_unit < 1:
            return False
        return self._protected_from(regression_sensitivity(self.schema, self.neighbours, self.max_rows_per_unit))

    @property
    def understated(self) -> float | None:
        """The factor by which the sensitivity is too small in a release of an earlier version; else None."""
        if self.protected or self.neighbours not in NEIGHBOURS or self.max_rows_per_unit < 1:
            return None
        people = (self.neighbours, self.max_rows_per_unit)
        due, earlier = regression_sensitivity(self.schema, *people), understated_sensitivity(self.schema, *people)
        if earlier is None or not self._protected_from(earlier):
            return None
        return due.l1 / earlier.l1 if self.mechanism.norm == "L1" else due.l2 / earlier.l2

    def _protected_from(self, due: Sensitivity) -> bool:
        public = count_is_public(self.neighbours, self.max_rows_per_unit, self.schema.cases)
        whole = public == (self.rows is not None) and len(self.values) == len(self.entries)
        return whole and self.mechanism.protects(due) and self._additional_protected()

    def _additional_protected(self) -> bool:
        if self.residuals is not None:
            by_it = self.residuals.mechanism == additional_noise_of(self.mechanism) and not self.higher
            by_fit = self.residuals.fit.agrees(self.fit())  # else residuals may be from a fit that was not released
            return by_it and by_fit and self.residuals.protected(self.neighbours, self.max_rows_per_unit)
        if additional_noise_of(self.mechanism) is None and not self.higher:
            return True
        return self.fourth is not None and self.fourth.protected(self.neighbours, self.max_rows_per_unit)

    def payload(self) -> dict[str, Any]:
        """The noisy numbers and the entries that they estimate."""
        rest = {} if self.fourth is None else {"fourth": self.fourth.payload()}
        rest |= {} if self.residuals is None else {"residuals": self.residuals.payload()}
        return {"entries": [list(e) for e in self.entries], "rows": self.rows, "values": list(self.values), **rest}

    def matrix(self) -> Floats:
        """The noisy matrix of second moments, as `RegressionSchema.complete` makes it."""
        moments = self.values[1:] if self.rows is None else self.values
        return self.schema.complete(np.array(moments), self.count)

    def fit(self) -> PublicFit:
        """The fit to these noisy moments, by which the second step takes residuals."""
        return public_fit(self.schema, self.mechanism, self.matrix(), self.count)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        several = {} if self.max_rows_per_unit == 1 else {"max_rows_per_unit": self.max_rows_per_unit}
        return self._record(neighbours=self.neighbours, schema=self.schema.to_record(), **several)

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
            residuals=_residuals(schema, additional_noise_of(mechanism), record["noisy"].get("residuals")),
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


@dataclass(frozen=True, kw_only=True)
class RegressionDesign:
    """The design of noisy second moments of one regression, with the number of rows where that is not public.

    Where the mechanism has additional noise, also third and fourth moments of the covariates, or second moments
    weighted by squared residuals, in a second step on the same rows with a fit to the first step's noisy numbers.
    """

    schema: RegressionSchema
    mechanism: Mechanism
    neighbours: str = REPLACE_ONE
    max_rows_per_unit: int = 1
    besides: Literal["fourth", "residuals"] = "fourth"  # the statistic that gets the additional noise

    def statistic(self) -> SecondMoments | SecondAndFourthMoments | SecondMomentsWithRows:
        """Sums of products of the encoded columns."""
        if self._additional_noise is None:
            return SecondMoments(self.schema)
        return (SecondAndFourthMoments if self.besides == "fourth" else SecondMomentsWithRows)(self.schema)

    def release(self, noise: NoiseSource, exact: ExactStatistics | MomentSums | SumsAndRows) -> Release:
        """The exact sums on the mechanism's grid, with its noise; both steps or none."""
        if isinstance(exact, SumsAndRows):
            return self._with_residuals(noise, exact, self._release(noise, exact.second, exact.second))
        return self._release(noise, exact.second if isinstance(exact, MomentSums) else exact, exact)

    def _release(self, noise: NoiseSource, second: ExactStatistics, exact: ExactStatistics | MomentSums) -> Release:
        public = count_is_public(self.neighbours, self.max_rows_per_unit, self.schema.cases)
        noisy = self.mechanism.release(noise, on_grid(second if public else second.with_count(), self.mechanism.grid))
        return Release(
            schema=self.schema,
            neighbours=self.neighbours,
            rows=second.rows if public else None,
            mechanism=self.mechanism,
            values=tuple(noisy.tolist()),
            max_rows_per_unit=self.max_rows_per_unit,
            higher=self._higher(noise, exact),
        )

    def _with_residuals(self, noise: NoiseSource, exact: SumsAndRows, first: Release) -> Release:
        if self._additional_noise is None:
            return first
        found = ResidualMoments.release(self.schema, self._additional_noise, noise, first.fit(), exact.rows)
        return replace(first, residuals=found)

    def _higher(self, noise: NoiseSource, exact: ExactStatistics | MomentSums) -> tuple[float, ...]:
        if self._additional_noise is None or not isinstance(exact, MomentSums):
            return ()
        return HigherMoments.release(self.schema, self._additional_noise, noise, exact.fourth).values

    @property
    def _additional_noise(self) -> Mechanism | None:
        return additional_noise_of(self.mechanism)


HEAVY = 0.2  # mean weight above which standard deviations are at least a tenth too small


def weighs_few_rows(release: Release) -> bool:
    """Whether rows have a large mean weight in some direction of the covariates, from released numbers alone.

    With equal residual variances the mean weight is 1/25 in every direction; directions that noise hides are ignored.
    """
    if release.residuals is None:
        return False
    moments = release.matrix()[:-1, :-1]
    values, vectors = np.linalg.eigh(moments)
    known = values > 4 * float(release.mechanism.scales.max())
    towards = vectors[:, known] / np.sqrt(values[known])
    weighed = towards.T @ (release.residuals.matrix() / release.residuals.fit.limit**2) @ towards
    return bool(np.linalg.eigvalsh(weighed).max(initial=0.0) > HEAVY)
