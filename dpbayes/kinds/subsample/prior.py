"""The prior of a release by subsample and aggregate: its section states it, and it is a part of the release."""

from collections.abc import Mapping
from typing import Any

from dpbayes.kinds.prior import AnyPrior, PriorOfKind, PriorSpec


class PriorOfSubsets(PriorOfKind):
    """Uses the prior of the release, whatever an analysis states."""

    def prior(self, release: Any, stated: PriorSpec, sampler: str, expected: Mapping[str, Any]) -> AnyPrior:
        """The prior of the release."""
        return release.terms.prior

    def from_record(self, release: Any, record: Mapping[str, Any]) -> AnyPrior:
        """The prior of the release."""
        return release.terms.prior


PRIOR = PriorOfSubsets()
