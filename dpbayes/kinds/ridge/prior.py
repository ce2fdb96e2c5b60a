"""A ridge estimate has no prior: its analysis records the default of a regression, and nothing reads it."""

from collections.abc import Mapping
from typing import Any

from dpbayes.kinds.prior import AnyPrior, PriorOfKind, PriorSpec
from dpbayes_core.regression.independent_prior import prior_from_record
from dpbayes_core.regression.prior import Prior


class PriorOfRidge(PriorOfKind):
    """Records a regression's default prior, which a ridge estimate does not use."""

    def prior(self, release: Any, stated: PriorSpec, sampler: str, expected: Mapping[str, Any]) -> AnyPrior:
        """A regression's default prior."""
        return Prior()

    def from_record(self, release: Any, record: Mapping[str, Any]) -> AnyPrior:
        """The prior that was recorded."""
        return prior_from_record(record)


PRIOR = PriorOfRidge()
