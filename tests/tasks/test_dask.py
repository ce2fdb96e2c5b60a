"""Our own Dask cluster lets nobody else in, leaves no process and no file, and ends at once."""

import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import psutil
import pytest
from distributed import LocalCluster

from tasks.dask import dask_workers, shared_cluster
from tasks.dask_faults import DaskUnavailable
from tasks.dask_workers import Workers
from tests.support.faults import fault, faults_of
from tests.support.stranger import listening, opened


@pytest.fixture(scope="module")
def ports_before() -> list[int]:
    """Of servers and clusters that other tests share."""
    return listening(os.getpid())


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, ports_before: list[int]) -> Iterator[tuple[Workers, Path]]:
    work = tmp_path_factory.mktemp("work")
    with dask_workers(None, work, kept="nothing is") as workers:
        yield workers, work


def doubled(number: int) -> int:
    return 2 * number


def test_pieces_come_back_under_their_numbers(own: tuple[Workers, Path]) -> None:
    workers, _ = own
    for number in range(5):
        workers.submit(number, doubled, number)
    assert dict(workers.finished()) == {number: 2 * number for number in range(5)}


@pytest.mark.slow
@pytest.mark.usefixtures("own")
def test_a_stranger_opens_no_port_of_our_own_cluster(ports_before: list[int]) -> None:
    ports = [port for port in listening(os.getpid()) if port not in ports_before]
    assert len(ports) >= 3  # a scheduler, a nanny and a worker at least: the search sees them
    assert {port: done for port, done in opened(ports).items() if done} == {}


@pytest.mark.slow
def test_the_stranger_gets_into_a_cluster_without_certificates() -> None:
    before = listening(os.getpid())
    with LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"):
        done = opened([port for port in listening(os.getpid()) if port not in before])
    said = [line for lines in done.values() for line in lines]
    assert said.count("tcp: ran code in it") >= 3  # in the scheduler, the nanny and the worker
    assert "http: /health answered 200" in said


def test_the_key_is_in_no_command_line_environment_or_file(own: tuple[Workers, Path]) -> None:
    _, work = own
    shown = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    shown += [" ".join(child.environ().values()) for child in psutil.Process().children(recursive=True)]
    assert len(shown) >= 4
    assert not any("PRIVATE KEY" in text for text in shown)
    assert not any("PRIVATE KEY" in file.read_text() for file in work.rglob("*") if file.is_file())


def test_scratch_files_are_in_the_work_folder_and_closed_to_others(own: tuple[Workers, Path]) -> None:
    _, work = own
    folders = list(work.iterdir())
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700]
    assert list(folders[0].rglob("silentworker-*"))  # this is where they are


FAILED_CALLBACK = """\
import logging
import threading

from tasks.dask import dask_workers

called = threading.Event()

def fails():
    called.set()
    raise ValueError("invalid operation on non-started TCPListener")

with dask_workers(None, None, kept="nothing is") as workers:
    logging.getLogger("tornado.application").addHandler(logging.StreamHandler())  # somebody listens, as Prefect does
    workers._client.loop.add_callback(fails)  # as tornado does where a worker dies while it connects
    assert called.wait(60)
    workers.submit(0, abs, -1)
    assert dict(workers.finished()) == {0: 1}
"""


@pytest.mark.slow
def test_what_tornado_says_of_a_lost_connection_is_not_printed() -> None:
    done = subprocess.run([sys.executable, "-c", FAILED_CALLBACK], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


ENDED = """\
import os, sys, tempfile, time
from pathlib import Path
import psutil
from tasks.dask import dask_workers

if __name__ == "__main__":
    try:
        with dask_workers(None, Path(sys.argv[1]), kept="nothing is") as workers:
            for number in range(4):
                workers.submit(number, time.sleep, 60)
            time.sleep(1)
            begun = time.monotonic()
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        took = time.monotonic() - begun
    left = [child.cmdline() for child in psutil.Process().children(recursive=True)]
    left = [command for command in left if "resource_tracker" not in " ".join(command)]
    print(took < 5, left, os.listdir(sys.argv[1]), os.listdir(tempfile.gettempdir()))
"""


@pytest.mark.slow
def test_a_cluster_that_is_interrupted_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    for name in ("work", "temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "ended.py").write_text(ENDED)
    done = subprocess.run(
        [sys.executable, tmp_path / "ended.py", tmp_path / "work"],
        env=os.environ | {"TMPDIR": str(tmp_path / "temporary"), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == "True [] [] []", done.stdout + done.stderr


@pytest.mark.slow
def test_what_a_killed_run_left_is_cleared_and_what_lives_or_is_no_folder_stays(tmp_path: Path) -> None:
    long_ago = time.time() - 3600
    for name in ("dask-killed", "dask-living", "other"):
        (tmp_path / name / "deep").mkdir(parents=True)
    (tmp_path / "dask-link").symlink_to(tmp_path / "other")
    for name in ("dask-killed", "dask-living"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    living = os.open(tmp_path / "dask-living", os.O_RDONLY)
    fcntl.flock(living, fcntl.LOCK_EX)
    with dask_workers(None, tmp_path, kept="nothing is"):
        found = {folder.name for folder in tmp_path.iterdir()}
    os.close(living)
    assert {"dask-living", "dask-link", "other"} < found
    assert "dask-killed" not in found
    assert len(found) == 4  # the last one is its own
    assert (tmp_path / "other" / "deep").is_dir()


@pytest.mark.slow
@fault(
    "several workers die of the same block, for want of memory",
    "cannot go on: several workers of the Dask scheduler of this run died of the same piece of work. "
    "Give them more memory and run again; finished blocks are kept.",
    exit_code=1,
    within=60,
)
def test_a_piece_that_kills_its_workers_is_not_tried_for_ever(tmp_path: Path) -> None:
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        dask_workers(None, tmp_path, kept="finished blocks are kept") as workers,
    ):
        workers.submit(0, os._exit, 1)
        with pytest.raises(DaskUnavailable) as failure:
            dict(workers.finished())
    expected = faults_of(test_a_piece_that_kills_its_workers_is_not_tried_for_ever)[0]
    assert str(failure.value) == expected.sentence
    assert failure.value.exit_code == expected.exit_code


def worker(_number: int) -> int:
    """The process that runs it."""
    return os.getpid()


def processes(work: Path) -> set[int]:
    with dask_workers(None, work, kept="nothing is") as workers:
        for number in range(8):
            workers.submit(number, worker, number)
        return {process for _, process in workers.finished()}


@pytest.mark.slow
def test_analyses_inside_one_block_share_processes_that_are_gone_after_it(tmp_path: Path) -> None:
    with shared_cluster(None, tmp_path):
        first = processes(tmp_path)
        with shared_cluster(None, tmp_path):
            assert processes(tmp_path) <= first
        assert processes(tmp_path) <= first
    assert [process for process in first if psutil.pid_exists(process)] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_failed_on_a_shared_cluster_leaves_a_new_one_to_the_next(tmp_path: Path) -> None:
    with shared_cluster(None, tmp_path):
        first = processes(tmp_path)
        with pytest.raises(ZeroDivisionError), dask_workers(None, tmp_path, kept="nothing is"):
            raise ZeroDivisionError
        assert not processes(tmp_path) & first
