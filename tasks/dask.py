"""The Dask cluster that runs blocks and cells: local processes with one-time certificates, or one of the user's."""

import fcntl
import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
from dask.system import CPU_COUNT
from distributed import Client, Nanny, Scheduler, SpecCluster, Worker
from distributed.security import Security

from storage.files.durable import make_folder
from tasks import dask_faults as faults
from tasks.dask_connection import CLOSE, connected, connected_to_readers, is_named, silence_dask
from tasks.dask_factory import interrupts_blocked
from tasks.dask_workers import Workers

HOST = "127.0.0.1"
SCRATCH = "dask-"
YOUNG = 60.0  # seconds; a run locks its folder sooner than this after making it


@contextmanager
def dask_workers(address: str | None, work: Path | None, *, kept: str) -> Generator[Workers]:
    """The cluster that the user names, else one process for each core of this machine, with scratch files in `work`.

    `kept` completes a failure's message: what a second run starts from.
    """
    with _lent(address, work) as (client, scheduler):
        workers = Workers(client, replace(scheduler, kept=kept))
        if is_named(address):
            workers.require_same_versions()
        yield workers


@contextmanager
def secure_workers(address: str, *, kept: str) -> Generator[Workers]:
    """The cluster at `address`, whose workers may see rows."""
    large = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # rows of a query are sent on purpose
    with dask.config.set(large), connected_to_readers(address) as (client, scheduler):
        workers = Workers(client, replace(scheduler, kept=kept))
        workers.require_same_versions()
        yield workers


@contextmanager
def shared_cluster(address: str | None, work: Path | None) -> Generator[None]:
    """Inside, all analyses use one cluster, made when the first of them needs it; in a block inside it, too."""
    if _shared:
        yield
        return
    _shared.append(_Shared(address, work))
    try:
        yield
    finally:
        _shared.pop().close()


Connection = tuple[Client, faults.ClusterFaults]


class _Shared:
    """A cluster for several analyses."""

    def __init__(self, address: str | None, work: Path | None) -> None:
        self.address, self._work = address, work
        self._open = ExitStack()
        self._connection: Connection | None = None

    def connection(self) -> Connection:
        """The client of the cluster, which is made anew after it was closed."""
        if self._connection is None:
            self._connection = self._open.enter_context(_cluster(self.address, self._work))
        return self._connection

    def close(self) -> None:
        """End the cluster, or the connection to it; the next analysis has a new one."""
        self._connection = None
        self._open.close()


_shared: list[_Shared] = []


@contextmanager
def _lent(address: str | None, work: Path | None) -> Generator[Connection]:
    """A client of the shared cluster, else of one for this block alone; after a failure the next has a new one."""
    if not _shared or _shared[-1].address != address:
        with _cluster(address, work) as connection:
            yield connection
        return
    try:
        yield _shared[-1].connection()
    except BaseException:
        _shared[-1].close()
        raise


@contextmanager
def _cluster(address: str | None, work: Path | None) -> Generator[Connection]:
    """A client of the cluster that the user names, else of a new one on this machine."""
    if is_named(address):
        with connected(address) as connection:
            yield connection
        return
    with _scratch(work) as scratch, _local_cluster(scratch) as client:
        yield client, faults.ClusterFaults("the Dask scheduler of this run")


class SilentScheduler(Scheduler):
    """A scheduler without its web server, which any user of this machine could read."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Open no port."""


class SilentWorker(Worker):
    """A worker without its web server."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Open no port."""


@contextmanager
def _scratch(work: Path | None) -> Generator[str]:
    """A scratch folder for this user alone; first, folders that killed runs left in `work` are deleted."""
    if work is not None:
        make_folder(work, mode=0o700)
        _sweep(work)
    with tempfile.TemporaryDirectory(dir=work, prefix=SCRATCH) as folder:
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # marks the folder as in use; released when the process ends in any way
            yield folder
        finally:
            os.close(handle)


def _sweep(work: Path) -> None:
    for folder in work.glob(f"{SCRATCH}*"):
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if time.time() - os.fstat(handle).st_mtime > YOUNG:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
            finally:
                os.close(handle)


@contextmanager
def _local_cluster(scratch: str) -> Generator[Client]:
    """A local cluster that accepts only holders of its TLS key, which is new and exists in memory only."""
    silence_dask()
    try:
        with dask.config.set({"temporary-directory": scratch}), interrupts_blocked():
            cluster = _start(scratch)
    except (OSError, RuntimeError) as error:
        raise faults.not_started(type(error).__name__) from error
    try:
        with Client(cluster, set_as_default=False) as client:
            yield client
    finally:
        _end(cluster)


def _start(scratch: str) -> SpecCluster:
    """Start the local cluster, trying twice: on a busy machine a worker may miss Dask's time limit."""
    common: dict[str, Any] = {"host": HOST, "protocol": "tls://", "security": Security.temporary()}
    worker = {"nthreads": 1, "worker_class": SilentWorker, "local_directory": scratch, **common}

    def cluster() -> SpecCluster:
        return SpecCluster(
            scheduler={"cls": SilentScheduler, "options": {"dashboard": False, **common}},
            workers={
                number: {"cls": Nanny, "options": {"silence_logs": logging.CRITICAL, **worker}}
                for number in range(CPU_COUNT)
            },
            security=common["security"],
            silence_logs=logging.CRITICAL,
        )

    try:
        return cluster()
    except RuntimeError:
        return cluster()


def _end(cluster: SpecCluster) -> None:
    """Kill the workers, which have no state of their own: closing them takes seconds while a block runs."""
    for nanny in cluster.workers.values():
        nanny.close_gracefully()  # so that it does not restart the worker
        with suppress(ProcessLookupError, TypeError):
            os.kill(nanny.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        cluster.close(timeout=CLOSE)
