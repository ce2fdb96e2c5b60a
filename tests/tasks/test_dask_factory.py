"""A function of the user's that makes a cluster: real clusters that grow and shrink, and code that is not trusted."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tasks.dask import dask_workers, shared_cluster
from tasks.dask_factory import FACTORY, Factory
from tasks.dask_faults import DaskMisnamed, DaskUnavailable
from tests.support.command import ROOT

CLUSTERS = """
import os
from pathlib import Path
from distributed import Client, LocalCluster, Nanny, Scheduler, SpecCluster

CALLS = Path(__file__).with_name("calls")

def adaptive():
    CALLS.write_text(CALLS.read_text() + "called " if CALLS.exists() else "called ")
    cluster = LocalCluster(n_workers=0, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
    cluster.adapt(minimum=0, maximum=2, interval="200ms")
    return cluster

def behind_tls():
    from distributed.security import Security
    common = {"host": "127.0.0.1", "protocol": "tls://", "security": Security.temporary()}
    cluster = SpecCluster(
        scheduler={"cls": Scheduler, "options": {"dashboard": False, **common}},
        workers={0: {"cls": Nanny, "options": {"nthreads": 1, **common}}},
        security=common["security"],
    )
    return Client(cluster, set_as_default=False)

def without_workers():
    return LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0")

def on_the_network():
    return LocalCluster(n_workers=0, host=os.environ["TEST_OF_FACTORIES"], dashboard_address="127.0.0.1:0")

def no_cluster():
    return 7

NOTHING = None
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of the user's, named `agency_clusters`."""
    place = tmp_path / "agency_clusters.py"
    place.write_text(CLUSTERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("DPBAYES_DASK", raising=False)
    yield place
    for name in ("agency_clusters", "agency", "agency.clusters"):
        sys.modules.pop(name, None)


def worker(_number: int) -> int:
    """The process that runs it."""
    return os.getpid()


def processes(work: Path) -> set[int]:
    with dask_workers(None, work, kept="nothing is") as workers:
        for number in range(8):
            workers.submit(number, worker, number)
        return {process for _, process in workers.finished()}


@pytest.mark.slow
def test_an_adaptive_cluster_is_made_once_for_all_analyses_and_closed_after_them(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FACTORY, "agency_clusters:adaptive")
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with shared_cluster(None, tmp_path):
        used = [processes(tmp_path) for _ in range(20)]
        assert all(found and os.getpid() not in found for found in used)
    assert (tmp_path / "calls").read_text().split() == ["called"]
    assert not [pid for found in used for pid in found if psutil.pid_exists(pid)]
    left = {child.pid: " ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)}
    assert [line for pid, line in left.items() if pid not in before and "resource_tracker" not in line] == []


@pytest.mark.slow
def test_the_function_in_the_documentation_makes_a_cluster(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    (code,) = re.findall(rf"```python\n(# {module.name}\n.*?)```", page, re.DOTALL)
    (name,) = re.findall(rf"{FACTORY}=({module.stem}\S+)", page)
    module.write_text(code)
    monkeypatch.setenv(FACTORY, name)
    assert os.getpid() not in processes(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["adaptive", "behind_tls"])
def test_a_cluster_or_a_client_runs_pieces_under_their_numbers(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv(FACTORY, f"agency_clusters:{function}")
    with dask_workers(None, tmp_path, kept="nothing is") as workers:
        for number in range(3):
            workers.submit(number, abs, -number)
        assert dict(workers.finished()) == {0: 0, 1: 1, 2: 2}


@pytest.mark.slow
def test_a_cluster_without_workers_is_waited_for_as_long_as_the_user_says(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FACTORY, "agency_clusters:without_workers")
    monkeypatch.setenv("DPBAYES_DASK_WAIT", "6")
    with pytest.raises(DaskUnavailable, match="has had no worker for 6 seconds"):
        processes(tmp_path)


@pytest.mark.slow
def test_a_made_cluster_in_plain_tcp_on_the_network_is_refused_unless_it_is_allowed_by_name(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = (one.address for found in psutil.net_if_addrs().values() for one in found)
    host = next((each for each in addresses if each.count(".") == 3 and not each.startswith("127.")), None)
    if host is None:
        pytest.skip("this machine has no address but loopback")
    monkeypatch.setenv("TEST_OF_FACTORIES", host)
    monkeypatch.setenv(FACTORY, "agency_clusters:on_the_network")
    with (
        pytest.raises(DaskMisnamed, match=f"not encrypted.*or allow {host} by name in DPBAYES_DASK_ALLOW_PLAIN"),
        dask_workers(None, tmp_path, kept="nothing is"),
    ):
        pass
    monkeypatch.setenv("DPBAYES_DASK_ALLOW_PLAIN", host)
    with dask_workers(None, tmp_path, kept="nothing is"):
        pass


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("agency_clusters", "it is not of the form package.module:function"),
        ("agency_clusters:made:again", "it is not of the form package.module:function"),
        ("../clusters:made", "it is not of the form package.module:function"),
        ("agency_cluster:adaptive", "there is no module agency_cluster"),
        ("agency_clusters.more:adaptive", "importing agency_clusters.more raises ModuleNotFoundError"),
        ("agency_clusters:adaptiv", "agency_clusters has no function adaptiv"),
        ("agency_clusters:NOTHING", "agency_clusters has no function NOTHING"),
        ("agency_clusters:no_cluster", "it returns int, no Cluster or Client"),
    ],
)
def test_a_name_of_no_such_function_is_refused(module: Path, name: str, reason: str) -> None:
    with pytest.raises(DaskMisnamed) as refused, Factory.named(name).client():
        pass
    assert str(refused.value) == (
        f"cannot use {FACTORY}={name}: {reason}. Write package.module:function, of a module that is installed or on "
        "PYTHONPATH."
    )


@pytest.mark.parametrize("writable", ["agency/clusters.py", "agency/__init__.py", "agency", "."])
def test_code_that_others_may_write_is_refused_before_any_of_it_runs(
    module: Path, tmp_path: Path, writable: str
) -> None:
    (tmp_path / "agency").mkdir()
    for name in ("__init__.py", "clusters.py"):
        (tmp_path / "agency" / name).write_text("raise SystemExit('this ran')")
    place = tmp_path / writable
    place.chmod(place.stat().st_mode | 0o022)
    if writable != "agency/clusters.py":
        with pytest.raises(DaskMisnamed, match=r"other users may write .*agency"):
            Factory.named("agency.clusters:made")
        return
    (tmp_path / "agency" / "__init__.py").write_text("")
    with pytest.raises(DaskMisnamed, match=r"other users may write .*clusters.py"):
        Factory.named("agency.clusters:made")


def test_code_that_others_may_have_compiled_is_refused(module: Path) -> None:
    compiled = module.parent / "__pycache__" / f"agency_clusters.{sys.implementation.cache_tag}.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"")
    compiled.chmod(0o666)
    with pytest.raises(DaskMisnamed, match=r"other users may write .*agency_clusters.py"):
        Factory.named("agency_clusters:adaptive")
