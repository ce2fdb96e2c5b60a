"""Another user of this machine tries ports: `python -m tests.support.stranger PORT...`.

Under root it becomes `nobody` first; otherwise it only lacks the keys. It prints as JSON what each port allowed.
"""

import asyncio
import http.client
import json
import os
import sys
from contextlib import suppress
from typing import Any

NOBODY = 65534
LIMIT = 3.0  # seconds for an answer


def listening(pid: int) -> list[int]:
    """The TCP ports on which a process and all its children listen."""
    import psutil

    ports: set[int] = set()
    process = psutil.Process(pid)
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            ports |= {found.laddr.port for found in one.net_connections("tcp") if found.status == "LISTEN"}
    return sorted(ports)


def who() -> int:
    """Code that the stranger tries to run in other processes."""
    return os.getuid()


async def _commands(port: int) -> list[str]:
    """What Dask's protocol allows at a port, in clear text and with a certificate of our own."""
    from distributed.comm import connect
    from distributed.core import send_recv
    from distributed.protocol.pickle import dumps
    from distributed.security import Security

    done: list[str] = []
    for scheme, security in (("tcp", Security()), ("tls", Security.temporary())):
        with suppress(Exception):
            comm = await connect(
                f"{scheme}://127.0.0.1:{port}", timeout=LIMIT / 2, **security.get_connection_args("client")
            )
            try:
                identity = await send_recv(comm, op="identity", reply=True)
                done.append(f"{scheme}: asked a {identity['type']} who it is")
                op = "run_function" if identity["type"].endswith("Scheduler") else "run"
                ran = await send_recv(comm, op=op, function=dumps(who), args=dumps(()), kwargs=dumps({}), reply=True)
                if not isinstance(ran, dict) or ran.get("status") == "OK":
                    done.append(f"{scheme}: ran code in it")
            finally:
                comm.abort()
    return done


def _pages(port: int) -> list[str]:
    """Paths that a web server at the port does not refuse."""
    done: list[str] = []
    for path in ("/", "/api/health", "/api/admin/version", "/docs", "/health", "/metrics", "/json/identity.json"):
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
            connection.request("GET", path)
            status = connection.getresponse().status
            connection.close()
            if status not in (401, 403):
                done.append(f"http: {path} answered {status}")
    return done


async def _try(ports: list[int]) -> dict[str, list[str]]:
    async def one(port: int) -> list[str]:
        with suppress(TimeoutError):
            return await asyncio.wait_for(_commands(port), 4 * LIMIT)
        return []

    opened = await asyncio.gather(*(one(port) for port in ports))
    pages = await asyncio.gather(*(asyncio.to_thread(_pages, port) for port in ports))
    return {str(port): [*a, *b] for port, a, b in zip(ports, opened, pages, strict=True)}


def _become_nobody() -> None:
    """Switch once everything is imported: `nobody` may be unable to read this interpreter's files."""
    import cloudpickle
    import distributed
    import distributed.protocol.pickle
    from distributed.security import Security

    _ = cloudpickle, distributed, Security.temporary().get_connection_args("client")
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def opened(ports: list[int]) -> dict[str, list[str]]:
    """What a stranger can do at each port, as found by a process of its own."""
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "tests.support.stranger", *map(str, ports)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    allowed: dict[str, Any] = json.loads(done.stdout)
    assert allowed.pop("uid") in (NOBODY, os.getuid())
    return allowed


if __name__ == "__main__":
    _become_nobody()
    found = asyncio.run(_try([int(port) for port in sys.argv[1:]]))
    print(json.dumps({"uid": os.getuid(), **found}))
