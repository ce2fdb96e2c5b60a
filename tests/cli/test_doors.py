"""What other users of the machine, and pages in a browser on it, can do at the ports of a running command: nothing."""

import http.client
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest

from tasks.prefect_server import authorization
from tests.support.command import DPBAYES, clean_environment
from tests.support.desk import PERIOD, Desk
from tests.support.stranger import listening, opened

WRONG = {"Authorization": authorization("dpbayes:a guess")}
ASKS = ("/api/admin/version", "/api/health", "/api/flow_runs/filter", "/docs", "/openapi.json", "/")


def asked(path: str, **headers: str) -> tuple[int, dict[str, str]]:
    """Status and headers of an answer of the Prefect server that these tests share."""
    place = urlsplit(os.environ["PREFECT_API_URL"])
    connection = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=30)
    connection.request("GET", path, headers={"Host": place.netloc, **headers})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}


def word() -> dict[str, str]:
    return {"Authorization": authorization(os.environ["PREFECT_API_AUTH_STRING"])}


@pytest.mark.parametrize("path", ASKS)
def test_prefect_answers_nobody_who_does_not_bring_the_word_of_the_run(path: str) -> None:
    assert asked(path)[0] == 401
    assert asked(path, **WRONG)[0] == 401
    assert asked(path, Authorization=f"Bearer {os.environ['PREFECT_API_AUTH_STRING']}")[0] == 401


def test_prefect_answers_the_word() -> None:
    assert asked("/api/admin/version", **word())[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1"])
def test_prefect_answers_under_no_other_name_even_with_the_word(host: str) -> None:
    assert asked("/api/admin/version", **word() | {"Host": host})[0] == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1"])
def test_prefect_answers_no_page_of_a_browser_even_with_the_word(origin: str) -> None:
    status, headers = asked("/api/admin/version", **word(), Origin=origin)
    assert status == 403
    assert not any(name.startswith("access-control") for name in headers)


def test_no_socket_of_events_opens_without_the_word() -> None:
    wish = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    wish |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "prefect"}
    assert asked("/api/events/in", **wish)[0] == 403
    assert asked("/api/events/in", **wish, **word())[0] == 101


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk whose analysis takes longer than any test here."""
    desk = Desk.set_up(tmp_path_factory.mktemp("busy"))
    desk.edit_study("draws: 500", "draws: 100000")
    (desk.folder / "temporary").mkdir()
    return desk


@pytest.fixture(scope="module")
def sampling(busy: Desk) -> Iterator[subprocess.Popen[str]]:
    """A command in the middle of its chains."""
    process = subprocess.Popen(
        [*DPBAYES, "run", str(busy.study), "--period", PERIOD],
        cwd=busy.folder,
        env=clean_environment(TMPDIR=str(busy.folder / "temporary")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        while process.stderr.readline().strip() != "sampling":
            assert process.poll() is None
        while not list((busy.home / "work").rglob("chain-*")):
            assert process.poll() is None
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_stranger_opens_no_port_of_a_run(sampling: subprocess.Popen[str], busy: Desk) -> None:
    ports = listening(sampling.pid)
    assert len(ports) >= 4  # Prefect, a scheduler, a nanny and a worker at least
    assert {port: done for port, done in opened(ports).items() if done} == {}
    tree = [psutil.Process(sampling.pid), *psutil.Process(sampling.pid).children(recursive=True)]
    words = {value for one in tree for name, value in one.environ().items() if name.endswith("_AUTH_STRING")}
    assert len(words) == 1  # one word, made by this run
    shown = " ".join(part for one in tree for part in one.cmdline())
    assert not any(word in shown or "PRIVATE KEY" in shown for word in words)
    written = [file for file in busy.folder.rglob("*") if file.is_file() and file.stat().st_mode & stat.S_IRWXO]
    assert not any(word.encode() in file.read_bytes() for word in words for file in written)
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o700 for one in (busy.folder / "temporary").iterdir())


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_nobody_behind_and_keeps_its_blocks(
    sampling: subprocess.Popen[str], busy: Desk
) -> None:
    children = psutil.Process(sampling.pid).children(recursive=True)
    assert len(children) >= 3
    sampling.kill()
    assert psutil.wait_procs(children, timeout=30)[1] == []
    assert list((busy.home / "work").rglob("chain-*"))
