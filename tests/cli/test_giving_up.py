"""When a run that a worker started takes its Prefect server for gone."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from distributed.security import Security
from prefect.settings import PREFECT_API_URL, temporary_settings

from tasks.giving_up import _answers


class Refusing(BaseHTTPRequestHandler):
    """It knows nobody."""

    def do_GET(self) -> None:
        self.send_error(401)

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@contextmanager
def served(certificate: Path | None) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    scheme = "http"
    if certificate is not None:
        context, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}/api"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("secure", [False, True], ids=["who refuses us", "whose certificate Python does not know"])
def test_a_server_that_says_anything_is_there(tmp_path: Path, secure: bool) -> None:
    temporary = Security.temporary()
    certificate = tmp_path / "own.pem"
    certificate.write_text(f"{temporary.tls_scheduler_key}{temporary.tls_scheduler_cert}")
    with served(certificate if secure else None) as address, temporary_settings({PREFECT_API_URL: address}):
        assert _answers()


def test_a_server_that_is_gone_says_nothing() -> None:
    with served(None) as address:
        pass
    with temporary_settings({PREFECT_API_URL: address}):
        assert not _answers()
