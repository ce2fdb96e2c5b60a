"""Samplers: from a release and a prior to draws. Each declares the law it targets and whether it is calibrated."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbayes_core.samplers.driver import AUTO, Choice, begin, check_order, choose, combine, sample
    from dpbayes_core.samplers.registry import SAMPLERS
    from dpbayes_core.sampling.protocol import Block, ChainState, Sampler, SamplerUnsuitable
    from dpbayes_core.sampling.rounds import BLOCK, ChainDraws, Round, first_round, next_round, run_chain

__all__ = [
    "AUTO",
    "BLOCK",
    "SAMPLERS",
    "Block",
    "ChainDraws",
    "ChainState",
    "Choice",
    "Round",
    "Sampler",
    "SamplerUnsuitable",
    "begin",
    "check_order",
    "choose",
    "combine",
    "first_round",
    "next_round",
    "run_chain",
    "sample",
]

_HOMES = {
    "dpbayes_core.samplers.driver": ("AUTO", "Choice", "begin", "check_order", "choose", "combine", "sample"),
    "dpbayes_core.sampling.protocol": ("Block", "ChainState", "Sampler", "SamplerUnsuitable"),
    "dpbayes_core.samplers.registry": ("SAMPLERS",),
    "dpbayes_core.sampling.rounds": ("BLOCK", "ChainDraws", "Round", "first_round", "next_round", "run_chain"),
}


def __getattr__(name: str) -> Any:
    """Loaded when used: a sampler may live anywhere and build on this package's parts without a circle."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'dpbayes_core.samplers' has no attribute {name!r}")
