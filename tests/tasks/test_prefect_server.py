"""A command's own Prefect server: whose word it takes, and that it never outlives the command."""

import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tasks.prefect_server import authorization
from tests.support.command import clean_environment, dpbayes
from tests.support.desk import PERIOD, Desk
from tests.support.faults import assert_fault, fault

HOLDER = """\
import json, os, sys
from tasks.prefect_server import own_server

server = own_server()
server.wait()
print(json.dumps({"pid": server.pid, "url": os.environ["PREFECT_API_URL"]}), flush=True)
sys.stdin.read()
"""
OWN = "steward:a word of their own"


def status(url: str, word: str) -> int:
    place = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=30)
    connection.request("GET", "/api/admin/version", headers={"Authorization": authorization(word)})
    found = connection.getresponse().status
    connection.close()
    return found


@pytest.mark.slow
def test_servers_that_start_at_once_in_a_new_home_do_not_break_its_database(tmp_path: Path) -> None:
    environment = clean_environment(PREFECT_HOME=str(tmp_path), DO_NOT_TRACK="1")
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        assert len({json.loads(holder.communicate(timeout=200)[0])["url"] for holder in holders}) == 3
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


@pytest.mark.slow
def test_a_server_takes_the_users_word_and_ends_with_the_command_however_that_ends(tmp_path: Path) -> None:
    more = {"PREFECT_HOME": str(tmp_path), "PREFECT_API_AUTH_STRING": OWN, "DO_NOT_TRACK": "1"}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env=clean_environment(**more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        told = json.loads(holder.stdout.readline())
        server = psutil.Process(told["pid"])
        assert OWN not in " ".join(server.cmdline())
        assert status(told["url"], OWN) == 200
        assert status(told["url"], "dpbayes:another") == 401
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()
    server.wait(timeout=30)
    assert not server.is_running()


LEFT_ALONE = """\
import json, os
from tasks.prefect_server import own_server

before = dict(os.environ)
print(json.dumps([own_server() is None, before == dict(os.environ)]))
"""


@pytest.mark.slow
def test_a_server_that_the_user_named_is_left_alone(tmp_path: Path) -> None:
    named = {"PREFECT_API_URL": "http://prefect.example/api", "PREFECT_API_AUTH_STRING": OWN}
    environment = clean_environment(PREFECT_HOME=str(tmp_path), **named)
    program = [sys.executable, "-c", LEFT_ALONE]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [True, True]


@pytest.mark.slow
@fault(
    "Prefect's own server cannot start",
    "cannot start Prefect's server: it ended at once. Read ...; most often the disk is full or not writable.",
    exit_code=1,
    within=180,
)
def test_a_server_that_cannot_start_is_said(tmp_path: Path) -> None:
    desk = Desk.set_up(tmp_path)
    (desk.home / "prefect" / "prefect.db").mkdir()
    done = dpbayes("release", desk.study, "--period", PERIOD, cwd=tmp_path)
    assert_fault(done, test_a_server_that_cannot_start_is_said)
