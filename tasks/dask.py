"""The Dask cluster that runs blocks and cells: local processes with one-time certificates, or a named scheduler."""

import fcntl
import logging
import os
import shutil
import signal
import ssl
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask
from dask.system import CPU_COUNT
from distributed import Client, Nanny, Scheduler, SpecCluster, Worker
from distributed.comm.core import FatalCommClosedError
from distributed.security import Security
from distributed.versions import VersionMismatchWarning

from storage.files.durable import make_folder
from tasks import dask_faults as faults
from tasks.dask_workers import Workers

HOST = "127.0.0.1"
CLOSE = 2.0  # seconds to close a connection
SCRATCH = "dask-"
YOUNG = 60.0  # seconds; a run locks its folder sooner than this after making it


@contextmanager
def dask_workers(address: str | None, work: Path | None, *, kept: str) -> Generator[Workers]:
    """The cluster at `address`, else one process for each core of this machine, with scratch files in `work`.

    `kept` completes a failure's message: what a second run starts from.
    """
    if address is None:
        with _lent(work) as client:
            yield Workers(client, faults.ClusterFaults("the Dask scheduler of this run", kept))
        return
    client = _connected(address)
    try:
        workers = Workers(client, faults.ClusterFaults(f"the Dask scheduler at {address}", kept))
        workers.require_same_versions()
        yield workers
    finally:
        _close(client)


@contextmanager
def shared_cluster(address: str | None, work: Path | None, *, ahead: bool) -> Generator[None]:
    """Inside, all analyses use one cluster of this machine; `ahead` starts it now, while something else is done.

    With a scheduler of the user's at `address` there is nothing to start. Inside another such block that one's is used.
    """
    if address is not None or _shared:
        yield
        return
    _shared.append(_Shared(work, ahead=ahead))
    try:
        yield
    finally:
        _shared.pop().close()


class _Shared:
    """A cluster of this machine for several analyses, started in a thread or when the first of them needs it."""

    def __init__(self, work: Path | None, *, ahead: bool) -> None:
        self._work = work
        self._open = ExitStack()
        self._client: Client | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._start if ahead else None, name="dpbayes-cluster", daemon=True)
        self._thread.start()

    def client(self) -> Client:
        """The client of the cluster, which is started anew after it was closed or did not start."""
        self._thread.join()
        if self._client is None and self._failure is None:
            self._start()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        assert self._client is not None
        return self._client

    def close(self) -> None:
        """End the cluster; the next client has a new one."""
        self._thread.join()
        self._client = None
        self._open.close()

    def _start(self) -> None:
        try:
            scratch = self._open.enter_context(_scratch(self._work))
            self._client = self._open.enter_context(_local_cluster(scratch))
        except BaseException as failure:
            self._open.close()
            self._failure = failure


_shared: list[_Shared] = []


@contextmanager
def _lent(work: Path | None) -> Generator[Client]:
    """A client of the shared cluster, else of one for this block alone; after a failure the next has a new one."""
    if not _shared:
        with _scratch(work) as scratch, _local_cluster(scratch) as client:
            yield client
        return
    try:
        yield _shared[-1].client()
    except BaseException:
        _shared[-1].close()
        raise


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
    _silence()
    try:
        with dask.config.set({"temporary-directory": scratch}), _interrupts_blocked():
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


@contextmanager
def _interrupts_blocked() -> Generator[None]:
    """Block SIGINT for threads and processes started inside: only this process handles Ctrl-C, and ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(cluster: SpecCluster) -> None:
    """Kill the workers, which have no state of their own: closing them takes seconds while a block runs."""
    for nanny in cluster.workers.values():
        nanny.close_gracefully()  # so that it does not restart the worker
        with suppress(ProcessLookupError, TypeError):
            os.kill(nanny.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        cluster.close(timeout=CLOSE)


def _connected(address: str) -> Client:
    """A client connected to the scheduler; one that does not answer within the limit is refused."""
    if not _is_complete(address):
        raise faults.no_address(address)
    _silence()
    warnings.filterwarnings("ignore", category=VersionMismatchWarning)  # refused in our words
    if address.startswith("tls://"):
        _require_certificate(address)
    try:
        return _with_time_limit(
            faults.CONNECT, lambda: Client(address, timeout=faults.CONNECT - 1, set_as_default=False)
        )
    except FatalCommClosedError as error:
        raise faults.not_trusted(address) from error
    except (OSError, TimeoutError, RuntimeError, ValueError) as error:
        if _is_tls_failure(error):
            raise faults.not_trusted(address) from error
        raise faults.no_scheduler(address) from error


def _silence() -> None:
    """Silence the loggers of Dask and tornado, since failures are reported in our words.

    Dask's own option silences only one of its loggers; tornado logs the closed socket of a worker that dies.
    """
    below = ("tornado.access", "tornado.application", "tornado.general")
    for name in ("distributed", *below, *logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed" or name in below:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _is_complete(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("tcp", "tls") and bool(parts.hostname and parts.port) and not parts.path
    except ValueError:
        return False


def _require_certificate(address: str) -> None:
    try:
        context = Security().get_connection_args("client")["ssl_context"]
    except OSError as error:
        raise faults.no_certificate(address) from error
    if context is None:
        raise faults.no_certificate(address)


def _is_tls_failure(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _with_time_limit(seconds: float, make: Callable[[], Client]) -> Client:
    """The result of `make`, or TimeoutError: a scheduler that accepts a connection but is silent blocks for ever."""
    made: list[Client] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(make())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True, name="dpbayes-connect")
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not made:
        raise TimeoutError
    return made[0]


def _close(client: Client) -> None:
    with suppress(TimeoutError, OSError, RuntimeError):
        client.close(timeout=CLOSE)
