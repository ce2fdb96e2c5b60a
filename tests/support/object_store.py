"""A real S3 endpoint: moto's server in a process of its own, on loopback, which can become unreachable and return."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, Self

import pytest

from tests.support.command import ROOT
from tests.support.parts import missing

ADDRESS = "127.0.0.1"
PATIENCE = 60.0
NOWHERE = os.devnull
PARTS = ("moto", "flask", "flask_cors")


class ObjectStore:
    """An S3 endpoint until it is stopped; its buckets are in memory."""

    _last: int | None = None

    def __init__(self) -> None:
        if not all(map(find_spec, PARTS)):
            missing("S3 server", "install moto, flask and flask-cors from requirements.lock")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.object_store"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.port = int(self._answer())
        self._names = itertools.count(1)

    @property
    def environment(self) -> dict[str, str]:
        """The settings to use it, and none of this machine's own."""
        return {
            "AWS_ENDPOINT_URL_S3": f"http://{ADDRESS}:{self.port}",
            "AWS_ACCESS_KEY_ID": "steward",
            "AWS_SECRET_ACCESS_KEY": "a secret that must not be shown",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": NOWHERE,
            "AWS_SHARED_CREDENTIALS_FILE": NOWHERE,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_MAX_ATTEMPTS": "2",
        }

    def new_bucket(self) -> str:
        """The address of a new bucket; `environment` must be set."""
        import s3fs

        name = f"bucket-{next(self._names)}"
        s3fs.S3FileSystem().mkdir(name)
        return f"s3://{name}"

    def go_away(self) -> None:
        """Refuse every connection, keeping what is stored."""
        self._send("away")

    def come_back(self) -> None:
        """Answer again, on the same port."""
        self._send("back")

    def forget_conditions(self) -> None:
        """Ignore the conditions of writes, like servers without conditional writes."""
        self._send("forget-conditions")

    def lose_an_answer(self) -> None:
        """Carry out the next write, and say that it failed."""
        self._send("lose-an-answer")

    @contextmanager
    def in_use(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Self]:
        """Make it the only endpoint in this process's environment until the end of the block."""
        import s3fs

        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        if ObjectStore._last != self.port:  # clients keep the environment that they were made in
            s3fs.S3FileSystem.clear_instance_cache()
            ObjectStore._last = self.port
        yield self

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # it ends by itself then, also when the tests were killed
        try:
            self._process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def _send(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        assert self._answer() == word

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the object store ended: run `python -m tests.support.object_store` to see why")
        return line.strip()


class _FaultLayer:
    """Wraps moto's application: it can ignore conditions and lose answers."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self.checks_conditions, self.lost = True, 0

    def __call__(self, request: dict[str, Any], answer: Callable[..., Any]) -> Iterable[bytes]:
        if not self.checks_conditions:
            request.pop("HTTP_IF_NONE_MATCH", None)
        if not self.lost or request["REQUEST_METHOD"] != "PUT":
            return self._application(request, answer)
        self.lost -= 1
        for _ in self._application(request, lambda *_: None):
            pass
        answer("500 Internal Server Error", [("Content-Length", "0")])
        return []


def _serve() -> None:
    """One request at a time, so that writes on condition are as atomic as a real store's."""
    from threading import Thread

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import BaseWSGIServer, make_server

    layer = _FaultLayer(DomainDispatcherApplication(create_backend_app))

    def start(port: int) -> BaseWSGIServer:
        server = make_server(ADDRESS, port, layer, threaded=False)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    server = start(0)
    port = server.server_port
    print(port, flush=True)
    for line in sys.stdin:
        match word := line.strip():
            case "away":
                server.shutdown()
                server.server_close()
            case "back":
                server = start(port)
            case "forget-conditions":
                layer.checks_conditions = False
            case "lose-an-answer":
                layer.lost += 1
        print(word, flush=True)


if __name__ == "__main__":
    _serve()
