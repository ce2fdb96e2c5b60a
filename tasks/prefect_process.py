"""The process of a command's own Prefect server: `python -m tasks.prefect_process DOOR WAKES TELLS` (descriptors)."""

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


class Doorkeeper:
    """Lets through who addresses this very server, is no browser's page, and brings the word; health checks too."""

    def __init__(self, inside: Any, port: int, word: str) -> None:
        self._inside, self._host, self._word = inside, f"{HOST}:{port}".encode(), authorization(word).encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or the server's own start and end."""
        if scope["type"] == "lifespan":
            await self._inside(scope, receive, send)
        elif status := self._refusal(scope["headers"]):
            await _refuse(scope, send, status)
        else:
            await self._inside(scope, receive, send)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> int | None:
        named = [value for name, value in headers if name == b"host"]
        if named != [self._host] or any(name == b"origin" for name, _ in headers):
            return REFUSED
        brought = [value for name, value in headers if name == b"authorization"]
        return None if len(brought) == 1 and hmac.compare_digest(brought[0], self._word) else UNKNOWN


async def _refuse(scope: Any, send: Any, status: int) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})  # before it is accepted: answered as 403
        return
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, tells: int) -> None:
        super().__init__(config)
        self._tells = tells

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            os.write(self._tells, b"!")
        os.close(self._tells)


def _end_with_parent(serving: list[uvicorn.Server], wakes: int) -> None:
    """Whoever holds the other end of the pipe is gone, or closed it: at once, if nobody is served yet."""
    os.read(wakes, 1)
    for server in serving:
        server.should_exit = True
        time.sleep(STOP)
    os._exit(1)


def main(door: int, wakes: int, tells: int) -> None:
    """Serve until the parent is gone."""
    serving: list[uvicorn.Server] = []
    threading.Thread(target=_end_with_parent, args=(serving, wakes), daemon=True).start()
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    listening = socket.socket(fileno=door)
    word = get_current_settings().server.api.auth_string
    assert word is not None
    keeper = Doorkeeper(create_app(ephemeral=True, final=True), listening.getsockname()[1], word.get_secret_value())
    config = uvicorn.Config(keeper, log_level="error", lifespan="on", proxy_headers=False, timeout_graceful_shutdown=1)
    server = _Server(config, tells)
    serving.append(server)
    server.run(sockets=[listening])
    sys.stderr.flush()
    os._exit(0 if server.started else 1)  # all is written; threads of libraries would take seconds to end


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
