"""Sealed work done in this process, in another order than it was given: what a cluster does, without its machines."""

import numpy as np

from dpbayes.secure.cluster.read import KeyRing, Pieces
from dpbayes.secure.cluster.work import answer


class OneMachine:
    """Takes several pieces at a time and answers in a random order; it keeps what it was sent and what it answered."""

    def __init__(self, seed: int = 0, together: int = 5) -> None:
        self._random, self._together = np.random.default_rng(seed), together
        self.seen: list[bytes] = []

    def each(self, pieces: Pieces, ring: KeyRing) -> Pieces:
        while taken := [piece for _, piece in zip(range(self._together), pieces, strict=False)]:
            for place in self._random.permutation(len(taken)):
                yield self._answered(*taken[place], ring)

    def _answered(self, number: int, sealed: bytes, ring: KeyRing) -> tuple[int, bytes]:
        public, done = answer(number, sealed, ring.entries)
        if not done:
            ring.admit(public)
            public, done = answer(number, sealed, ring.entries)
        self.seen += [sealed, public, done, *ring.entries.values()]
        return number, done
