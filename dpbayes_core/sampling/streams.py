"""One Philox generator for each chain, and its state as 64-bit words."""

import numpy as np

from dpbayes_core.arrays import Words
from dpbayes_core.sampling.protocol import ChainGenerator


def stream(seed: int, chain: int, attempt: int) -> ChainGenerator:
    """The chain's generator: child `chain` of the seed; a second attempt draws from that child's own child."""
    key = (chain, attempt) if attempt else (chain,)
    return ChainGenerator(np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key))))


def to_words(generator: ChainGenerator) -> Words:
    """The generator's state: counter, key, buffer and its position in that."""
    state = generator.bit_generator.state
    inner = state["state"]
    rest = [state["buffer_pos"], state["has_uint32"], state["uinteger"]]
    return np.concatenate([inner["counter"], inner["key"], state["buffer"], np.array(rest, dtype=np.uint64)])


def from_words(words: Words) -> ChainGenerator:
    """The inverse of `to_words`."""
    bits = np.random.Philox()
    bits.state = {
        "bit_generator": "Philox",
        "state": {"counter": words[:4], "key": words[4:6]},
        "buffer": words[6:10],
        "buffer_pos": int(words[10]),
        "has_uint32": int(words[11]),
        "uinteger": int(words[12]),
    }
    return ChainGenerator(np.random.Generator(bits))
