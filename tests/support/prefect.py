"""A real Prefect server with a process worker, on loopback, asking for a password, in folders of their own."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.command import clean_environment

PREFECT = str(Path(sys.executable).parent / "prefect")
ADDRESS = "127.0.0.1"
Seen = TypeVar("Seen")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return probe.getsockname()[1]


def wait_until(look: Callable[[], Seen], seconds: float, what: str) -> Seen:
    """The first true result of `look`; without one in time the test fails."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError):
            if seen := look():
                return seen
        time.sleep(0.5)
    pytest.fail(f"{what}: not within {seconds:.0f} s")


class Orchestrator:
    """What docs/operations.md has a steward set up once: a server, a work pool, a worker."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._server = 0
        self.environment = clean_environment(
            DO_NOT_TRACK="1",
            PREFECT_API_AUTH_STRING="steward:a secret of this test",
            PREFECT_API_URL=f"http://{ADDRESS}:{self.port}/api",
            PREFECT_HOME=str(folder / "prefect"),
            PREFECT_SERVER_ANALYTICS_ENABLED="false",
            PREFECT_SERVER_API_AUTH_STRING="steward:a secret of this test",
            **more,
        )

    def prefect(self, *arguments: str, cwd: Path | None = None) -> str:
        """A command of Prefect's in a folder, as a shell there would run it."""
        place = cwd or self.folder
        done = subprocess.run(
            [PREFECT, "--no-prompt", *arguments],
            cwd=place,
            env=self.environment | {"PWD": str(place)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.log
        return done.stdout

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What the server's API answers: to a question with a body, or to a plain look."""
        word = base64.b64encode(self.environment["PREFECT_API_AUTH_STRING"].encode()).decode()
        request = urllib.request.Request(
            f"http://{ADDRESS}:{self.port}/api/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Basic {word}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    @contextmanager
    def server(self) -> Iterator[None]:
        """The server, once it answers, with a work pool."""
        server = (PREFECT, "server", "start", "--host", ADDRESS, "--port", str(self.port))
        log = self.folder / "server.log"
        with running(*server, environment=self.environment, cwd=self.folder, log=log) as self._server:
            health = f"http://{ADDRESS}:{self.port}/api/health"
            wait_until(lambda: urllib.request.urlopen(health, timeout=5), 180, health).close()
            self.prefect("work-pool", "create", "dpbayes", "--type", "process")
            yield

    def signal_server(self, number: int) -> None:
        """Send all processes of the server a signal, such as one that ends or stops them at once."""
        os.killpg(self._server, number)

    @contextmanager
    def worker(self, pool: str = "dpbayes") -> Iterator[None]:
        """A worker, in a folder that is no study's."""
        with running(
            *(PREFECT, "worker", "start", "--pool", pool),
            environment=self.environment,
            cwd=self.folder,
            log=self.folder / "worker.log",
        ):
            yield

    @property
    def log(self) -> str:
        """What the worker printed, and its runs."""
        written = self.folder / "worker.log"
        return written.read_text() if written.exists() else ""


@contextmanager
def running(*command: str, environment: Mapping[str, str], cwd: Path, log: Path) -> Iterator[int]:
    """A process in a session of its own, by its id; ended with all it started."""
    with log.open("w") as sink:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdout=sink,
            stderr=sink,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process.pid
        finally:
            for how in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, how)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=15)
