"""The design of a regression's release: second moments of bounded columns, with noise on every free entry."""

from dataclasses import dataclass

from dpbayes_core.higher_moments import HigherMoments, MomentSums, SecondAndFourthMoments
from dpbayes_core.mechanisms import Mechanism
from dpbayes_core.mechanisms.beside import beside_of
from dpbayes_core.noise import NoiseSource
from dpbayes_core.release import Release
from dpbayes_core.schema import RegressionSchema
from dpbayes_core.second_moments import SecondMoments
from dpbayes_core.sensitivity import REPLACE_ONE, count_is_public
from dpbayes_core.statistics import ExactStatistics, on_grid


@dataclass(frozen=True, kw_only=True)
class RegressionDesign:
    """Noisy second moments of one regression, its number of rows among them where that is not public.

    Where the mechanism has noise beside it, third and fourth moments of the covariates too.
    """

    schema: RegressionSchema
    mechanism: Mechanism
    neighbours: str = REPLACE_ONE
    max_rows_per_unit: int = 1

    def statistic(self) -> SecondMoments | SecondAndFourthMoments:
        """Sums of products of the encoded columns."""
        return SecondMoments(self.schema) if self._beside is None else SecondAndFourthMoments(self.schema)

    def release(self, noise: NoiseSource, exact: ExactStatistics | MomentSums) -> Release:
        """The exact sums on the mechanism's grid, with its noise."""
        public = count_is_public(self.neighbours, self.max_rows_per_unit)
        second = exact.second if isinstance(exact, MomentSums) else exact
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

    def _higher(self, noise: NoiseSource, exact: ExactStatistics | MomentSums) -> tuple[float, ...]:
        if self._beside is None or not isinstance(exact, MomentSums):
            return ()
        return HigherMoments.release(self.schema, self._beside, noise, exact.fourth).values

    @property
    def _beside(self) -> Mechanism | None:
        return beside_of(self.mechanism)
