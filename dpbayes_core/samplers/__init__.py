"""Samplers: from a release and a prior to draws. Each declares the law it targets and whether it is calibrated."""

from dpbayes_core.samplers.driver import AUTO, Choice, begin, check_order, choose, combine, sample
from dpbayes_core.samplers.interface import Block, ChainState, Sampler, SamplerUnsuitable
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.samplers.rounds import BLOCK, ChainDraws, Round, first_round, next_round, run_chain

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
