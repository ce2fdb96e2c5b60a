"""The design of a regression's release: second moments of bounded columns, with noise on every free entry."""

from dataclasses import dataclass, replace
from typing import Literal

from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.privacy.mechanisms.beside import beside_of
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.sensitivity import REPLACE_ONE
from dpbayes_core.regression.higher_moments import HigherMoments, MomentSums, SecondAndFourthMoments
from dpbayes_core.regression.moments import ExactStatistics, SecondMoments, on_grid
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.residual_moments import ResidualMoments, SecondMomentsWithRows, SumsAndRows
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.box import count_is_public


@dataclass(frozen=True, kw_only=True)
class RegressionDesign:
    """Noisy second moments of one regression, its number of rows among them where that is not public.

    Where the mechanism has noise beside it, third and fourth moments of the covariates too, or what the robust sampler
    needs of their residuals: a second step, of the same rows, by a fit that the first step's noisy numbers give.
    """

    schema: RegressionSchema
    mechanism: Mechanism
    neighbours: str = REPLACE_ONE
    max_rows_per_unit: int = 1
    besides: Literal["fourth", "residuals"] = "fourth"  # what noise beside the mechanism is for

    def statistic(self) -> SecondMoments | SecondAndFourthMoments | SecondMomentsWithRows:
        """Sums of products of the encoded columns."""
        if self._beside is None:
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
        if self._beside is None:
            return first
        found = ResidualMoments.release(self.schema, self._beside, noise, first.fit(), exact.rows)
        return replace(first, residuals=found)

    def _higher(self, noise: NoiseSource, exact: ExactStatistics | MomentSums) -> tuple[float, ...]:
        if self._beside is None or not isinstance(exact, MomentSums):
            return ()
        return HigherMoments.release(self.schema, self._beside, noise, exact.fourth).values

    @property
    def _beside(self) -> Mechanism | None:
        return beside_of(self.mechanism)
