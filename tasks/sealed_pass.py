"""Runs a pass's sealed work on the Dask cluster that DPBAYES_SECURE_DASK names; no row is ever open in this module.

Whoever controls that cluster's scheduler can run code on its workers, which see rows: it belongs to the secure zone.
"""

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from storage.home.home import secure_dask_address

if TYPE_CHECKING:  # a pass without a cluster needs neither Dask nor ciphers
    from dpbayes.secure.cluster.read import KeyRing, Pieces
    from dpbayes.secure.cluster.work import Answer
    from tasks.dask_workers import Workers

KEPT = "nothing was charged"
_LEAST = 4  # pieces under way, also while no worker is there
_LOOK = 5.0  # seconds until the number of workers is looked up again


def require_secure_address() -> None:
    """Refuse a secure cluster that is not behind TLS, before anything is read or recorded."""
    address = secure_dask_address()
    if address is not None and not _is_behind_tls(address):
        from tasks import dask_faults as faults

        raise faults.not_secure(address)


@contextmanager
def secure_cluster() -> "Generator[SealedWorkers | None]":
    """The secure cluster, or None where threads of this process read the table."""
    require_secure_address()
    address = secure_dask_address()
    if address is None:
        yield None
        return
    from tasks.dask import secure_workers

    with secure_workers(address, kept=KEPT) as workers:
        yield SealedWorkers(workers)


class SealedWorkers:
    """Gives sealed pieces of work to Dask, whose scheduler sees ciphertext under neutral names only."""

    def __init__(self, workers: "Workers") -> None:
        self._workers = workers
        self._looked, self._most = 0.0, _LEAST

    def each(self, pieces: "Pieces", ring: "KeyRing") -> "Pieces":
        """Have every piece done; at most twice as many are under way as the cluster has threads."""
        under_way: dict[int, bytes] = {}

        def submit() -> None:
            for number, sealed in islice(pieces, max(self._capacity() - len(under_way), 0)):
                under_way[number] = sealed
                self._workers.submit(number, do_sealed, number, sealed, ring.entries)

        submit()
        for number, (public, answer) in self._workers.finished():
            if answer:
                del under_way[number]
                yield number, answer
                submit()
            else:
                ring.admit(public)
                self._workers.submit(number, do_sealed, number, under_way[number], ring.entries)

    def _capacity(self) -> int:
        if time.monotonic() - self._looked > _LOOK:
            self._looked, self._most = time.monotonic(), max(2 * self._workers.threads(), _LEAST)
        return self._most


def do_sealed(number: int, sealed: bytes, ring: Mapping[bytes, bytes]) -> "Answer":
    """Do one sealed piece of work on a worker: pure, so that repeating it after a crash changes nothing."""
    from distributed import get_worker

    from dpbayes.secure.cluster.work import answer
    from tasks import dask_faults as faults

    if not _is_behind_tls(get_worker().address):
        raise faults.in_the_clear()
    return answer(number, sealed, ring)


def _is_behind_tls(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme == "tls" and bool(parts.hostname and parts.port) and not parts.path
    except ValueError:
        return False
