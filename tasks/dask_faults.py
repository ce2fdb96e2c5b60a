"""The failures of a Dask cluster, each with its message and its time limit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from distributed.versions import get_versions

from dpbayes_core.errors import DpbayesError

CONNECT = 30.0
"""Seconds for a scheduler to accept the connection."""

ANSWER = 30.0
"""Seconds for a scheduler to answer while blocks run."""

WORKERS = 60.0
"""Seconds without any worker, or without a heartbeat from all of them."""

ON_WORKERS = ("dpbayes", "numpy", "scipy", "numba", "dask", "distributed", "cloudpickle", "msgpack")
"""Packages that decide the draws or their transport: workers must have the versions that our crates record."""

ON_READERS = (*ON_WORKERS, "pyarrow", "fsspec", "cryptography")
"""The same for workers that read rows, which have to read them as this process would."""

ON_SCHEDULERS = ("dask", "distributed", "msgpack")


class DaskMisnamed(DpbayesError):
    """DPBAYES_DASK does not name a usable scheduler."""

    kind = "dask-misnamed"
    exit_code = 2


class DaskUnavailable(DpbayesError):
    """The cluster cannot be used in its present state."""

    kind = "dask-unavailable"


class DaskLost(DaskUnavailable):
    """The connection to a working cluster was lost; it may come back."""


def no_scheduler(address: str, variable: str) -> DaskUnavailable:
    """Nothing answers at the address that the variable names, or no Dask scheduler does."""
    return DaskUnavailable(
        f"cannot reach the Dask scheduler at {address}: none answered within {CONNECT:.0f} seconds. "
        f"Start it, or correct or unset {variable}."
    )


def not_trusted(address: str) -> DaskUnavailable:
    """Client and scheduler do not accept each other's certificates."""
    return DaskUnavailable(
        f"cannot trust the Dask scheduler at {address}: its certificate, or ours, is not signed by the authority "
        "that the other end trusts. Correct DASK_DISTRIBUTED__COMM__TLS__*."
    )


def no_certificate(address: str) -> DaskMisnamed:
    """TLS is asked for and no certificate is configured."""
    return DaskMisnamed(
        f"cannot reach the Dask scheduler at {address}: no certificate of ours is configured, or its file cannot be "
        "read. Set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY."
    )


def not_secure(address: str) -> DaskMisnamed:
    """The address of the secure cluster is not of the form tls://HOST:PORT."""
    return DaskMisnamed(
        f"cannot use DPBAYES_SECURE_DASK={address}: it is not tls://HOST:PORT. Write it in full; rows are read behind "
        "TLS only."
    )


def in_the_clear() -> DaskUnavailable:
    """A worker of the secure cluster listens without TLS."""
    return DaskUnavailable(
        "cannot read rows on the secure cluster: a worker of it does not use TLS. Start all of its workers with "
        "tls:// addresses."
    )


def no_address(address: str) -> DaskMisnamed:
    """The address is not of the form tls://HOST:PORT or tcp://HOST:PORT."""
    return DaskMisnamed(
        f"cannot use DPBAYES_DASK={address}: it is not tls://HOST:PORT or tcp://HOST:PORT. Write it in full."
    )


def plain(setting: str, host: str) -> DaskMisnamed:
    """The address is one of another machine, in plain TCP."""
    return DaskMisnamed(
        f"cannot use {setting}: tcp:// to another machine is not encrypted, and obeys everybody who reaches it. "
        f"Use tls://, or allow {host} by name in DPBAYES_DASK_ALLOW_PLAIN."
    )


def two_clusters(address: str, factory: str) -> DaskMisnamed:
    """An address and a function name a cluster each."""
    return DaskMisnamed(
        f"cannot use DPBAYES_DASK={address} and DPBAYES_DASK_FACTORY={factory}: they are two clusters. Unset one of "
        "them."
    )


def no_factory(name: str, reason: str) -> DaskMisnamed:
    """DPBAYES_DASK_FACTORY names no function that returns a cluster."""
    return DaskMisnamed(
        f"cannot use DPBAYES_DASK_FACTORY={name}: {reason}. Write package.module:function, of a module that is "
        "installed or on PYTHONPATH."
    )


def writable_factory(name: str, place: str) -> DaskMisnamed:
    """Other users may change the code of the function."""
    return DaskMisnamed(
        f"cannot use DPBAYES_DASK_FACTORY={name}: other users may write {place}, or a folder above it, and its code "
        "runs with your rights. Move it to a folder of your own, or `chmod go-w` it."
    )


def failed_factory(name: str, error: str) -> DaskUnavailable:
    """The function raises an exception, or what it made cannot be connected to."""
    return DaskUnavailable(
        f"cannot make the cluster of DPBAYES_DASK_FACTORY={name}: {error}. Run again with --debug for its traceback."
    )


def no_seconds(setting: str, stated: str) -> DaskMisnamed:
    """A limit that is not a number of seconds."""
    return DaskMisnamed(f"cannot use {setting}={stated}: it is not a number of seconds. Write 1800, for instance.")


def not_started(reason: str) -> DaskUnavailable:
    """The local worker processes could not be started."""
    return DaskUnavailable(
        f"cannot start worker processes on this machine: {reason}. See that processes, memory and disk are left, "
        "or name a cluster in DPBAYES_DASK."
    )


@cache
def package_versions() -> Mapping[str, Any]:
    """The versions, in this process, of the packages that decide draws, sums or their transport."""
    return get_versions(packages=ON_READERS)["packages"]


@dataclass(frozen=True)
class ClusterFaults:
    """The failures of one cluster; `kept` says what a second run starts from."""

    scheduler: str
    kept: str = "it begins from the start"
    wait: float | None = None  # seconds without a worker, if not WORKERS
    on_workers: tuple[str, ...] = ON_WORKERS  # packages whose versions decide the result

    @property
    def limit(self) -> float:
        """Seconds without any worker, or without a heartbeat from all of them, until a run is given up."""
        return WORKERS if self.wait is None else self.wait

    def gone(self) -> DaskLost:
        """The scheduler closed the connection."""
        return DaskLost(f"cannot go on: {self.scheduler} closed the connection. Run again; {self.kept}.")

    def silent(self) -> DaskUnavailable:
        """The scheduler is connected but does not answer."""
        return DaskUnavailable(
            f"cannot go on: {self.scheduler} has not answered for {ANSWER:.0f} seconds. "
            f"Restart it and run again; {self.kept}."
        )

    def empty(self) -> DaskUnavailable:
        """The scheduler has no workers."""
        return DaskUnavailable(
            f"cannot go on: {self.scheduler} has had no worker for {self.limit:.0f} seconds. "
            f"Start workers and run again; {self.kept}."
        )

    def lifeless(self) -> DaskUnavailable:
        """Workers are registered but send no heartbeat."""
        return DaskUnavailable(
            f"cannot go on: the workers of {self.scheduler} have given no sign of life for {self.limit:.0f} seconds. "
            f"Restart them and run again; {self.kept}."
        )

    def deadly(self) -> DaskUnavailable:
        """The same piece of work killed several workers, most often for lack of memory."""
        return DaskUnavailable(
            f"cannot go on: several workers of {self.scheduler} died of the same piece of work. "
            f"Give them more memory and run again; {self.kept}."
        )

    def require_same_versions(self, versions: Mapping[str, Any]) -> None:
        """Refuse a scheduler or worker with other package versions than ours, and name the package."""
        self._compare("it", versions["scheduler"]["packages"], ON_SCHEDULERS)
        for worker in versions["workers"].values():
            self.require_same_version_of_worker(worker["packages"])

    def require_same_version_of_worker(self, theirs: Mapping[str, Any]) -> None:
        """Refuse a worker with other versions of packages than ours."""
        self._compare("a worker of it", theirs, ("python", *self.on_workers))

    def _compare(self, who: str, theirs: Mapping[str, Any], names: Iterable[str]) -> None:
        ours = package_versions()
        for name in names:
            if theirs.get(name) == ours[name]:
                continue
            version = theirs.get(name)
            fault = f"has {name} {_plain(version)}, and {_plain(ours[name])} is here" if version else f"lacks {name}"
            raise DaskUnavailable(
                f"cannot use {self.scheduler}: {who} {fault}. Install the same requirements.lock on all machines."
            )


def _plain(version: str) -> str:
    return version.removesuffix(".final.0")
