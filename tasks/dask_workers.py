"""Run pieces of work on a cluster and watch it: any failure of the cluster is one error within a time limit."""

import queue
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import uuid4

from distributed import Client, Future
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from dpbayes_core.errors import DpbayesError
from tasks import dask_faults as faults

PULSE = 5.0  # seconds without a result until the cluster's health is checked


class Workers:
    """A cluster that runs numbered pieces of work."""

    def __init__(self, client: Client, cluster_faults: faults.ClusterFaults) -> None:
        self._client, self._faults = client, cluster_faults
        self._done: queue.Queue[Future] = queue.Queue()
        self._under_way: dict[str, int] = {}
        self._seen: dict[str, Any] = {}
        self._quiet = 0  # checks in a row without a heartbeat; seconds would also pass while this process is suspended

    def submit(self, number: int, function: Callable[..., Any], *arguments: Any) -> None:
        """Run `function(*arguments)`, which must be pure: if a worker dies, its work is repeated."""
        key = f"{function.__name__}-{uuid4().hex}"
        try:
            future = self._client.submit(run_piece, function, *arguments, key=key, pure=False)
            future.add_done_callback(self._done.put)
        except Exception as error:
            if self._client.status == "running":
                raise
            raise self._faults.gone() from error
        self._under_way[key] = number

    def finished(self) -> Iterator[tuple[int, Any]]:
        """Yield number and result of each piece as it ends, until none is left; more may be submitted meanwhile."""
        self._quiet = 0
        while self._under_way:
            try:
                future = self._done.get(timeout=PULSE)
            except queue.Empty:
                self._check_cluster()
                continue
            self._quiet = 0
            versions, result = self._result(future)
            self._faults.require_same_version_of_worker(versions)
            yield self._under_way.pop(future.key), result

    def threads(self) -> int:
        """How many pieces of work the cluster can run at the same time, at present."""
        try:
            found = self._call(self._client.scheduler.identity, within=faults.ANSWER)
        except TimeoutError as error:
            raise self._faults.silent() from error
        return sum(worker["nthreads"] for worker in found["workers"].values())

    def require_same_versions(self) -> None:
        """Refuse a scheduler or workers with other package versions than ours."""
        try:
            found = self._call(self._versions, within=faults.WORKERS)
        except TimeoutError as error:
            raise self._faults.lifeless() from error
        self._faults.require_same_versions(found)

    async def _versions(self) -> dict[str, Any]:
        scheduler, question = self._client.scheduler, {"op": "versions", "packages": faults.ON_READERS}
        return {
            "scheduler": await scheduler.versions(packages=faults.ON_READERS),
            "workers": await scheduler.broadcast(msg=question, on_error="ignore"),
        }

    def _result(self, future: Future) -> Any:
        while True:
            try:
                return future.result(timeout=faults.ANSWER)
            except FutureCancelledError as error:
                raise self._faults.gone() from error
            except KilledWorker as error:
                raise self._faults.deadly() from error
            except DpbayesError:
                raise
            except Exception:
                if future.status == "error":
                    self.require_same_versions()  # other versions may be the cause, and are the clearer error
                    raise
                self._check_cluster()

    def _check_cluster(self) -> None:
        """Check the cluster's health, and raise what is wrong with it, if anything."""
        try:
            found = self._call(self._client.scheduler.identity, within=faults.ANSWER)
        except TimeoutError as error:
            raise self._faults.silent() from error
        seen = {address: worker["last_seen"] for address, worker in found["workers"].items()}
        joined = seen.keys() - self._seen.keys()
        self._quiet = 0 if seen and seen != self._seen else self._quiet + 1
        self._seen = seen
        if self._quiet * PULSE >= self._faults.limit:
            raise self._faults.lifeless() if seen else self._faults.empty()
        if joined:
            self.require_same_versions()

    def _call(self, question: Callable[..., Any], *, within: float) -> Any:
        try:
            return self._client.sync(question, callback_timeout=within)
        except TimeoutError:
            raise
        except Exception as error:
            raise self._faults.gone() from error


def run_piece(function: Callable[..., Any], *arguments: Any) -> tuple[Mapping[str, Any], Any]:
    """Run a piece on a worker: its result, and the versions that made it, for a worker may join after the check."""
    return faults.package_versions(), function(*arguments)
