"""docs/operations.md, from a laptop to an agency: its commands on a real PostgreSQL, Prefect servers and workers."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import ROOT, clean_environment, document
from tests.support.parts import missing
from tests.support.postgres import OWNER, Server, binaries, new_folder
from tests.support.prefect import free_port

PAGE = ROOT / "docs" / "operations.md"
FENCE = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"^(.*?) +# exit (\d)$", re.MULTILINE)
PORTS = ("4200", "4201")


def walk() -> str:
    """The commands of the page as one script, which stops where one does not end as the page says."""
    text = "".join(FENCE.findall(PAGE.read_text()))
    for port in PORTS:
        text = text.replace(port, str(free_port()))
    return "set -eo pipefail\n" + EXIT.sub(r"code=0; \1 || code=$?; [ $code -eq \2 ] || exit 99", text)


@pytest.fixture
def postgres() -> Iterator[Server]:
    programs = binaries()
    if programs is None or not (programs / "pg_dump").exists():
        missing("PostgreSQL server", "install one, as `postgresql` of Debian")
    folder = new_folder()
    server = Server(folder, programs)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.mark.slow
def test_the_way_from_a_laptop_to_an_agency_is_as_the_page_says(postgres: Server, tmp_path: Path) -> None:
    programs = binaries()
    environment = clean_environment(
        HOME=str(tmp_path),
        LOGNAME="operator",
        PATH=f"{Path(sys.executable).parent}:{programs}:/usr/bin:/bin",
        PGHOST="127.0.0.1",
        PGPORT=str(postgres.port),
        PGUSER=OWNER,
        PGDATABASE="postgres",
    )
    log = tmp_path / "walk.log"
    with log.open("w") as sink:
        process = subprocess.Popen(
            ["bash", "-xc", walk()],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=560)
        finally:
            end(process.pid, tmp_path / "agency" / "prefect")
    assert code == 0, log.read_text()[-6000:]
    with postgres.connect("prefect") as connection:
        deployments = connection.execute("SELECT name FROM deployment").fetchall()
    assert ("wages",) in deployments
    agency = tmp_path / "agency"
    history = document("ledger", "history", "wages", cwd=agency, DPBAYES_HOME=str(agency / "home"), PGUSER=OWNER)
    charges = Counter(each["period"] for each in history["entries"] if each["kind"] == "charge")
    assert charges == {"2026-01": 1, "2026-02": 1, "2026-03": 1}
    assert (agency / "environment").stat().st_mode & 0o777 == 0o600


def end(group: int, prefect: Path) -> None:
    """End what the walk left running: its workers, and the server, which is in a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    noted = prefect / "server.pid"
    if noted.exists():
        with suppress(ProcessLookupError):
            os.kill(int(noted.read_text()), signal.SIGTERM)


def test_the_page_shows_every_step_of_the_way() -> None:
    text = walk()
    steps = ("createdb", "prefect server start", "dpbayes deploy", "pg_dump", "ledger recover", "database upgrade")
    assert [step for step in (*steps, "rotate-key", "--no-services") if step not in text] == []
    assert "[ $code -eq 5 ]" in text
    assert text.index("pg_dump") < text.index("cp -a home/archive")  # the other way round loses what is between them


def test_the_units_read_the_file_that_the_page_writes() -> None:
    named = set(re.findall(r"^([A-Z][A-Z_]*)=", PAGE.read_text(), re.MULTILINE))
    assert {"PREFECT_API_URL", "PREFECT_SERVER_API_AUTH_STRING", "DPBAYES_LEDGER_URL"} <= named
    for unit in (ROOT / "deploy" / "systemd").glob("*.service"):
        assert "EnvironmentFile=/etc/dpbayes/environment" in unit.read_text()
    assert "`/etc/dpbayes/environment`" in PAGE.read_text()
