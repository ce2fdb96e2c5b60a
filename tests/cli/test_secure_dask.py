"""The pass on a cluster of the secure zone, as a steward runs it: the same vault, and one sentence for each fault."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks import dask_faults
from tests.support.dask_cluster import DaskCluster, certificate, read_by_dask
from tests.support.desk import PERIOD, Desk
from tests.support.faults import assert_says, fault, faults_of


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaskCluster]:
    settings = certificate(tmp_path / "certificates", "ours")
    with DaskCluster(tmp_path / "dask", settings=settings, protocol="tls") as started, read_by_dask(settings):
        monkeypatch.setenv("DPBAYES_SECURE_DASK", started.address)
        yield started


def detail(desk: Desk) -> dict[str, str]:
    """The digest of what the vault holds of the values."""
    vault = [path for path in (desk.home / "vault").rglob("*") if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vault if path.suffix == ".json"}


def assert_ends_as(desk: Desk, test: Any, *arguments: str) -> None:
    """The release ends with the sentence and the exit code of the test's fault, and nothing is charged."""
    expected = faults_of(test)[0]
    error = desk.release(*arguments, exit_code=expected.exit_code)["error"]
    assert_says(error["message"], re.sub(r"\d+ seconds", "... seconds", expected.sentence))
    assert desk.document("ledger", "history", desk.study)["entries"][-1]["kind"] != "charge"


@fault(
    "DPBAYES_SECURE_DASK is no address behind TLS",
    "cannot use DPBAYES_SECURE_DASK=...: it is not tls://HOST:PORT. Write it in full; rows are read behind TLS only.",
    exit_code=2,
    within=1,
)
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "127.0.0.1:8786"])
def test_a_secure_cluster_that_is_not_behind_tls_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("DPBAYES_SECURE_DASK", address)
    before = desk.document("ledger", "history", desk.study)["entries"]
    assert_ends_as(desk, test_a_secure_cluster_that_is_not_behind_tls_is_refused)
    looked = desk.document("inspect", desk.study, "--period", PERIOD, exit_code=2)
    assert "it is not tls://HOST:PORT" in looked["error"]["message"]
    assert desk.document("ledger", "history", desk.study)["entries"] == before


@fault(
    "nothing listens where DPBAYES_SECURE_DASK points",
    "cannot reach the Dask scheduler at ...: none answered within 30 seconds. "
    "Start it, or correct or unset DPBAYES_SECURE_DASK.",
    exit_code=1,
    within=dask_faults.CONNECT,
)
@pytest.mark.slow
def test_a_secure_cluster_that_is_not_there(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_SECURE_DASK", "tls://127.0.0.1:1")
    monkeypatch.setattr(dask_faults, "CONNECT", 3.0)  # tests do not wait for the documented limit
    with read_by_dask(certificate(tmp_path / "certificates", "ours")):
        assert_ends_as(desk, test_a_secure_cluster_that_is_not_there)


@fault(
    "the secure cluster has no worker",
    "cannot go on: the Dask scheduler at ... has had no worker for 60 seconds. "
    "Start workers and run again; nothing was charged.",
    exit_code=1,
    within=dask_faults.WORKERS + 5,
)
@pytest.mark.slow
def test_a_secure_cluster_without_workers(desk: Desk, cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_faults, "WORKERS", 10.0)  # tests do not wait for the documented limit
    assert cluster.size == 0
    assert_ends_as(desk, test_a_secure_cluster_without_workers)


@pytest.mark.slow
def test_a_secure_cluster_leaves_the_same_detail_in_the_vault_and_releases(
    desk: Desk, cluster: DaskCluster, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        cluster.work()
    desk.document("inspect", desk.study, "--period", PERIOD)
    there = detail(desk)
    monkeypatch.delenv("DPBAYES_SECURE_DASK")
    other = Desk.set_up(tmp_path_factory.mktemp("other"))
    other.document("inspect", other.study, "--period", PERIOD)
    assert there["profile.json"] == detail(other)["profile.json"]
    monkeypatch.setenv("DPBAYES_SECURE_DASK", cluster.address)
    assert desk.release()["releases"][0]["status"] == "released"
    assert desk.document("audit", desk.study)["ok"]
    profile = json.loads(next(iter((desk.home / "vault").rglob("profile.json"))).read_text())
    assert profile["rows"] == 2000
