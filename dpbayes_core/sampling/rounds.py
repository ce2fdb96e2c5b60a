"""Rounds of chains, for every driver: the decision what to run next, and the checkpoint of a chain."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpbayes_core.sampling.diagnostics import LEAST_ESS
from dpbayes_core.sampling.posterior import Posterior
from dpbayes_core.sampling.protocol import Block, ChainState, Sampler, pack, unpack

MOST_EXTENSION = 16  # times the requested draws
JUDGED_AFTER = 4  # times the requested draws: from then on, stop if the cap would not be enough
LAST_ATTEMPT = 1
BLOCK = 500  # iterations between checkpoints


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round runs every chain of an attempt up to this number of draws; chains of the same attempt continue."""

    attempt: int
    draws: int


@dataclass(frozen=True, kw_only=True)
class ChainDraws:
    """The state of a chain and all of its draws: one checkpoint."""

    state: ChainState
    made: Block | None = None  # None before the first block

    def to_bytes(self) -> bytes:
        """Checksummed bytes, the same for the same draws."""
        state, made = self.state, self.made
        words = {"chain": state.chain, "attempt": state.attempt, "iteration": state.iteration}
        arrays: dict[str, Any] = {"numbers": state.numbers, "generator": state.generator}
        if made is not None:
            words |= {"divergences": made.divergences, "gradients": made.gradients}
            arrays |= {"parameters": made.parameters, "latent": made.latent, "expected": made.expected}
        return pack(words, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "ChainDraws":
        """The inverse of `to_bytes`; a damaged checkpoint is an integrity failure."""
        words, arrays = unpack(data)
        made = None
        if "parameters" in arrays:
            counts = {name: words.pop(name) for name in ("divergences", "gradients")}
            made = Block(**{name: arrays.pop(name) for name in ("parameters", "latent", "expected")}, **counts)
        return cls(state=ChainState(**words, **arrays), made=made)


def first_round(draws: int) -> Round:
    """The round that makes the requested number of draws."""
    return Round(attempt=0, draws=draws)


def next_round(done: Round, posterior: Posterior, requested: int) -> Round | None:
    """Twice the draws, or a more careful attempt after divergences; None once converged, hopeless or too much work."""
    if posterior.converged or posterior.exhausted:
        return None
    if posterior.divergent:
        return None if done.attempt == LAST_ATTEMPT else Round(attempt=done.attempt + 1, draws=requested)
    most = MOST_EXTENSION * requested
    hopeless = done.draws >= JUDGED_AFTER * requested and posterior.least_ess * most / done.draws < LEAST_ESS
    if hopeless or 2 * done.draws > most:
        return None
    return Round(attempt=done.attempt, draws=2 * done.draws)


def run_chain(
    sampler: Sampler,
    problem: Any,
    chain: ChainDraws,
    current: Round,
    *,
    block: int = BLOCK,
    checkpoint: Callable[[ChainDraws], None] | None = None,
) -> ChainDraws:
    """Bring one chain to the end of the round, block by block; the block size changes no draw."""
    end = sampler.warmup(current.attempt) + current.draws
    while (left := end - chain.state.iteration) > 0:
        state, made = sampler.run_block(problem, chain.state, min(block, left))
        chain = ChainDraws(state=state, made=made if chain.made is None else chain.made.followed_by(made))
        if checkpoint is not None:
            checkpoint(chain)
    return chain
