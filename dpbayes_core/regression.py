"""The design of a regression's release: second moments of bounded columns, with noise on every free entry."""

from dataclasses import dataclass

from dpbayes_core.mechanisms import Mechanism
from dpbayes_core.noise import NoiseSource
from dpbayes_core.release import Release
from dpbayes_core.schema import RegressionSchema
from dpbayes_core.second_moments import SecondMoments
from dpbayes_core.sensitivity import REPLACE_ONE, count_is_public
from dpbayes_core.statistics import ExactStatistics, on_grid


@dataclass(frozen=True, kw_only=True)
class RegressionDesign:
    """Noisy second moments of one regression, its number of rows among them where that is not public."""

    schema: RegressionSchema
    mechanism: Mechanism
    neighbours: str = REPLACE_ONE
    max_rows_per_unit: int = 1

    def statistic(self) -> SecondMoments:
        """Sums of products of the encoded columns."""
        return SecondMoments(self.schema)

    def release(self, noise: NoiseSource, exact: ExactStatistics) -> Release:
        """The exact sums on the mechanism's grid, with its noise."""
        public = count_is_public(self.neighbours, self.max_rows_per_unit)
        noisy = self.mechanism.release(noise, on_grid(exact if public else exact.with_count(), self.mechanism.grid))
        return Release(
            schema=self.schema,
            neighbours=self.neighbours,
            rows=exact.rows if public else None,
            mechanism=self.mechanism,
            values=tuple(noisy.tolist()),
            max_rows_per_unit=self.max_rows_per_unit,
        )
