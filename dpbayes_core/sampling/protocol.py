"""The protocol of a sampler, and the values it exchanges with a driver: problems, chain states, blocks of draws.

A checkpoint contains states and draws as checksummed bytes, without pickle.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats, Words
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError, IntegrityFailure

MAGIC = b"dpbayes checkpoint 1\n"
KINDS = {"f": "<f8", "u": "<u8", "i": "<i8"}


def pack(words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Plain values and arrays as checksummed bytes; the same content gives the same bytes."""
    shapes = {name: [array.dtype.kind, *array.shape] for name, array in arrays.items()}
    header = canonical_json({"words": dict(words), "arrays": shapes})
    body = b"".join(array.astype(KINDS[array.dtype.kind]).tobytes() for _, array in sorted(arrays.items()))
    content = len(header).to_bytes(8, "little") + header + body
    return MAGIC + hashlib.sha256(content).digest() + content


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inverse of `pack`."""
    check, content = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
    if not data.startswith(MAGIC) or hashlib.sha256(content).digest() != check:
        raise IntegrityFailure(
            "cannot read a checkpoint: it is not what was written. Delete it; the chain starts anew."
        )
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    arrays: dict[str, Any] = {}
    for name, (kind, *shape) in sorted(header["arrays"].items()):
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(content, dtype=KINDS[kind], count=count, offset=end)
        arrays[name] = array.reshape(shape).astype(array.dtype.newbyteorder("="))
        end += 8 * count
    return header["words"], arrays


ChainGenerator = NewType("ChainGenerator", np.random.Generator)  # never a source of privacy noise


class SamplerUnsuitable(DpbayesError):
    """The named sampler does not exist or cannot take this release."""

    kind = "sampler-unsuitable"
    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class ChainState:
    """The state of a chain after a block: with the problem, it determines the next draw."""

    chain: int
    attempt: int
    iteration: int  # warm-up included
    numbers: Floats
    generator: Words  # the bit generator's own state

    def to_bytes(self) -> bytes:
        """Checksummed bytes, the same for the same state."""
        words = {"chain": self.chain, "attempt": self.attempt, "iteration": self.iteration}
        return pack(words, {"numbers": self.numbers, "generator": self.generator})

    @classmethod
    def from_bytes(cls, data: bytes) -> "ChainState":
        """The inverse of `to_bytes`; a damaged checkpoint is an integrity failure."""
        words, arrays = unpack(data)
        return cls(**words, **arrays)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Draws of one chain after warm-up, in the sampler's own units and order."""

    parameters: Floats  # (draws, parameters)
    latent: Floats  # (draws, monitors), or (draws, 0) where nothing is latent
    divergences: int
    gradients: int
    expected: Floats = field(
        default_factory=lambda: np.zeros((0, 0))
    )  # of a regression, means and variances of the coefficients given each latent draw

    def followed_by(self, later: "Block") -> "Block":
        """Both blocks as one."""
        return Block(
            parameters=np.concatenate([self.parameters, later.parameters]),
            latent=np.concatenate([self.latent, later.latent]),
            expected=np.concatenate([self.expected, later.expected]),
            divergences=self.divergences + later.divergences,
            gradients=self.gradients + later.gradients,
        )


class Sampler(Protocol):
    """A deterministic sampler in picklable parts: a driver decides where and in which blocks they run."""

    @property
    def name(self) -> str:
        """Its key in `SAMPLERS`."""
        ...

    @property
    def takes(self) -> tuple[str, ...]:
        """The kinds of release it takes."""
        ...

    @property
    def compared_with(self) -> str | None:
        """The sampler whose results are shown with this one's for comparison, if any."""
        ...

    @property
    def target(self) -> str:
        """The law of the draws, as a phrase."""
        ...

    @property
    def calibrated(self) -> bool:
        """Whether its intervals have their nominal coverage under the stated model."""
        ...

    @property
    def cost(self) -> str:
        """How the time of a draw grows with rows, variables and releases."""
        ...

    @property
    def caveat(self) -> str:
        """What a reader of the result must know."""
        ...

    def refusal(self, release: Any, /) -> str | None:
        """Why it cannot take this release of its kind, or None."""
        ...

    def prepare(self, release: Any, prior: Any, /) -> Any:
        """The problem: the data that all chains share, as arrays."""
        ...

    def warmup(self, attempt: int) -> int:
        """The number of warm-up iterations of each chain."""
        ...

    def start(self, problem: Any, seed: int, chain: int, *, attempt: int = 0) -> ChainState:
        """A chain before its first iteration."""
        ...

    def run_block(self, problem: Any, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
        """The chain's state after `iterations` more, warm-up included, and the draws among them after warm-up."""
        ...

    def draws(self, release: Any, parameters: Floats, /) -> Mapping[str, Floats]:
        """The draws by parameter name, in the user's units; `parameters` is (chains, draws, parameters)."""
        ...

    def monitors(self, release: Any, latent: Floats, /) -> Mapping[str, Floats]:
        """The latent quantities that must converge, too, by name; `latent` is (chains, draws, monitors)."""
        ...
