"""A real PostgreSQL server: this machine's own binaries, unprivileged, on a loopback port, in a folder of its own."""

import ctypes
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

PLACES = "usr/lib/postgresql/*/bin/initdb"
USER = "postgres"  # the server refuses to run as root
OWNER = "steward"
ADDRESS = "127.0.0.1"
PATIENCE = 60.0
MEMORY = 4 << 30
SETTINGS = {
    "listen_addresses": ADDRESS,
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",  # in its folder, which goes with it
    "log_min_messages": "panic",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


def binaries() -> Path | None:
    """The folder of the newest server on this machine."""
    found = sorted(Path("/").glob(PLACES), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class Server:
    """A cluster of its own; it may be stopped, killed and started again on the same port."""

    def __init__(self, folder: Path, programs: Path, *, small: bool = False) -> None:
        self.folder, self._programs = folder, programs
        self._account: dict[str, object] = {"user": USER, "group": USER, "extra_groups": []} if _is_root() else {}
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count(1)
        self._settings = dict(SETTINGS)
        self.port = _free_port()
        if _is_root():
            user = pwd.getpwnam(USER)
            os.chown(folder, user.pw_uid, user.pw_gid)
        options = ["--auth=trust", "--username", OWNER, "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._run("initdb", "-D", self._data, *options, *(["--wal-segsize=1"] if small else []))

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self, **settings: str) -> None:
        """Start, or start again after a death: recovery is PostgreSQL's own."""
        self._settings |= settings
        options = list(
            itertools.chain.from_iterable(("-c", f"{name}={value}") for name, value in self._settings.items())
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            command = [self._programs / "postgres", "-D", self._data, "-p", str(self.port), *options]
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(  # type: ignore[call-overload]
                    command, cwd=self.folder, stdout=log, stderr=log, preexec_fn=_end_with_parent, **self._account
                )
            if self._answers(self._process, deadline):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)  # the dead server's last processes still hold its memory

    def stop(self) -> None:
        """Stop for good; its files are not read again."""
        if self._process is not None and self._process.poll() is None:
            self.shut_down_immediately()

    def kill(self) -> None:
        """SIGKILL to the server and all its processes: nothing is flushed, no client is notified."""
        assert self._process is not None
        # the server last: its death wakes its processes, and one asleep in a commit would end it
        for process in (*_children(self._process.pid), self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait(timeout=PATIENCE)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Suspend the server and its processes: connections are accepted and never answered."""
        assert self._process is not None
        stopped = [self._process.pid]
        try:
            os.kill(self._process.pid, signal.SIGSTOP)  # it starts no other process from here on
            stopped += _children(self._process.pid)
            for process in stopped[1:]:
                with suppress(ProcessLookupError):  # its client has gone
                    os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def shut_down_immediately(self) -> None:
        """PostgreSQL's own immediate shutdown: like a crash, but clients are notified."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(timeout=PATIENCE)

    def set(self, **settings: str) -> None:
        """Change settings of the running server, or take them back where empty."""
        with self.connect() as connection:
            for name, value in settings.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'" if value else f"ALTER SYSTEM RESET {name}")
            connection.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + PATIENCE
        while not all(value in ("", self._setting(name)) for name, value in settings.items()):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def _setting(self, name: str) -> str:
        with self.connect() as connection:
            row = connection.execute("SELECT setting FROM pg_settings WHERE name = %s", [name]).fetchone()
        assert row is not None
        return str(row[0])

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """A connection of the owner, outside the ledger's code."""
        return psycopg.connect(host=ADDRESS, port=self.port, user=OWNER, dbname=database, autocommit=True)

    def url(self, database: str) -> str:
        """The address of a database, as a steward would write it."""
        return f"postgresql://{OWNER}@{ADDRESS}:{self.port}/{database}"

    def new_database(self, *, like: str = "template1") -> str:
        """The address of a new database, empty or a copy of another."""
        name = f"ledger_{next(self._names)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {like.rpartition('/')[2]}")
        return self.url(name)

    def new_schema(self) -> str:
        """The address of a new schema, which is faster to make than a database."""
        name = f"ledger_{next(self._names)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.url('postgres')}?options=-csearch_path%3D{name}"

    def _answers(self, process: subprocess.Popen[bytes], deadline: float) -> bool:
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(psycopg.OperationalError), self.connect():
                return True
            time.sleep(0.02)
        return False

    def _run(self, program: str, *arguments: str) -> None:
        command: Sequence[str | Path] = [self._programs / program, *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **self._account)  # type: ignore[call-overload]
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stdout}\n{done.stderr}")


def new_folder(*, on_disk: bool = False) -> Path:
    """A short-lived folder that the server's own user can reach, unlike pytest's; in memory where there is room."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY
    return Path(tempfile.mkdtemp(prefix="dpbayes-postgresql-", dir=memory if roomy and not on_disk else None))


def _end_with_parent() -> None:
    """End the server when the tests are killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG


def _is_root() -> bool:
    return os.geteuid() == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return probe.getsockname()[1]


def _children(parent: int) -> list[int]:
    """The child processes; a walk over all processes would take long enough for a commit to end."""
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
