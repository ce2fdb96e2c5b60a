"""Whatever happens to a Dask cluster that was named, an analysis ends in one sentence, and goes on when run again."""

import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tasks import dask_faults
from tests.support.command import ROOT, document
from tests.support.dask_cluster import DaskCluster, certificate, read_by_dask
from tests.support.desk import PERIOD, Desk
from tests.support.faults import assert_says, fault, faults_of

KEPT = "run again; finished blocks are kept."
UNREACHABLE = (
    "cannot reach the Dask scheduler at ...: none answered within 30 seconds. "
    "Start it, or correct or unset DPBAYES_DASK."
)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a release whose analysis takes longer than any of these tests."""
    desk = Desk.set_up(tmp_path_factory.mktemp("desk"))
    desk.release()
    desk.edit_study("chains: 2\n    draws: 500", "chains: 32\n    draws: 100000")
    return desk


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    with DaskCluster(tmp_path / "dask") as found:
        yield found


@pytest.fixture
def analysed(released: Desk, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the analysis on the scheduler at an address, with shorter limits than those documented."""

    def run(address: str, **limits: float) -> Result:
        monkeypatch.setenv("DPBAYES_DASK", address)  # empty is unset
        for name, seconds in limits.items():
            monkeypatch.setattr(dask_faults, name, seconds)
        return released.run("analyse", released.study, "--period", PERIOD)

    return run


def assert_said(result: Result, test: Callable[..., Any], place: int = 0) -> None:
    expected = faults_of(test)[place]
    assert result.exit_code == expected.exit_code, result.output
    assert "Traceback" not in result.output
    sentence = re.sub(r"\d+ seconds", "... seconds", expected.sentence)  # tests do not wait for the documented limit
    assert_says(" ".join(result.stderr.split()), sentence)


def when_sampling(released: Desk, act: Callable[[], None]) -> threading.Thread:
    """Do something as soon as a block is finished."""

    def wait() -> None:
        before = newest(released)
        while newest(released) == before:
            time.sleep(0.05)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def newest(released: Desk) -> int:
    """When the last checkpoint was written."""
    return max((file.stat().st_mtime_ns for file in (released.home / "work").rglob("chain-*.bin")), default=0)


@fault(
    "DPBAYES_DASK is no address in full",
    "cannot use DPBAYES_DASK=...: it is not tls://HOST:PORT or tcp://HOST:PORT. Write it in full.",
    exit_code=2,
    within=1,
)
@pytest.mark.parametrize("address", ["127.0.0.1:8786", "localhost", "http://127.0.0.1:8786", "tcp://127.0.0.1"])
def test_an_address_that_is_not_written_in_full_is_refused(analysed: Callable[..., Result], address: str) -> None:
    assert_said(analysed(address), test_an_address_that_is_not_written_in_full_is_refused)


@fault(
    "DPBAYES_DASK is tcp:// to another machine that is not allowed by name",
    "cannot use DPBAYES_DASK=tcp://...: tcp:// to another machine is not encrypted, and obeys everybody who reaches "
    "it. Use tls://, or allow ... by name in DPBAYES_DASK_ALLOW_PLAIN.",
    exit_code=2,
    within=1,
)
def test_plain_tcp_to_another_machine_is_refused_unless_it_is_allowed_by_name(
    analysed: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    test = test_plain_tcp_to_another_machine_is_refused_unless_it_is_allowed_by_name
    monkeypatch.setenv("DPBAYES_DASK_ALLOW_PLAIN", "192.0.2.7, other.example")
    for address in ("tcp://192.0.2.1:8786", "tcp://dask.example:8786", "tcp://[2001:db8::1]:8786"):
        assert_said(analysed(address), test)
    for address, allowed in (
        ("tcp://dask.invalid:8786", "Dask.invalid"),
        ("tcp://[2001:db8::1]:8786", "[2001:db8::1]"),
    ):
        monkeypatch.setenv("DPBAYES_DASK_ALLOW_PLAIN", f"other.example, {allowed}")
        assert_said(analysed(address, CONNECT=2), test_a_scheduler_that_is_not_there)


@fault(
    "DPBAYES_DASK_FACTORY names no function that returns a cluster",
    "cannot use DPBAYES_DASK_FACTORY=...: .... Write package.module:function, of a module that is installed or on "
    "PYTHONPATH.",
    exit_code=2,
    within=1,
)
@fault(
    "other users may write the code that DPBAYES_DASK_FACTORY names",
    "cannot use DPBAYES_DASK_FACTORY=...: other users may write ..., or a folder above it, and its code runs with your "
    "rights. Move it to a folder of your own, or `chmod go-w` it.",
    exit_code=2,
    within=1,
)
@fault(
    "the function that DPBAYES_DASK_FACTORY names raises an exception",
    "cannot make the cluster of DPBAYES_DASK_FACTORY=...: .... Run again with --debug for its traceback.",
    exit_code=1,
    within=1,
)
@fault(
    "both DPBAYES_DASK and DPBAYES_DASK_FACTORY are set",
    "cannot use DPBAYES_DASK=... and DPBAYES_DASK_FACTORY=...: they are two clusters. Unset one of them.",
    exit_code=2,
    within=1,
)
def test_a_function_that_makes_no_cluster(
    analysed: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "agency_clusters.py"
    module.write_text("def made():\n    raise RuntimeError('the queue of department 7 is closed')\n")
    cases = (
        ("agency_clusters", "", 0),
        ("agency_clusters:other", "", 0),
        ("agency_clusters:made", "", 2),
        ("agency_clusters:made", "tcp://127.0.0.1:1", 3),
    )
    for name, address, place in cases:
        monkeypatch.setenv("DPBAYES_DASK_FACTORY", name)
        result = analysed(address)
        assert "department 7" not in result.output
        assert_said(result, test_a_function_that_makes_no_cluster, place)
    module.chmod(0o666)
    assert_said(analysed(""), test_a_function_that_makes_no_cluster, 1)


@fault(
    "nothing listens where DPBAYES_DASK points",
    UNREACHABLE,
    exit_code=1,
    within=dask_faults.CONNECT,
)
def test_a_scheduler_that_is_not_there(analysed: Callable[..., Result]) -> None:
    assert_said(analysed("tcp://127.0.0.1:1", CONNECT=3), test_a_scheduler_that_is_not_there)


@fault(
    "the scheduler is stopped before chains begin",
    UNREACHABLE,
    exit_code=1,
    within=dask_faults.CONNECT,
)
@pytest.mark.slow
def test_a_scheduler_that_is_stopped(analysed: Callable[..., Result], cluster: DaskCluster) -> None:
    cluster.scheduler.send_signal(signal.SIGSTOP)
    assert_said(analysed(cluster.address, CONNECT=5), test_a_scheduler_that_is_stopped)


@fault(
    "the scheduler is stopped while blocks run",
    f"cannot go on: the Dask scheduler at ... has not answered for 30 seconds. Restart it and {KEPT}",
    exit_code=1,
    within=dask_faults.ANSWER + 5,
)
@pytest.mark.slow
def test_a_scheduler_that_stops_in_the_middle(
    analysed: Callable[..., Result], cluster: DaskCluster, released: Desk
) -> None:
    cluster.work()
    stopped = when_sampling(released, lambda: cluster.scheduler.send_signal(signal.SIGSTOP))
    assert_said(analysed(cluster.address, ANSWER=5), test_a_scheduler_that_stops_in_the_middle)
    stopped.join()


@fault(
    "the scheduler dies while blocks run and does not come back",
    UNREACHABLE,
    exit_code=1,
    within=dask_faults.CONNECT + 5,
)
@pytest.mark.slow
def test_a_scheduler_that_dies_in_the_middle(
    analysed: Callable[..., Result], cluster: DaskCluster, released: Desk
) -> None:
    cluster.work()
    killed = when_sampling(released, cluster.scheduler.kill)
    assert_said(analysed(cluster.address, CONNECT=5), test_a_scheduler_that_dies_in_the_middle)
    killed.join()


@fault(
    "the scheduler has no worker",
    f"cannot go on: the Dask scheduler at ... has had no worker for 60 seconds. Start workers and {KEPT}",
    exit_code=1,
    within=dask_faults.WORKERS + 5,
)
@pytest.mark.slow
def test_workers_that_are_all_gone(analysed: Callable[..., Result], cluster: DaskCluster, released: Desk) -> None:
    cluster.work()
    killed = when_sampling(released, cluster.kill_workers)
    assert_said(analysed(cluster.address, WORKERS=10), test_workers_that_are_all_gone)
    killed.join()


@fault(
    "all workers stand still",
    "cannot go on: the workers of the Dask scheduler at ... have given no sign of life for 60 seconds. "
    f"Restart them and {KEPT}",
    exit_code=1,
    within=dask_faults.WORKERS + 5,
)
@pytest.mark.slow
def test_workers_that_stand_still(analysed: Callable[..., Result], cluster: DaskCluster, released: Desk) -> None:
    cluster.work()
    stopped = when_sampling(released, cluster.stop_workers)
    assert_said(analysed(cluster.address, WORKERS=15), test_workers_that_stand_still)
    stopped.join()


@fault(
    "a worker has another version of a package",
    "cannot use the Dask scheduler at ...: a worker of it has numpy 0.0.1, and ... is here. "
    "Install the same requirements.lock on all machines.",
    exit_code=1,
    within=dask_faults.WORKERS,
)
@pytest.mark.slow
def test_a_worker_of_another_version(analysed: Callable[..., Result], cluster: DaskCluster, tmp_path: Path) -> None:
    cluster.work(PYTHONPATH=other_version("numpy", tmp_path))
    assert_said(analysed(cluster.address), test_a_worker_of_another_version)


@pytest.mark.slow
def test_a_worker_of_another_version_that_joins_while_blocks_run(
    analysed: Callable[..., Result], cluster: DaskCluster, released: Desk, tmp_path: Path
) -> None:
    cluster.work()
    joined = when_sampling(released, lambda: cluster.work(PYTHONPATH=other_version("numpy", tmp_path)))
    assert_said(analysed(cluster.address), test_a_worker_of_another_version)
    joined.join()


@fault(
    "the scheduler has another version of a package",
    "cannot use the Dask scheduler at ...: it has msgpack 0.0.1, and ... is here. "
    "Install the same requirements.lock on all machines.",
    exit_code=1,
    within=dask_faults.WORKERS,
)
@pytest.mark.slow
def test_a_scheduler_of_another_version(analysed: Callable[..., Result], tmp_path: Path) -> None:
    with DaskCluster(tmp_path / "dask", settings={"PYTHONPATH": other_version("msgpack", tmp_path)}) as cluster:
        assert_said(analysed(cluster.address), test_a_scheduler_of_another_version)


def other_version(package: str, folder: Path) -> str:
    """A folder that makes a process believe it had version 0.0.1 of a package."""
    place = folder / f"{package}-0.0.1.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.0.1\n")
    return str(folder)


@fault(
    "a worker lacks our packages",
    "cannot use the Dask scheduler at ...: a worker of it lacks dpbayes. "
    "Install the same requirements.lock on all machines.",
    exit_code=1,
    within=dask_faults.WORKERS,
)
@pytest.mark.slow
def test_a_worker_without_our_packages(analysed: Callable[..., Result], cluster: DaskCluster, tmp_path: Path) -> None:
    cluster.work(python=sys._base_executable, PYTHONPATH=packages_without("dpbayes", tmp_path))  # type: ignore[attr-defined]
    assert_said(analysed(cluster.address), test_a_worker_without_our_packages)


@fault(
    "a worker lacks a package that our requirements name",
    "cannot use the Dask scheduler at ...: a worker of it lacks numba. "
    "Install the same requirements.lock on all machines.",
    exit_code=1,
    within=dask_faults.WORKERS,
)
@pytest.mark.slow
def test_a_worker_without_a_package(analysed: Callable[..., Result], cluster: DaskCluster, tmp_path: Path) -> None:
    path = os.pathsep.join((packages_without("numba", tmp_path), str(ROOT)))
    cluster.work(python=sys._base_executable, PYTHONPATH=path)  # type: ignore[attr-defined]
    assert_said(analysed(cluster.address), test_a_worker_without_a_package)


def packages_without(name: str, folder: Path) -> str:
    """A folder with all packages but one."""
    elsewhere = folder / "packages"
    elsewhere.mkdir()
    for found in Path(pytest.__file__).parent.parent.iterdir():
        if name not in found.name and found.suffix != ".pth":
            (elsewhere / found.name).symlink_to(found)
    return str(elsewhere)


@fault(
    "scheduler and command do not accept each other's certificates",
    "cannot trust the Dask scheduler at ...: its certificate, or ours, is not signed by the authority that the other "
    "end trusts. Correct DASK_DISTRIBUTED__COMM__TLS__*.",
    exit_code=1,
    within=dask_faults.CONNECT,
)
@pytest.mark.slow
def test_a_scheduler_of_another_authority(analysed: Callable[..., Result], tmp_path: Path) -> None:
    theirs, ours = (certificate(tmp_path, name) for name in ("theirs", "ours"))
    with DaskCluster(tmp_path / "dask", settings=theirs, protocol="tls") as cluster, read_by_dask(ours):
        assert_said(analysed(cluster.address), test_a_scheduler_of_another_authority)


@fault(
    "DPBAYES_DASK is tls:// and no certificate is configured, or its file cannot be read",
    "cannot reach the Dask scheduler at ...: no certificate of ours is configured, or its file cannot be read. "
    "Set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY.",
    exit_code=2,
    within=1,
)
def test_no_certificate_for_a_scheduler_behind_tls(analysed: Callable[..., Result], tmp_path: Path) -> None:
    assert_said(analysed("tls://127.0.0.1:1"), test_no_certificate_for_a_scheduler_behind_tls)
    ours = certificate(tmp_path, "ours")
    (tmp_path / "ours.key").unlink()
    with read_by_dask(ours):
        assert_said(analysed("tls://127.0.0.1:1"), test_no_certificate_for_a_scheduler_behind_tls)


@pytest.mark.slow
@pytest.mark.parametrize(("theirs", "asked"), [("tcp", "tls"), ("tls", "tcp")])
def test_one_end_in_the_clear_and_the_other_behind_tls(
    analysed: Callable[..., Result], tmp_path: Path, theirs: str, asked: str
) -> None:
    settings = certificate(tmp_path, "ours")
    with DaskCluster(tmp_path / "dask", settings=settings, protocol=theirs) as cluster, read_by_dask(settings):
        result = analysed(cluster.address.replace(theirs, asked, 1), CONNECT=5)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert_says(result.stderr, f"the Dask scheduler at {asked}://")


@pytest.mark.slow
def test_a_cluster_behind_tls_that_restarts_in_the_middle_draws_what_one_that_stands_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk.set_up(tmp_path)
    desk.release()
    desk.edit_study("draws: 500", "draws: 40000")
    settings = certificate(tmp_path, "ours")
    with DaskCluster(tmp_path / "dask", settings=settings, protocol="tls") as cluster, read_by_dask(settings):
        monkeypatch.setenv("DPBAYES_DASK", cluster.address)
        cluster.work()
        begun_again = when_sampling(desk, cluster.begin_again)
        there = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"][0]
        begun_again.join()
    monkeypatch.delenv("DPBAYES_DASK")
    assert not there["already_analysed"]
    shutil.rmtree(there["crate"])
    here = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"][0]
    assert not here["already_analysed"]
    assert here["coefficients"] == there["coefficients"]


@pytest.mark.slow
def test_a_project_file_names_a_cluster_behind_tls_and_its_certificates(tmp_path: Path) -> None:
    desk = Desk.set_up(tmp_path)
    desk.release()
    with DaskCluster(tmp_path / "dask", settings=certificate(tmp_path, "ours"), protocol="tls") as cluster:
        (tmp_path / "dpbayes.yaml").write_text(
            f"dask: {{address: {cluster.address}, ca: ours.crt, cert: ours.crt, key: ours.key}}"
        )
        cluster.work()
        analysis = document("analyse", desk.study, "--period", PERIOD, cwd=tmp_path)["analyses"][0]
    assert not analysis["already_analysed"]
    assert "Receive client connection" in (tmp_path / "dask" / "errors.log").read_text()
