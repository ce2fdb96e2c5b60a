"""The prior of a network: one pseudo-count for every level."""

from collections.abc import Mapping
from typing import Any

from dpbayes.kinds.prior import OF_NETWORKS, AnyPrior, PriorOfKind, PriorSpec


class PriorOfNetworks(PriorOfKind):
    """A Dirichlet prior for every row of every table."""

    parts = OF_NETWORKS
    example = "concentration: 2"

    def prior(self, release: Any, stated: PriorSpec, sampler: str, expected: Mapping[str, Any]) -> AnyPrior:
        """The prior with the stated concentration."""
        from dpbayes_core.networks.posterior.prior import NetworkPrior

        return NetworkPrior(concentration=stated.concentration)

    def from_record(self, release: Any, record: Mapping[str, Any]) -> AnyPrior:
        """The prior that was recorded."""
        from dpbayes_core.networks.posterior.prior import NetworkPrior

        return NetworkPrior.from_record(record)


PRIOR = PriorOfNetworks()
