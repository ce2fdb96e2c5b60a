"""What can fail about Dask, in words for people, and how long each is waited for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from distributed.versions import get_versions

from dpbayes_core.errors import DpbayesError

CONNECT = 30.0
"""Seconds for a scheduler to answer at first."""

ANSWER = 30.0
"""Seconds for a scheduler to answer while blocks run."""

WORKERS = 60.0
"""Seconds without any worker, or without a sign of life from all there are."""

ON_WORKERS = ("dpbayes", "numpy", "scipy", "numba", "dask", "distributed", "cloudpickle", "msgpack")
"""Decide what is drawn, or how it travels: crates name our versions, so the workers' must be the same."""

ON_SCHEDULERS = ("dask", "distributed", "msgpack")


class DaskMisnamed(DpbayesError):
    """DPBAYES_DASK names nothing that can be used."""

    kind = "dask-misnamed"
    exit_code = 2


class DaskUnavailable(DpbayesError):
    """The cluster cannot be used as it stands."""

    kind = "dask-unavailable"


class DaskLost(DaskUnavailable):
    """The cluster worked and then went away; it may come back."""


def no_scheduler(address: str) -> DaskUnavailable:
    """Nothing answers there, or nothing that speaks Dask."""
    return DaskUnavailable(
        f"cannot reach the Dask scheduler at {address}: none answered within {CONNECT:.0f} seconds. "
        "Start it, or correct or unset DPBAYES_DASK."
    )


def not_trusted(address: str) -> DaskUnavailable:
    """Two ends that do not accept each other's certificates."""
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


def no_address(address: str) -> DaskMisnamed:
    """Neither tls:// nor tcp://."""
    return DaskMisnamed(
        f"cannot use DPBAYES_DASK={address}: it is not tls://HOST:PORT or tcp://HOST:PORT. Write it in full."
    )


def not_started(reason: str) -> DaskUnavailable:
    """No processes of our own."""
    return DaskUnavailable(
        f"cannot start worker processes on this machine: {reason}. See that processes, memory and disk are left, "
        "or name a cluster in DPBAYES_DASK."
    )


@dataclass(frozen=True)
class Place:
    """Which cluster it is, and what a run that failed there finds when it is run again."""

    scheduler: str
    kept: str

    def gone(self) -> DaskLost:
        """It closed the connection."""
        return DaskLost(f"cannot go on: {self.scheduler} closed the connection. Run again; {self.kept}.")

    def silent(self) -> DaskUnavailable:
        """It is connected and says nothing."""
        return DaskUnavailable(
            f"cannot go on: {self.scheduler} has not answered for {ANSWER:.0f} seconds. "
            f"Restart it and run again; {self.kept}."
        )

    def empty(self) -> DaskUnavailable:
        """Nobody is there to run anything."""
        return DaskUnavailable(
            f"cannot go on: {self.scheduler} has had no worker for {WORKERS:.0f} seconds. "
            f"Start workers and run again; {self.kept}."
        )

    def lifeless(self) -> DaskUnavailable:
        """Workers are registered and give no sign of life."""
        return DaskUnavailable(
            f"cannot go on: the workers of {self.scheduler} have given no sign of life for {WORKERS:.0f} seconds. "
            f"Restart them and run again; {self.kept}."
        )

    def deadly(self) -> DaskUnavailable:
        """The same piece of work ended several workers: most often they have too little memory."""
        return DaskUnavailable(
            f"cannot go on: several workers of {self.scheduler} died of the same piece of work. "
            f"Give them more memory and run again; {self.kept}."
        )

    def require_same_versions(self, told: Mapping[str, Any]) -> None:
        """Refuse a scheduler or worker with other software than ours, and say which package differs."""
        self._compare("it", told["scheduler"], ON_SCHEDULERS)
        for worker in told["workers"].values():
            self._compare("a worker of it", worker, ("python", *ON_WORKERS))

    def _compare(self, who: str, told: Mapping[str, Any], names: Iterable[str]) -> None:
        ours, theirs = get_versions(packages=ON_WORKERS)["packages"], told["packages"]
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
