"""What a worker does: open a sealed piece of work, read its rows, and return what was found, sealed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes.secure.batches import Part, read_part, spill_part
from dpbayes.secure.cluster.codec import decode, from_bytes, to_bytes
from dpbayes.secure.cluster.seal import Seal, SealBroken, worker_key
from dpbayes.secure.contribution import PARTITIONS, Keys
from dpbayes.secure.leak_guard import SecureFailure, guard_leaks
from dpbayes.secure.sources.batch import Batch, BatchStream, Scan
from dpbayes.secure.spill import Spill
from dpbayes.study.table_source import TableSource
from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import DpbayesError, ShapeMismatch
from dpbayes_core.exact_sums.protocol import Statistic

Answer = tuple[bytes, bytes]
"""The public key of the worker, and what it sealed: nothing, if it was not sent the key of the pass."""

FAILED = "failed"
_KINDS: dict[str, type[DpbayesError]] = {one.kind: one for one in (ShapeMismatch, SecureFailure, SealBroken)}


@dataclass(frozen=True, repr=False)
class PartWork(Confidential):
    """One batch of rows to read into a part, or a stream of batches to read into as many parts."""

    source: TableSource
    statistic: Statistic
    keys: Keys | None
    place: Batch | BatchStream

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The parts as plain arrays."""
        parts = self._parts(self.place) if isinstance(self.place, BatchStream) else [self._part(self.place)]
        several = [part.to_arrays() for part in parts]
        return {f"{number}:{name}": array for number, one in enumerate(several) for name, array in one.items()}

    def _part(self, batch: Batch) -> Part:
        return read_part(batch, self.source, self.statistic, self.keys)

    def _parts(self, stream: BatchStream) -> list[Part]:
        """The parts of a stream; the first has the candidates of all of them that may count."""
        with Spill(self.source.max_rows_per_unit) as candidates:
            parts = [spill_part(self._part(batch), candidates) for batch in stream.batches()]
            if parts and self.keys is not None:
                parts[0] = replace(parts[0], candidates=tuple(map(candidates.counted, range(PARTITIONS))))
        return parts


def parts_of(arrays: Mapping[str, NDArray[Any]], statistic: Statistic) -> list[Part]:
    """The parts that a worker returned as arrays."""
    several: dict[int, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        number, _, inner = name.partition(":")
        several.setdefault(int(number), {})[inner] = array
    return [Part.from_arrays(several[number], statistic) for number in sorted(several)]


@dataclass(frozen=True, repr=False)
class ScanWork(Confidential):
    """One part of a file to search through."""

    scan: Scan

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was found."""
        return {"found": self.scan.scan()}


@guard_leaks()
def answer(number: int, sealed: bytes, ring: Mapping[bytes, bytes]) -> Answer:
    """Do one sealed piece of work; a failure is part of what is sealed, so that no exception travels.

    `ring` holds the key of the pass for each worker that it was sent to, by the worker's public key.
    """
    own = worker_key()
    seal = own.seal_from(ring)
    if seal is None:
        return own.public, b""
    try:
        done = _done(seal.open(sealed, work_name(number)))
    except DpbayesError as error:
        arguments = error.args if error.kind in _KINDS else (str(error),)
        done = {FAILED: np.array([error.kind, *arguments])}
    return own.public, seal.seal(to_bytes(done), answer_name(number))


def opened(seal: Seal, number: int, sealed: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a worker's answer; a failure is raised as it was there."""
    done = from_bytes(seal.open(sealed, answer_name(number)))
    if FAILED in done:
        kind, *arguments = done[FAILED].tolist()
        raise _KINDS.get(kind, DpbayesError)(*arguments)
    return done


def work_name(number: int) -> str:
    """What a piece of work is sealed under."""
    return f"work {number}"


def answer_name(number: int) -> str:
    """What the answer to a piece of work is sealed under."""
    return f"answer {number}"


@guard_leaks()
def _done(encoded: bytes) -> dict[str, NDArray[Any]]:
    work: PartWork | ScanWork = decode(encoded)
    return work.arrays()
