"""Connect to a cluster of the user's: a scheduler at an address, or what a function of the user's returns."""

import logging
import os
import ssl
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from distributed import Client
from distributed.comm.core import FatalCommClosedError
from distributed.security import Security
from distributed.versions import VersionMismatchWarning

from tasks import dask_faults as faults
from tasks.dask_factory import FACTORY, Factory

ALLOW_PLAIN = "DPBAYES_DASK_ALLOW_PLAIN"
"""Hosts, separated by commas, to which tcp:// is allowed although they are not this machine."""

WAIT = "DPBAYES_DASK_WAIT"
"""Seconds to wait for a worker, for clusters whose workers are jobs in a queue."""

CLOSE = 2.0  # seconds to close a connection


def is_named(address: str | None) -> bool:
    """Whether the user names a cluster, by its address or by a function."""
    return address is not None or bool(os.environ.get(FACTORY))


@contextmanager
def connected(address: str | None) -> Generator[tuple[Client, faults.ClusterFaults]]:
    """A client of the cluster that the user names, with the sentences about its failures."""
    limit, factory = _limit(), os.environ.get(FACTORY)
    _silence()
    if address is None:
        assert factory is not None
        with Factory.named(factory).client() as client:
            scheduler = str(client.scheduler_info()["address"])
            _require_allowed(scheduler, f"{FACTORY}={factory}")
            yield client, faults.ClusterFaults(f"the Dask scheduler at {scheduler}", wait=limit)
        return
    if factory:
        raise faults.two_clusters(address, factory)
    with _closing(_connected(address, "DPBAYES_DASK")) as client:
        yield client, faults.ClusterFaults(f"the Dask scheduler at {address}", wait=limit)


@contextmanager
def connected_to_readers(address: str) -> Generator[tuple[Client, faults.ClusterFaults]]:
    """A client of the secure cluster, whose workers see rows, with the sentences about its failures."""
    limit = _limit()
    _silence()
    with _closing(_connected(address, "DPBAYES_SECURE_DASK")) as client:
        scheduler = f"the Dask scheduler at {address}"
        yield client, faults.ClusterFaults(scheduler, wait=limit, on_workers=faults.ON_READERS)


@contextmanager
def _closing(client: Client) -> Generator[Client]:
    try:
        yield client
    finally:
        with suppress(TimeoutError, OSError, RuntimeError):
            client.close(timeout=CLOSE)


def _silence() -> None:
    silence_dask()
    warnings.filterwarnings("ignore", category=VersionMismatchWarning)  # refused in our words


def silence_dask() -> None:
    """Silence the loggers of Dask and tornado, since failures are reported in our words.

    Dask's own option silences only one of its loggers; tornado logs the closed socket of a worker that dies.
    """
    below = ("tornado.access", "tornado.application", "tornado.general")
    for name in ("distributed", *below, *logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed" or name in below:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _limit() -> float | None:
    """Seconds without a worker until a run is given up, if the user says so."""
    stated = os.environ.get(WAIT)
    if not stated:
        return None
    if not stated.isascii() or not stated.isdigit() or int(stated) < 1:
        raise faults.no_seconds(WAIT, stated)
    return float(stated)


def _is_complete(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("tcp", "tls") and bool(parts.hostname and parts.port) and not parts.path
    except ValueError:
        return False


def _require_allowed(address: str, setting: str) -> None:
    """Refuse plain TCP to another machine that is not allowed by name."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    allowed = {name.strip().strip("[]").lower() for name in os.environ.get(ALLOW_PLAIN, "").split(",")}
    if parts.scheme == "tcp" and not _is_this_machine(host) and host not in allowed:
        raise faults.plain(setting, host)


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _connected(address: str, variable: str) -> Client:
    """A client connected to the scheduler; one that does not answer within the limit is refused."""
    if not _is_complete(address):
        raise faults.no_address(address)
    if address.startswith("tls://"):
        _require_certificate(address)
    _require_allowed(address, f"{variable}={address}")
    try:
        return _with_time_limit(
            faults.CONNECT, lambda: Client(address, timeout=faults.CONNECT - 1, set_as_default=False)
        )
    except FatalCommClosedError as error:
        raise faults.not_trusted(address) from error
    except (OSError, TimeoutError, RuntimeError, ValueError) as error:
        if _is_tls_failure(error):
            raise faults.not_trusted(address) from error
        raise faults.no_scheduler(address, variable) from error


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
