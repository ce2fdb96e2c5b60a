"""A real Dask cluster, as if on other machines: scheduler and workers in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

PATIENCE = 120.0


class DaskCluster:
    """A scheduler and workers that can be stopped and killed; workers may run another Python."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None, protocol: str = "tcp") -> None:
        self._folder, self._settings, self._protocol = folder, dict(settings or {}), protocol
        self._workers: list[subprocess.Popen[bytes]] = []
        folder.mkdir(exist_ok=True)
        self.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.scheduler, *self._workers):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def begin(self, port: int = 0) -> None:
        """Start the scheduler, at a free port unless one is given."""
        file = self._folder / "scheduler.json"
        file.unlink(missing_ok=True)
        self.scheduler = self._start(
            [sys.executable],
            *("distributed.cli.dask_scheduler", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
            *("--host", f"{self._protocol}://127.0.0.1", "--port", str(port), "--scheduler-file", str(file)),
        )
        self.address = str(json.loads(self._wait_for(file))["address"])

    def work(self, python: str = sys.executable, **settings: str) -> None:
        """Start a worker, and wait until the scheduler has it."""
        pid_file = self._folder / f"worker-{len(self._workers)}.pid"
        worker = self._start(
            [python, "-P"],
            *("distributed.cli.dask_worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard"),
            *("--local-directory", str(self._folder), "--host", "127.0.0.1", "--pid-file", str(pid_file)),
            **settings,
        )
        self._workers.append(worker)
        self._wait_for(pid_file)
        self._wait_for_workers(len(self._workers))

    def begin_again(self) -> None:
        """Kill the scheduler and start another at its port, with a new worker."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.begin(int(self.address.rpartition(":")[2]))
        self.work()

    def kill_workers(self) -> None:
        """Kill all workers."""
        for worker in self._workers:
            worker.kill()
            worker.wait()

    @property
    def size(self) -> int:
        """How many workers were started."""
        return len(self._workers)

    def kill_worker(self, place: int = 0) -> None:
        """Kill one worker, whatever it does."""
        self._workers[place].kill()
        self._workers[place].wait()

    def stop_workers(self) -> None:
        """Stop all workers, with their connections open."""
        for worker in self._workers:
            worker.send_signal(signal.SIGSTOP)

    def _start(self, python: list[str], module: str, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
        with (self._folder / "errors.log").open("ab") as sink:
            return subprocess.Popen(
                [*python, "-m", module, *arguments],
                cwd=self._folder,
                env=os.environ | self._settings | settings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=sink,
            )

    def _wait_for(self, file: Path) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if file.exists() and (text := file.read_text()).strip():
                return text
            time.sleep(0.05)
        raise AssertionError((self._folder / "errors.log").read_text())

    def _wait_for_workers(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if (self._folder / "errors.log").read_text().count("Register worker") >= count:
                return
            time.sleep(0.1)
        raise AssertionError((self._folder / "errors.log").read_text())


def certificate(folder: Path, name: str) -> dict[str, str]:
    """Dask's settings for all members of a cluster: one certificate that is its own authority."""
    from distributed.security import Security

    made = Security.temporary()
    folder.mkdir(exist_ok=True)
    files = {"crt": made.tls_ca_file, "key": made.tls_client_key}
    for ending, text in files.items():
        (folder / f"{name}.{ending}").write_text(text)
    settings = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(folder / f"{name}.crt")}
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        settings[f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT"] = str(folder / f"{name}.crt")
        settings[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] = str(folder / f"{name}.key")
    return settings


@contextmanager
def read_by_dask(settings: Mapping[str, str]) -> Iterator[None]:
    """Have Dask take the settings that it reads at the start of a command."""
    keys = {name: name.removeprefix("DASK_").lower().replace("__", ".").replace("_", "-") for name in settings}
    import dask

    with dask.config.set({keys[name]: value for name, value in settings.items()}):
        yield
