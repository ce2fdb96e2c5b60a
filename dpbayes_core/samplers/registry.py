"""Every sampler by name; the order is the order of `auto` among those that take a kind of release."""

from collections.abc import Mapping

from dpbayes_core.samplers.collapsed import Collapsed
from dpbayes_core.samplers.interface import Sampler
from dpbayes_core.samplers.naive import Naive

SAMPLERS: Mapping[str, Sampler] = {sampler.name: sampler for sampler in (Collapsed(), Naive())}


def samplers_for(kind: str) -> tuple[Sampler, ...]:
    """Those that take releases of this kind."""
    return tuple(sampler for sampler in SAMPLERS.values() if sampler.takes == kind)
