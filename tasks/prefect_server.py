"""A Prefect server for one command alone, which ends with that command."""

import atexit
import base64
import fcntl
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from dpbayes_core.errors import DpbayesError

HOST = "127.0.0.1"
START = 180.0
"""Seconds that a server may take to start on a loaded machine."""

STOP = 3.0
"""Seconds that a server may take to end before it is killed."""

POLL = 0.1

_SERVER = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
_OURS = "PREFECT_API_AUTH_STRING"
_THEIRS = "PREFECT_SERVER_API_AUTH_STRING"
_OWN_URLS: set[str] = set()


class ServerUnavailable(DpbayesError):
    """No Prefect server of our own could be started."""

    kind = "prefect-unavailable"


class OwnServer:
    """A server process that requires this run's password; it ends when this process does, however that ends.

    The password is passed in the environments of both processes, which other users cannot read.
    """

    def __init__(self, log: Path, password: str) -> None:
        self._log = log
        self._turn = _turn(log.with_suffix(".lock"))
        with socket.socket() as listening:
            listening.bind((HOST, 0))  # reserves the port; connections are refused until the server listens
            self.url = f"http://{HOST}:{listening.getsockname()[1]}/api"
            parent_pipe, self._alive = os.pipe()
            self._ready, ready_pipe = os.pipe()
            given = (listening.fileno(), parent_pipe, ready_pipe)
            try:
                with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as sink:
                    self._process = subprocess.Popen(
                        [sys.executable, "-P", "-m", "tasks.prefect_process", *map(str, given)],
                        env=os.environ | _SERVER | {_THEIRS: password},
                        pass_fds=given,
                        stdin=subprocess.DEVNULL,
                        stdout=sink,
                        stderr=sink,
                        start_new_session=True,  # Ctrl-C does not reach it: flows end while it still listens
                    )
            except OSError:
                self._turn.close()
                raise
            finally:
                os.close(parent_pipe)
                os.close(ready_pipe)

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    def wait(self) -> None:
        """Wait until the server listens; raise ServerUnavailable if it does not."""
        with os.fdopen(self._ready, "rb") as pipe, self._turn:
            answered = select.select([pipe], [], [], START)[0]
            if answered and pipe.read(1):
                return
        self.stop()
        why = "it ended at once" if answered else f"it did not listen within {START:.0f} seconds"
        raise ServerUnavailable(
            f"cannot start Prefect's server: {why}. Read {self._log}; most often the disk is full or not writable."
        )

    def stop(self) -> None:
        """End the server, killing it if needed; safe to repeat."""
        if self._alive < 0:
            return
        os.close(self._alive)
        self._alive = -1
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _turn(path: Path) -> BinaryIO:
    """A file that is locked until it is closed: two servers that make one database at once would break it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    end = time.monotonic() + START
    while time.monotonic() < end:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(POLL)
    return os.fdopen(handle, "r+b")


def own_server() -> OwnServer | None:
    """Start a server for this process and point Prefect's settings to it; None if a server is configured already."""
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    refresh_global_settings_context()  # Prefect may have been imported before the environment was set
    settings = get_current_settings()
    if settings.api.url:
        return None
    known = settings.api.auth_string or settings.server.api.auth_string
    password = known.get_secret_value() if known else f"dpbayes:{secrets.token_urlsafe(32)}"
    folder = Path(settings.home)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        server = OwnServer(folder / "server.log", password)
    except OSError as error:
        raise ServerUnavailable(
            f"cannot start Prefect's server: {error.strerror}. See that {folder} can be written."
        ) from error
    atexit.register(server.stop)
    _OWN_URLS.add(server.url)
    os.environ |= {"PREFECT_API_URL": server.url, _OURS: password}
    refresh_global_settings_context()
    get_current_settings().flows.heartbeat_frequency = None  # nobody watches; each flow would end up to a second later
    return server


def has_server_of_users() -> bool:
    """Whether runs of this process are recorded by a server that the user set up, rather than by the command's own."""
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    return url is not None and url not in _OWN_URLS


def authorization(password: str) -> str:
    """The Authorization header that Prefect's client sends for a password."""
    return "Basic " + base64.b64encode(password.encode()).decode()
