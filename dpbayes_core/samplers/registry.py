"""Every sampler by name; `auto` tries those that take a kind of release in this order."""

from collections.abc import Mapping

from dpbayes_core.networks.posterior.collapsed_tables import CollapsedTables, FamilyTables
from dpbayes_core.networks.posterior.naive_tables import NaiveTables
from dpbayes_core.ridge.sampler import AdaSSP
from dpbayes_core.samplers.collapsed.sampler import Collapsed
from dpbayes_core.samplers.naive import Naive
from dpbayes_core.samplers.papers.distributed.samplers import DISTRIBUTED_SAMPLERS
from dpbayes_core.samplers.papers.gibbs.samplers import GIBBS_SAMPLERS
from dpbayes_core.samplers.robust.sampler import Robust
from dpbayes_core.sampling.protocol import Sampler
from dpbayes_core.subsample.samplers import AGGREGATE_SAMPLERS

_ALL: tuple[Sampler, ...] = (
    Robust(),
    Collapsed(),
    Naive(),
    *GIBBS_SAMPLERS,
    *DISTRIBUTED_SAMPLERS,
    CollapsedTables(),
    FamilyTables(),
    NaiveTables(),
    *AGGREGATE_SAMPLERS.values(),
    AdaSSP(),
)

SAMPLERS: Mapping[str, Sampler] = {sampler.name: sampler for sampler in _ALL}


def samplers_for(kind: str) -> tuple[Sampler, ...]:
    """The samplers that take releases of this kind."""
    return tuple(sampler for sampler in SAMPLERS.values() if kind in sampler.takes)
