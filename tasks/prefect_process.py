"""The process of a command's own Prefect server.

`python -m tasks.prefect_process LISTENING PARENT READY`: file descriptors of its socket and of two pipes.
"""

import hmac
import os
import socket
import sys
import threading
import time
from typing import Any

import uvicorn

from tasks.prefect_server import HOST, STOP, authorization

REFUSED = 403
UNKNOWN = 401


class AccessGuard:
    """Refuse requests with a wrong Host header, an Origin (browsers send one) or a wrong password, on any path."""

    def __init__(self, app: Any, port: int, password: str) -> None:
        self._app, self._host, self._password = app, f"{HOST}:{port}".encode(), authorization(password).encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request, or the start and end of the server."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif status := self._refusal(scope["headers"]):
            await _refuse(scope, send, status)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> int | None:
        named = [value for name, value in headers if name == b"host"]
        if named != [self._host] or any(name == b"origin" for name, _ in headers):
            return REFUSED
        sent = [value for name, value in headers if name == b"authorization"]
        return None if len(sent) == 1 and hmac.compare_digest(sent[0], self._password) else UNKNOWN


async def _refuse(scope: Any, send: Any, status: int) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})  # closing before accepting is answered as 403
        return
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready_pipe: int) -> None:
        super().__init__(config)
        self._ready_pipe = ready_pipe

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            os.write(self._ready_pipe, b"!")
        os.close(self._ready_pipe)


def _end_with_parent(serving: list[uvicorn.Server], parent_pipe: int) -> None:
    """Wait until the parent dies or closes its end of the pipe, then end the server; at once if it is not serving."""
    os.read(parent_pipe, 1)
    for server in serving:
        server.should_exit = True
        time.sleep(STOP)
    os._exit(1)


def main(descriptor: int, parent_pipe: int, ready_pipe: int) -> None:
    """Serve until the parent is gone."""
    serving: list[uvicorn.Server] = []
    threading.Thread(target=_end_with_parent, args=(serving, parent_pipe), daemon=True).start()
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    listening = socket.socket(fileno=descriptor)
    password = get_current_settings().server.api.auth_string
    assert password is not None
    guard = AccessGuard(create_app(ephemeral=True, final=True), listening.getsockname()[1], password.get_secret_value())
    config = uvicorn.Config(guard, log_level="error", lifespan="on", proxy_headers=False, timeout_graceful_shutdown=1)
    server = _Server(config, ready_pipe)
    serving.append(server)
    server.run(sockets=[listening])
    sys.stderr.flush()
    os._exit(0 if server.started else 1)  # skip the end of library threads, which takes seconds


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
