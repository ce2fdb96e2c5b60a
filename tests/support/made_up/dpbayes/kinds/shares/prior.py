"""The prior of shares: uniform, and nothing of it can be stated."""

from collections.abc import Mapping
from typing import Any

from dpbayes.kinds.prior import AnyPrior, PriorOfKind, PriorSpec


class UniformShares:
    """All shares that add up to one are equally likely."""

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {"law": "uniform"}


class PriorOfShares(PriorOfKind):
    """Uniform, whatever the release."""

    def prior(self, release: Any, stated: PriorSpec, sampler: str, expected: Mapping[str, Any]) -> AnyPrior:
        """The only one."""
        return UniformShares()

    def from_record(self, release: Any, record: Mapping[str, Any]) -> AnyPrior:
        """The only one."""
        return UniformShares()


PRIOR = PriorOfShares()
