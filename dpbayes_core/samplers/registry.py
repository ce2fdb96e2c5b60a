"""Every sampler by name; the order is the order of `auto`."""

from collections.abc import Mapping

from dpbayes_core.samplers.collapsed import Collapsed
from dpbayes_core.samplers.interface import Sampler
from dpbayes_core.samplers.naive import Naive

SAMPLERS: Mapping[str, Sampler] = {sampler.name: sampler for sampler in (Collapsed(), Naive())}
