"""What a Dask worker runs of a chain; workers import this module, and so nothing of Prefect."""

import time
from typing import Any, NamedTuple

from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.protocol import Block, ChainState


class Ran(NamedTuple):
    """A block that a worker has run."""

    state: ChainState
    made: Block
    seconds: float


def run_block(sampler: str, problem: Any, state: ChainState, iterations: int) -> Ran:
    """Run one block on a worker: pure, so that repeating it after a crash gives the same draws bit for bit."""
    begun = time.perf_counter()
    after, made = SAMPLERS[sampler].run_block(problem, state, iterations)
    return Ran(after, made, time.perf_counter() - begun)
