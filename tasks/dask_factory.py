"""A function of the user's that makes a Dask cluster: DPBAYES_DASK_FACTORY=package.module:function.

It runs in dpbayes's process with its rights, so its code is trusted, and must not be writable by others.
"""

import os
import signal
import sysconfig
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.deploy.cluster import Cluster

from storage.files.private import is_ours_alone, others_may_write
from tasks import dask_faults as faults

FACTORY = "DPBAYES_DASK_FACTORY"
END = 3.0  # seconds to end a cluster, of the 3.5 that a command has after Ctrl-C


@dataclass(frozen=True)
class Factory:
    """A function that returns a Cluster or a Client, and its name as the user wrote it."""

    name: str
    function: Callable[[], Any]

    @classmethod
    def named(cls, name: str) -> "Factory":
        """The function at `package.module:function`; a module that others can write is refused before its import."""
        module, _, function = name.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), function)):
            raise faults.no_factory(name, "it is not of the form package.module:function")
        _refuse_writable(name, module)
        try:
            found = getattr(import_module(module), function, None)
        except Exception as error:
            raise faults.no_factory(name, f"importing {module} raises {type(error).__name__}") from error
        if not callable(found):
            raise faults.no_factory(name, f"{module} has no function {function}")
        return cls(name, found)

    @contextmanager
    def client(self) -> Generator[Client]:
        """A client of what the function returns; both are closed at the end."""
        try:
            with interrupts_blocked():
                made = self.function()
        except Exception as error:
            raise faults.failed_factory(self.name, type(error).__name__) from error
        if not isinstance(made, Client | Cluster) or made.asynchronous:
            raise faults.no_factory(self.name, f"it returns {type(made).__name__}, no Cluster or Client")
        with _ended(made):
            if isinstance(made, Client):
                yield made
                return
            with _ended(self._connected(made)) as client:
                yield client

    def _connected(self, cluster: Cluster) -> Client:
        try:
            return Client(cluster, timeout=faults.CONNECT, set_as_default=False)
        except (OSError, TimeoutError, RuntimeError, ValueError) as error:
            raise faults.failed_factory(self.name, type(error).__name__) from error


@contextmanager
def _ended(made: Any) -> Generator[Any]:
    try:
        yield made
    finally:
        with suppress(Exception):  # of the user's cluster class, after the result or the failure that counts
            made.close(timeout=END)


@contextmanager
def interrupts_blocked() -> Generator[None]:
    """Block SIGINT for threads and processes started inside: only this process handles Ctrl-C, and ends them."""
    resource_tracker.ensure_running()  # the first thread to start it would let SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _refuse_writable(name: str, module: str) -> None:
    """Refuse code that others can change, without importing any of it."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        known = ".".join(parts[:count])
        try:
            spec = find_spec(known)  # imports the package above, which was checked in the turn before
        except Exception as error:
            raise faults.no_factory(name, f"importing {known} raises {type(error).__name__}") from error
        if spec is None:
            raise faults.no_factory(name, f"there is no module {known}")
        files = [spec.origin] if spec.has_location and spec.origin else []
        for place in map(Path, (*files, *(spec.submodule_search_locations or ()))):
            if not _is_of_the_environment(place) and _others_can_change(place):
                raise faults.writable_factory(name, str(place))


def _is_of_the_environment(place: Path) -> bool:
    """Whether code is where dpbayes's own libraries are: whoever can write there needs no factory."""
    paths = sysconfig.get_paths()
    return any(place.resolve().is_relative_to(Path(paths[each]).resolve()) for each in ("purelib", "platlib", "stdlib"))


def _others_can_change(place: Path) -> bool:
    folder = place if place.is_dir() else place.parent
    return not is_ours_alone(folder) or any(
        found.st_uid not in (0, os.geteuid()) or others_may_write(found, os.geteuid())
        for found in (each.stat() for each in _code(place))
    )


def _code(place: Path) -> Iterator[Path]:
    """The file itself and what Python may have compiled of it."""
    yield place
    if place.is_file():
        yield from (place.parent / "__pycache__").glob(f"{place.stem}.*.pyc")
