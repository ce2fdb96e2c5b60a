"""The prior of a network: one pseudo-count for every level."""

from collections.abc import Mapping
from typing import Any

from dpbayes.kinds.prior import OF_NETWORKS, AnyPrior, PriorOfKind, PriorSpec


class PriorOfNetworks(PriorOfKind):
    """Dirichlet in every row of every table."""

    parts = OF_NETWORKS
    example = "concentration: 2"

    def prior(self, release: Any, stated: PriorSpec, sampler: str, expected: Mapping[str, Any]) -> AnyPrior:
        """With the stated concentration."""
        from dpbayes_core.networks.posterior.prior import NetworkPrior

        return NetworkPrior(concentration=stated.concentration)

    def from_record(self, release: Any, record: Mapping[str, Any]) -> AnyPrior:
        """As it was."""
        from dpbayes_core.networks.posterior.prior import NetworkPrior

        return NetworkPrior.from_record(record)


PRIOR = PriorOfNetworks()
