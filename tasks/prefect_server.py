"""The Prefect server of one command: for that command alone, and gone when it is."""

import atexit
import base64
import os
import secrets
import select
import socket
import subprocess
import sys
from pathlib import Path

from dpbayes_core.errors import DpbayesError

HOST = "127.0.0.1"
START = 180.0
"""Seconds that a server may take to start on a loaded machine."""

STOP = 3.0
"""Seconds that a server may take to end before it is killed."""

_SERVER = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
_OURS = "PREFECT_API_AUTH_STRING"
_THEIRS = "PREFECT_SERVER_API_AUTH_STRING"


class ServerUnavailable(DpbayesError):
    """No Prefect server of our own could be started."""

    kind = "prefect-unavailable"


class OwnServer:
    """A process that answers whoever brings the word of this run; it ends when this process does, however that ends.

    The word reaches it by its environment, which other users cannot read, and Prefect's client by this process's own.
    """

    def __init__(self, log: Path, word: str) -> None:
        self._log = log
        with socket.socket() as door:
            door.bind((HOST, 0))  # nobody is answered before the server listens
            self.url = f"http://{HOST}:{door.getsockname()[1]}/api"
            wakes, self._alive = os.pipe()
            self._ready, tells = os.pipe()
            given = (door.fileno(), wakes, tells)
            try:
                with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as sink:
                    self._process = subprocess.Popen(
                        [sys.executable, "-P", "-m", "tasks.prefect_process", *map(str, given)],
                        env=os.environ | _SERVER | {_THEIRS: word},
                        pass_fds=given,
                        stdin=subprocess.DEVNULL,
                        stdout=sink,
                        stderr=sink,
                        start_new_session=True,  # Ctrl-C at the terminal is ours: flows end while it still listens
                    )
            finally:
                os.close(wakes)
                os.close(tells)

    @property
    def pid(self) -> int:
        """Of the server's process."""
        return self._process.pid

    def wait(self) -> None:
        """Until it listens."""
        with os.fdopen(self._ready, "rb") as pipe:
            came = select.select([pipe], [], [], START)[0]
            if came and pipe.read(1):
                return
        self.stop()
        why = "it ended at once" if came else f"it did not listen within {START:.0f} seconds"
        raise ServerUnavailable(
            f"cannot start Prefect's server: {why}. Read {self._log}; most often the disk is full or not writable."
        )

    def stop(self) -> None:
        """End it, whatever it does; a second time is nothing."""
        if self._alive < 0:
            return
        os.close(self._alive)
        self._alive = -1
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def own_server() -> OwnServer | None:
    """A server for this process, and settings that lead to it, unless Prefect is set up for a server already."""
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    refresh_global_settings_context()  # Prefect may have been imported before the environment was settled
    settings = get_current_settings()
    if settings.api.url:
        return None
    known = settings.api.auth_string or settings.server.api.auth_string
    word = known.get_secret_value() if known else f"dpbayes:{secrets.token_urlsafe(32)}"
    folder = Path(settings.home)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        server = OwnServer(folder / "server.log", word)
    except OSError as error:
        raise ServerUnavailable(
            f"cannot start Prefect's server: {error.strerror}. See that {folder} can be written."
        ) from error
    atexit.register(server.stop)
    os.environ |= {"PREFECT_API_URL": server.url, _OURS: word}
    refresh_global_settings_context()
    get_current_settings().flows.heartbeat_frequency = None  # nobody watches; each flow would end up to a second later
    return server


def authorization(word: str) -> str:
    """The header that Prefect's client sends for it."""
    return "Basic " + base64.b64encode(word.encode()).decode()
