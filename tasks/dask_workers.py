"""Pieces of work on a cluster that is watched: whatever happens to it ends in one sentence within a limit."""

import queue
from collections.abc import Callable, Iterator
from typing import Any

from distributed import Client, Future
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from dpbayes_core.errors import DpbayesError
from tasks import dask_faults as faults

PULSE = 5.0  # seconds between looks at a cluster from which nothing came


class Workers:
    """A cluster that pieces of work are given to; each comes back under its own number."""

    def __init__(self, client: Client, place: faults.Place) -> None:
        self._client, self._place = client, place
        self._done: queue.Queue[Future] = queue.Queue()
        self._under_way: dict[str, int] = {}
        self._seen: dict[str, Any] = {}
        self._quiet = 0  # looks in a row that saw no sign of life; not seconds, which pass while we are stopped

    def submit(self, number: int, function: Callable[..., Any], *arguments: Any) -> None:
        """Have `function(*arguments)` run; it is pure, so that what a dead worker did is done again."""
        try:
            future = self._client.submit(function, *arguments, pure=False)
            future.add_done_callback(self._done.put)
        except Exception as error:
            if self._client.status == "running":
                raise
            raise self._place.gone() from error
        self._under_way[future.key] = number

    def finished(self) -> Iterator[tuple[int, Any]]:
        """Number and result of each piece as it ends, until none is under way; more may be submitted meanwhile."""
        self._quiet = 0
        while self._under_way:
            try:
                future = self._done.get(timeout=PULSE)
            except queue.Empty:
                self._look()
                continue
            self._quiet = 0
            yield self._under_way.pop(future.key), self._result(future)

    def require_same_versions(self) -> None:
        """Refuse software that differs from ours, before anything runs there."""
        try:
            told = self._ask(self._versions, within=faults.WORKERS)
        except TimeoutError as error:
            raise self._place.lifeless() from error
        self._place.require_same_versions(told)

    async def _versions(self) -> dict[str, Any]:
        scheduler, question = self._client.scheduler, {"op": "versions", "packages": faults.ON_WORKERS}
        return {
            "scheduler": await scheduler.versions(packages=faults.ON_WORKERS),
            "workers": await scheduler.broadcast(msg=question, on_error="ignore"),
        }

    def _result(self, future: Future) -> Any:
        while True:
            try:
                return future.result(timeout=faults.ANSWER)
            except FutureCancelledError as error:
                raise self._place.gone() from error
            except KilledWorker as error:
                raise self._place.deadly() from error
            except DpbayesError:
                raise
            except Exception:
                if future.status == "error":
                    self.require_same_versions()  # a worker of other software is named as what it is
                    raise
                self._look()

    def _look(self) -> None:
        """Raise what is wrong with the cluster, if anything is."""
        try:
            told = self._ask(self._client.scheduler.identity, within=faults.ANSWER)
        except TimeoutError as error:
            raise self._place.silent() from error
        seen = {address: worker["last_seen"] for address, worker in told["workers"].items()}
        joined = seen.keys() - self._seen.keys()
        self._quiet = 0 if seen and seen != self._seen else self._quiet + 1
        self._seen = seen
        if self._quiet * PULSE >= faults.WORKERS:
            raise self._place.lifeless() if seen else self._place.empty()
        if joined:
            self.require_same_versions()

    def _ask(self, question: Callable[..., Any], *, within: float) -> Any:
        try:
            return self._client.sync(question, callback_timeout=within)
        except TimeoutError:
            raise
        except Exception as error:
            raise self._place.gone() from error
